# SPDX-License-Identifier: Apache-2.0
"""QONNX files of Brevitas: types come from the quantisers, and a Quant without such a type is refused by the node's name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hypersonic.hls.project import HlsProject
from tests.support.session import run_keras_2

pytestmark = pytest.mark.whole

REFUSED = {
    "weight_scale": r"layer '/1/Quant': its scale 0\.3 is not a power of two, which fixed-point numbers need; train with power",
    "input_scale": r"layer '/0/Quant': its scale 0\.7 is not a power of two",
    "zero_point": r"layer '/0/Quant': its zero point is 2; expected 0",
    "scales": r"layer '/0/Quant': it has 4 scales, and hls4ml has one type for all channels; expected one scale",
    "narrow": r"layer '/0/Quant': it is narrow unsigned with rounding ROUND and 8\.0 bits; expected ROUND or FLOOR",
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("qonnx")
    run_keras_2(Path(__file__).with_name("qonnx_session.py"), where)
    return where


def test_a_quantised_residual_network_is_exact(directory: Path) -> None:
    """Its gate has compared csim with qonnx for 200 rows, tolerance 0."""
    project = HlsProject.load(directory / "exact")
    (figures,) = project.report["gate"]["outputs"].values()
    assert figures["fraction_exact"] == 1.0
    assert figures["greatest"] - figures["least"] > 1
    assert project.inputs.tensors[0].shape == (6, 4, 2)


@pytest.mark.parametrize("case", REFUSED)
def test_a_quantiser_that_is_no_type_is_refused_by_the_nodes_name(directory: Path, case: str) -> None:
    said = json.loads((directory / "said.json").read_text())[case]
    assert re.match(REFUSED[case], said), said
