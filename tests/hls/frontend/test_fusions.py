# SPDX-License-Identifier: Apache-2.0
"""Normalisations folded into the layers before them: csim is the trained network, whatever hls4ml would have made of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hypersonic.hls.core import Core
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.project import HlsProject
from hypersonic.hls.rtl.simulate import RtlCore
from tests.support.session import run_keras_2

pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("fusions")
    run_keras_2(Path(__file__).with_name("fusion_session.py"), where)
    return where


@pytest.mark.parametrize("model", ["image", "line"])
def test_every_normalisation_gives_the_trained_models_numbers(directory: Path, model: str) -> None:
    """Types of 15 bits behind the point: what is left is rounding."""
    figures = json.loads((directory / f"{model}.json").read_text())
    assert {case for case, (_, spread) in figures.items() if spread < 1} == set()
    assert {case: worst for case, (worst, _) in figures.items() if worst > 1e-3} == {}


def test_a_mobilenet_block_with_keras_names_is_an_rf_core_of_equal_integers(directory: Path) -> None:
    ((worst, spread),) = json.loads((directory / "mobile.json").read_text()).values()
    assert worst < 0.01
    assert spread > 0.3
    project, core = HlsProject.load(directory / "mobile"), Core.load(directory / "mobile" / "core")
    x = np.random.default_rng(0).integers(-(1 << 17), 1 << 17, (40, project.inputs.size))
    expected = Csim(compile_csim(project), project).predict_raw(x)
    assert len(np.unique(expected)) > 50
    with RtlCore(core, optimisation="-O0") as rtl:
        np.testing.assert_array_equal(rtl.predict_raw(x), expected)
