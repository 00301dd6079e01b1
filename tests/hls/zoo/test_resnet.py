# SPDX-License-Identifier: Apache-2.0
"""ResNet-8 as it ships, and a bottleneck block of ResNet-50: fixed point is as good as float, and the rf core gives the
integers of hls4ml's C++. Both with fewer multipliers than ship, so that they are compiled in seconds; reuse factors change no
number."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from hypersonic.hls.build import build_project
from hypersonic.hls.core import Core
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.frontend.description import ZOO, read_description
from hypersonic.hls.project import HlsProject
from hypersonic.hls.rtl.simulate import RtlCore, compile_cores
from hypersonic.hls.zoo.resnet8 import events, network
from hypersonic.hls.zoo.resnet8.task import TASK
from tests.hls.zoo import resnet_blocks

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[3]
SLOWER = 16
ROWS = 2


@pytest.fixture(scope="module")
def resnet8(tmp_path_factory: pytest.TempPathFactory) -> HlsProject:
    """With the weights that ship."""
    directory = tmp_path_factory.mktemp("resnet")
    file = directory / "resnet8.h5"
    shutil.copy(ZOO / "resnet8" / "resnet8.h5", file)
    described = yaml.safe_load((ZOO / "resnet8" / "resnet8.yaml").read_text())
    described["hls4ml"] = resnet_blocks.slower(described["hls4ml"], SLOWER)
    file.with_suffix(".yaml").write_text(yaml.safe_dump(described))
    return build_project(str(file), directory / "resnet8", core="rf")[0]


@pytest.fixture(scope="module")
def block(tmp_path_factory: pytest.TempPathFactory) -> HlsProject:
    """The first block of ResNet-50's second stage, on 8 x 8 pixels."""
    directory = tmp_path_factory.mktemp("block")
    argv = [sys.executable, resnet_blocks.__file__, str(directory), str(SLOWER), "2:1:8"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_USE_LEGACY_KERAS": "1", "OMP_NUM_THREADS": "2"}
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return HlsProject.load(directory / "s2b1")


def test_images_are_the_same_for_the_same_seed_and_of_every_kind() -> None:
    one, other = events.generate(1000, 3), events.generate(600, 3)
    assert one.pixel[:500].tobytes() == other.pixel[:500].tobytes()
    assert one.pixel.tobytes() != events.generate(1000, 4).pixel.tobytes()
    assert (np.bincount(one.kind) == 100).all()
    brightest = one.pixel.reshape(1000, -1).max(axis=1)
    assert np.quantile(brightest, 0.05) > 60
    assert one.pixel.max() < 255
    track, ecal, hcal = (one.pixel[:, 10:22, 10:22, colour].astype(float).max(axis=(1, 2)) for colour in range(3))
    muon, photon, neutron = (one.kind == events.KINDS.index(kind) for kind in ("muon", "photon", "neutron"))
    assert track[muon].mean() > 2 * track[photon].mean()
    assert ecal[photon].mean() > 2 * ecal[muon].mean()
    assert hcal[neutron].mean() > 2 * hcal[photon].mean()


def test_the_network_that_ships_is_mlperf_tinys() -> None:
    shapes: list[tuple[int, ...]] = []
    with h5py.File(ZOO / "resnet8" / "resnet8.h5") as file:
        file["model_weights"].visititems(lambda _, item: shapes.append(item.shape) if isinstance(item, h5py.Dataset) else None)
    assert sum(int(np.prod(shape)) for shape in shapes) == network.PARAMETERS
    kernels = sorted(shape for shape in shapes if len(shape) == 4)
    assert kernels == [
        (1, 1, 16, 32), (1, 1, 32, 64), (3, 3, 3, 16), (3, 3, 16, 16), (3, 3, 16, 16), (3, 3, 16, 32), (3, 3, 32, 32),
        (3, 3, 32, 64), (3, 3, 64, 64),
    ]  # fmt: skip


@pytest.mark.whole
def test_eight_bits_know_the_kinds_as_well_as_float(resnet8: HlsProject) -> None:
    project = resnet8
    gate = read_description(ZOO / "resnet8" / "resnet8.h5").gate
    assert gate is not None
    assert project.report["gate"]["quantised_max_abs_difference"] <= gate.quantised_tolerance_of("")
    sample = TASK.sample(200, 0)
    raw = Csim(compile_csim(project), project).predict_raw(project.inputs.to_raw(sample.inputs))
    probability = project.outputs.tensors[0].fixed.to_float(raw)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=0.05)
    assert TASK.measure
    assert TASK.measure((probability,), sample.truth) > 0.94


def test_the_core_of_a_block_equals_hls4mls_cpp_in_the_clocks_that_were_predicted(block: HlsProject) -> None:
    rng = np.random.default_rng(1)
    _compare(block, rng.integers(0, 256, (ROWS, block.inputs.size)) >> rng.integers(0, 6, (ROWS, block.inputs.size)))


@pytest.mark.whole
def test_the_core_of_resnet8_equals_hls4mls_cpp_in_the_clocks_that_were_predicted(resnet8: HlsProject) -> None:
    _compare(resnet8, resnet8.inputs.to_raw(TASK.sample(ROWS, 1).inputs))


def _compare(project: HlsProject, x: NDArray[np.int64]) -> None:
    core = Core.load(project.core)
    compile_cores([core], "-O0")
    with RtlCore(core, optimisation="-O0") as rtl:
        np.testing.assert_array_equal(rtl.predict_raw(x), Csim(compile_csim(project), project).predict_raw(x))
        predicted = core.latency_cycles + (ROWS - 1) * core.ii + 1
        assert abs(rtl.clocks - predicted) <= 0.02 * predicted, f"{core.name}: {rtl.clocks}, predicted {predicted}"


def test_both_are_described_for_the_rf_core() -> None:
    for name in ("resnet8", "resnet50"):
        described = read_description(ZOO / name / f"{name}.h5")
        assert described.core == "rf"
        assert described.hls4ml["IOType"] == "io_stream"
