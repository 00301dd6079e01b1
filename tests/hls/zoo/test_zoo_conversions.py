# SPDX-License-Identifier: Apache-2.0
"""DeepCalo, EmTrkMichelId from packed patches, DeepMET and DeepClean, with a few units each: hls4ml converts them as their
YAMLs say, and the rf core gives the integers of its C++."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.hls.core import Core
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.frontend.description import ZOO, DescriptionError, read_description
from hypersonic.hls.project import HlsProject
from hypersonic.hls.rtl.simulate import RtlCore, Stalls, compile_cores

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("deepcalo", "deepcalo_film", "deepclean", "deepmet", "emtrk_packed")


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, HlsProject]:
    directory = tmp_path_factory.mktemp("reduced")
    argv = [sys.executable, str(Path(__file__).with_name("reduced_models.py")), str(directory)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_USE_LEGACY_KERAS": "1", "OMP_NUM_THREADS": "2"}
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return {name: HlsProject.load(directory / name) for name in NAMES}


def random_rows(project: HlsProject, rows: int) -> NDArray[np.int64]:
    """Numbers of unit width; categories, which are unsigned, of all that their type can say, more than there are."""
    rng = np.random.default_rng(11)
    numbers = [
        np.ldexp(rng.normal(size=(rows, x.size)), -x.exponents)
        if x.fixed.signed
        else rng.integers(0, 1 << x.fixed.width, (rows, x.size))
        for x in project.inputs.tensors
    ]
    sent = (x.packing.nearest(one) if x.packing else one for x, one in zip(project.inputs.tensors, numbers, strict=True))
    return project.inputs.to_raw(tuple(sent))


def test_small_networks_are_near_keras_and_their_cores_equal_hls4mls_cpp(projects: dict[str, HlsProject]) -> None:
    cores = [Core.load(project.core) for project in projects.values()]
    compile_cores(cores, "-O0")
    for core, (name, project) in zip(cores, projects.items(), strict=True):
        gate = read_description(ZOO / name / f"{name}.h5").gate
        assert gate is not None
        assert project.report["gate"]["quantised_max_abs_difference"] <= gate.quantised_tolerance_of(""), name
        x = random_rows(project, 4)
        expected = Csim(compile_csim(project), project).predict_raw(x)
        assert (np.ptp(expected, axis=0) > 0).any(), name
        with RtlCore(core, beside=cores, optimisation="-O0") as rtl:
            np.testing.assert_array_equal(rtl.predict_raw(x), expected, err_msg=name)
            predicted = core.latency_cycles + (len(x) - 1) * core.ii + 1
            assert abs(rtl.clocks - predicted) <= 0.02 * predicted, f"{name}: {rtl.clocks}, predicted {predicted}"
            np.testing.assert_array_equal(rtl.predict_raw(x, Stalls(60, 90)), expected, err_msg=name)


@pytest.mark.parametrize(
    ("name", "inputs", "outputs"),
    [
        ("deepcalo", ["em_barrel"], ["energy"]),
        ("deepcalo_film", ["scalars", "tracks", "em_barrel"], ["energy"]),
        ("deepclean", ["witness"], ["noise"]),
        ("deepmet", ["input_cat0", "input_cat1", "input_cat2", "input"], ["output/BiasAdd"]),
        ("emtrk", ["main_input"], ["em_trk_none_netout/Softmax", "michel_netout/Sigmoid"]),
    ],
)
def test_tensors_travel_under_the_published_names(name: str, inputs: list[str], outputs: list[str]) -> None:
    described = read_description(ZOO / name / f"{name}.h5")
    assert [side.name for side in described.inputs] == inputs
    assert [side.name for side in described.outputs] == outputs
    assert described.core == "rf"


def test_another_shape_on_the_wire_is_a_list_of_sizes(tmp_path: Path) -> None:
    file = tmp_path / "tiny.yaml"
    for shape in ("[4, 0]", "4", "[2.0]", "[true]"):
        file.write_text(f"name: tiny\ninput: {{precision: 'ap_fixed<8,4>', shape: {shape}}}\noutput: {{}}\n")
        with pytest.raises(DescriptionError, match=r"input.shape is .*, expected a list of positive integers"):
            read_description(file)


def test_categories_travel_as_columns() -> None:
    described = read_description(ZOO / "deepmet" / "deepmet.h5")
    assert [side.shape for side in described.inputs] == [(4500, 1)] * 3 + [()]
