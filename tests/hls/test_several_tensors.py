# SPDX-License-Identifier: Apache-2.0
"""Models of two inputs and two outputs, from Keras and from ONNX: csim is the trained network, and the RTL is csim."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hypersonic.hls.core import Core
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.project import HlsProject
from hypersonic.hls.rtl.simulate import RtlCore, Stalls
from hypersonic.hls.spec import SpecMismatchError
from hypersonic.hls.verilator import lint
from tests.hls.several_models import gate_rows, network

pytestmark = pytest.mark.whole

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NAMES = ("two_keras", "two_onnx")
SHAPES = "shapes"


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, HlsProject]:
    directory = tmp_path_factory.mktemp("several")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_USE_LEGACY_KERAS": "1"}
    argv = [sys.executable, str(HERE / "several_models.py"), str(directory)]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return {name: HlsProject.load(directory / name) for name in (*NAMES, SHAPES)}


@pytest.mark.parametrize("name", NAMES)
def test_tensors_are_in_the_models_order_whatever_the_layers_and_the_yaml_have(
    projects: dict[str, HlsProject], name: str
) -> None:
    project = projects[name]
    assert [(x.name, x.shape, x.datatype) for x in project.inputs.tensors] == [
        ("tracks", (4,), "UINT8"),
        ("calo", (2, 3), "FP32"),
    ]
    assert [(y.name, y.shape, y.datatype) for y in project.outputs.tensors] == [
        ("flag", (3,), "FP32"),
        ("energy", (2,), "INT32"),
    ]
    assert str(project.outputs.tensors[1].fixed) == "ap_fixed<24,12,AP_TRN,AP_WRAP>"
    assert (project.inputs.row_bytes, project.outputs.row_bytes) == (4 + 24, 12 + 8)


@pytest.mark.parametrize("name", NAMES)
def test_csim_is_the_network_in_exact_arithmetic(projects: dict[str, HlsProject], name: str) -> None:
    project = projects[name]
    x_raw = project.inputs.to_raw(gate_rows())
    parts = zip(project.inputs.tensors, project.inputs.split(x_raw), strict=True)
    track, calo = (spec.fixed.to_float(raw) for spec, raw in parts)
    raw = project.outputs.split(Csim(compile_csim(project), project).predict_raw(x_raw))
    for spec, got, expected in zip(project.outputs.tensors, raw, network(calo, track), strict=True):
        assert len(np.unique(expected)) > 100
        np.testing.assert_array_equal(spec.fixed.to_float(got), expected)
    with pytest.raises(SpecMismatchError, match=r"rows have shape \(300, 4\), expected \(rows, 10\)"):
        Csim(compile_csim(project), project).predict_raw(x_raw[:, :4])


def test_the_report_has_the_figures_of_each_output(projects: dict[str, HlsProject]) -> None:
    gate = projects["two_onnx"].report["gate"]
    assert list(gate["outputs"]) == ["energy", "flag"]
    assert gate["outputs"]["energy"]["fraction_exact"] == gate["fraction_exact"] == 1.0
    assert gate["quantised_tolerance"] == {"flag": 0.0, "energy": 0.0}


def test_elements_are_where_the_trained_model_has_them_on_every_axis(projects: dict[str, HlsProject]) -> None:
    """The gate has compared csim with Keras, tolerance 0; the RTL is compared with csim below."""
    gate = projects[SHAPES].report["gate"]
    assert gate["outputs"].keys() == {"plane1", "plane2", "cube1", "cube2", "cube3", "mean", "scaled"}
    assert gate["fraction_exact"] == 1.0


def test_rtl_equals_csim_under_stalls_and_after_a_reset(projects: dict[str, HlsProject]) -> None:
    cores = [Core.load(project.core) for project in projects.values()]
    rng = np.random.default_rng(8)
    for project, core in zip(projects.values(), cores, strict=True):
        assert (core.inputs, core.outputs) == (project.inputs, project.outputs)
        lint(core.sources, core.top)
        types = [tensor.fixed for tensor in project.inputs.tensors for _ in range(tensor.size)]
        x = rng.integers([t.min_raw for t in types], [t.max_raw for t in types], (1000, len(types)), endpoint=True)
        expected = Csim(compile_csim(project), project).predict_raw(x)
        with RtlCore(core, beside=cores, optimisation="-O0") as rtl:
            np.testing.assert_array_equal(rtl.predict_raw(x, Stalls(60, 90, 3)), expected)
            rtl.predict_raw(x, Stalls(60, 90, 4), clock_limit=500)
            rtl.reset()
            np.testing.assert_array_equal(rtl.predict_raw(x), expected)
