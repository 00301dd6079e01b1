# SPDX-License-Identifier: Apache-2.0
"""Whole networks as people draw them, with the names that Keras gives: RTL is hls4ml's C++, which is near the framework."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.hls.core import Core
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.project import HlsProject
from hypersonic.hls.rtl.simulate import RtlCore, Stalls, compile_cores
from tests.hls.frontend.topologies import CONVERTED, REFUSED, Case

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
ROWS = 40

#: of the worst output of rows of unit width; weights and sums have ten fraction bits and more
NEAR = 0.05


def write(directory: Path, part: str) -> Path:
    """Let a process of its own write this part of the networks."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_USE_LEGACY_KERAS": "1"}
    argv = [sys.executable, str(HERE / "topologies.py"), str(directory), part]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return directory


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("few"), "few")


@pytest.fixture(scope="module", params=["few", pytest.param("all others", marks=pytest.mark.whole)])
def projects(request: pytest.FixtureRequest, few: Path, tmp_path_factory: pytest.TempPathFactory) -> list[HlsProject]:
    directory = few if request.param == "few" else write(tmp_path_factory.mktemp("others"), request.param)
    return [HlsProject.load(directory / case.name) for case in CONVERTED[request.param]]


def rows(project: HlsProject) -> NDArray[np.int64]:
    """Anywhere in the range, and both ends."""
    types = [tensor.fixed for tensor in project.inputs.tensors for _ in range(tensor.size)]
    low, high = [fixed.min_raw for fixed in types], [fixed.max_raw for fixed in types]
    x = np.random.default_rng(1).integers(low, high, (ROWS, len(types)), endpoint=True)
    x[0], x[1] = low, high
    return x


def test_every_core_equals_hls4mls_cpp_under_stalls_and_after_a_reset(projects: list[HlsProject]) -> None:
    cores = [Core.load(project.core) for project in projects]
    compile_cores(cores, "-O0")
    for project, core in zip(projects, cores, strict=True):
        x = rows(project)
        expected = Csim(compile_csim(project, optimisation="-O0"), project).predict_raw(x)
        with RtlCore(core, beside=cores, optimisation="-O0") as rtl:
            rtl.predict_raw(x, Stalls(60, 90, 1), clock_limit=200)
            rtl.reset()
            np.testing.assert_array_equal(rtl.predict_raw(x, Stalls(60, 90, 1)), expected, err_msg=project.name)
            if core.kind == "rf" and len(core.outputs.tensors) == 1:  # of several, the early ones wait for the last
                rtl.reset()
                rtl.predict_raw(x)
                predicted = core.latency_cycles + (ROWS - 1) * core.ii + 1
                assert abs(rtl.clocks - predicted) <= 0.02 * predicted, f"{project.name}: {rtl.clocks}, predicted {predicted}"


def test_the_cpp_is_near_the_framework_that_drew_the_network(projects: list[HlsProject]) -> None:
    worst = {project.name: project.report["gate"]["max_abs_difference"] for project in projects}
    assert max(worst.values()) < NEAR, worst


def test_a_mean_of_three_is_said_to_be_a_sum_and_a_factor(few: Path) -> None:
    mean = "layer 'average': the mean of 3 tensors is their sum times 0.333333 as ap_ufixed<17,0>"
    for name in ("merges_da", "merges_rf"):
        assert mean in HlsProject.load(few / name).report["notes"]


@pytest.mark.parametrize(("index", "case"), list(enumerate(REFUSED)), ids=lambda one: one.name if isinstance(one, Case) else "")
def test_what_no_core_computes_is_refused_by_the_layers_name(few: Path, index: int, case: Case) -> None:
    messages = json.loads((few / "refused.json").read_text())
    assert re.search(REFUSED[case], messages.get(str(index), "converted"))
