# SPDX-License-Identifier: Apache-2.0
"""The promise of the rf core, layer type by layer type, on networks nobody chose: the integers of hls4ml's compiled C++ under
stalls, and the clocks that were predicted."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.hls.core import Core
from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.network.base import Network
from hypersonic.hls.network.evaluate import evaluate
from hypersonic.hls.rtl.simulate import RtlCore, Stalls, compile_cores
from hypersonic.hls.verilator import lint
from tests.hls.rf.golden import golden, random_rows

ROOT = Path(__file__).resolve().parents[3]
SEED = int(os.environ.get("HYPERSONIC_RF_SEED", "1"))
ROWS = 60


@dataclass(frozen=True)
class Drawn:
    """Networks that are drawn. families: name -> models of it. da_cores: so many of them the da core can compute, at least."""

    families: dict[str, int]
    da_cores: int


#: the parts of most networks; the other families, and more models of these, are among ALL
FEW = Drawn({"chain": 1, "convolution": 1, "pool": 1, "softmax": 1, "residual": 1, "recurrent": 1}, 2)
ALL = Drawn(
    {
        "chain": 2, "curve": 3, "convolution": 2, "depthwise": 1, "pool": 2, "softmax": 1, "residual": 1, "wiring": 1,
        "several": 1, "beats": 1, "recurrent": 1, "bidirectional": 1, "layernorm": 1, "binary": 1, "einsum": 1, "steps": 1,
    },
    5,
)  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A converted network, its core and the integers its C++ answers."""

    core: Core
    network: Network
    x: NDArray[np.int64]
    y: NDArray[np.int64]
    adders: AdderGraph | None
    da: Core | None


@pytest.fixture(scope="module", params=[pytest.param(FEW, id="few"), pytest.param(ALL, id="all", marks=pytest.mark.whole)])
def drawn(request: pytest.FixtureRequest) -> Drawn:
    return request.param


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, drawn: Drawn) -> list[Made]:
    """Every drawn family's models."""
    directory = tmp_path_factory.mktemp("rf")
    argv = [sys.executable, str(Path(__file__).with_name("rf_models.py")), str(SEED), str(directory)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_USE_LEGACY_KERAS": "1"}
    argv += [f"{family}:{count}" for family, count in drawn.families.items()]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return [_made(file.parent) for file in sorted(directory.glob("*/network.pickle"))]


def _made(path: Path) -> Made:
    network = pickle.loads((path / "network.pickle").read_bytes())
    x = random_rows(network, ROWS, SEED)
    adders, da = None, None
    if (path / "da" / "adders.pickle").is_file():
        adders, da = pickle.loads((path / "da" / "adders.pickle").read_bytes()), Core.load(path / "da")
        da = replace(da, name=f"da_{path.name}")
    return Made(Core.load(path / "core"), network, x, golden(path, x), adders, da)


def test_every_layer_type_equals_hls4mls_cpp_under_stalls_and_after_a_reset(models: list[Made]) -> None:
    cores = [one.core for one in models]
    compile_cores(cores, "-O0")
    for one in models:
        with RtlCore(one.core, beside=cores, optimisation="-O0") as rtl:
            rtl.predict_raw(one.x, Stalls(60, 90, SEED), clock_limit=200)
            rtl.reset()
            np.testing.assert_array_equal(rtl.predict_raw(one.x, Stalls(60, 90, SEED)), one.y, err_msg=one.core.name)


def test_every_core_is_clean_under_wall(models: list[Made]) -> None:
    for one in models:
        lint(one.core.sources, one.core.top)


def test_what_the_layers_promise_is_what_hls4mls_cpp_computes(models: list[Made]) -> None:
    for one in models:
        np.testing.assert_array_equal(evaluate(one.network, one.x).astype(np.int64), one.y, err_msg=one.core.name)


def test_the_adders_of_the_da_core_compute_the_same(models: list[Made], drawn: Drawn) -> None:
    made = [one for one in models if one.adders]
    assert len(made) >= drawn.da_cores
    for one in made:
        assert one.adders is not None
        assert one.da is not None
        np.testing.assert_array_equal(one.adders.evaluate(one.x), one.y, err_msg=one.core.name)
        lint(one.da.sources, one.da.top)


def test_measured_clocks_are_those_predicted(models: list[Made]) -> None:
    cores = [one.core for one in models]
    for one in models:
        with RtlCore(one.core, beside=cores, optimisation="-O0") as rtl:
            rtl.predict_raw(one.x)
            predicted = one.core.latency_cycles + (ROWS - 1) * one.core.ii + 1
            assert abs(rtl.clocks - predicted) <= 0.02 * predicted, f"{one.core.name}: {rtl.clocks}, predicted {predicted}"


def test_every_family_gave_a_core(models: list[Made], drawn: Drawn) -> None:
    assert {one.core.name.rsplit("_", 1)[0] for one in models} == set(drawn.families)
