# SPDX-License-Identifier: Apache-2.0
"""A core with memory files, whose rows come and go in beats, inside an xclbin: by XRT's functions on the emulated card."""

from __future__ import annotations

import resource
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypersonic.sim.card.direct import Simulation, SimulationError
from hypersonic.sim.card.simulator import build_hardware_simulator, write_memories
from tests.support.rf_kernels import NAME, SEVERAL

if TYPE_CHECKING:
    from tests.sim.conftest import WriteXclbin, Xrt


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built where nothing of it is left: all that it needs, it has inside."""
    directory = tmp_path_factory.mktemp("rf_kernel")
    built = build_hardware_simulator(SEVERAL.kernel(directory))
    shutil.rmtree(directory)
    return built


def test_each_unit_answers_the_rows_that_numpy_computes_and_leaves_no_files(
    xrt: Xrt, write_xclbin: WriteXclbin, simulator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (taken_out := tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(taken_out))
    device = xrt.device(write_xclbin(simulator.read_bytes(), kernel=NAME, compute_units=2))
    assert not list(taken_out.iterdir())
    rows, runs = 60, []
    for unit in range(2):
        data, expected = SEVERAL.rows(rows, unit)
        x, y = xrt.buffer(device, data.size, unit), xrt.buffer(device, expected.size, unit)
        x.array[:] = data
        x.to_device()
        runs.append((xrt.run(xrt.kernel(device, f"{NAME}:{{{NAME}_{unit + 1}}}"), x, y, rows), y, expected))
    for run, _, _ in runs:
        xrt.start(run)
    for run, y, expected in runs:
        assert xrt.finish(run, 60_000).name == "COMPLETED"
        y.from_device()
        np.testing.assert_array_equal(y.array, expected)


def test_a_place_that_cannot_be_written_is_named(
    xrt: Xrt, write_xclbin: WriteXclbin, simulator: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", "/nonesuch")
    message = "memory files cannot be written: /nonesuch: No such file or directory"
    with pytest.raises(SimulationError, match=message):
        Simulation(simulator)
    device = xrt.device()
    xclbin = write_xclbin(simulator.read_bytes(), kernel=NAME)
    assert xrt.error("xrtDeviceLoadXclbinFile", device, str(xclbin).encode()) == "ENOMEM"
    assert message in capfd.readouterr().err


def test_a_disk_that_is_full_leaves_no_files(simulator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, limits[1]))  # Python ignores SIGXFSZ, so that the write fails
    try:
        with pytest.raises(SimulationError, match=r"memory files cannot be written: .*: File too large"):
            Simulation(simulator)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_other_contents_of_a_memory_make_another_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = SEVERAL.kernel(tmp_path / "kernel")
    names = []

    def keep(_kind: str, parts: list[str | bytes | Path], _build: object) -> Path:
        names.append([part.read_bytes() if isinstance(part, Path) else part for part in parts])
        return tmp_path

    monkeypatch.setattr("hypersonic.sim.card.simulator.cached", keep)
    build_hardware_simulator(kernel)
    memory, *others = kernel.core.memories
    (changed := tmp_path / memory.name).write_text(memory.read_text().replace("1", "2"))
    build_hardware_simulator(replace(kernel, core=replace(kernel.core, memories=(changed, *others))))
    assert names[0] != names[1]


def test_memory_files_may_have_any_place(tmp_path: Path) -> None:
    (memory := tmp_path / 'a "b" \\c' / "weights.mem").parent.mkdir()
    memory.write_text("0\n")
    text = write_memories([memory], tmp_path).read_text()
    assert str(memory).replace("\\", 4 * "\\").replace('"', '\\\\\\"') in text
