# SPDX-License-Identifier: Apache-2.0
"""Both simulators of one kernel on the emulated card: equal bytes, nothing past the output, runs that overlap, counters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.target import Target
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.sim.card.simulator import SimulatorError, build_simulator

if TYPE_CHECKING:
    from tests.sim.conftest import Buffer, Pair, WriteXclbin, Xrt

EMULATED = (Target.HW_EMU, Target.SW_EMU)
CANARY = 0xA5


def some_rows(rows: int, seed: int = 1) -> NDArray[np.float32]:
    """Ordinary numbers, and among them every kind of float that is not."""
    draw = np.random.default_rng(seed)
    x = (draw.standard_normal((rows, 3)) * [10.0, 200.0, 0.5]).astype(np.float32)
    odd = draw.random(x.shape) < 0.1
    kinds = np.array([np.nan, np.inf, -np.inf, 1e-45, -1e-40, 3.4e38, -0.0, 0.015625, 0.0078125], dtype=np.float32)
    x[odd] = draw.choice(kinds, odd.sum())
    return x


def open_pair(xrt: Xrt, pair: Pair, write_xclbin: WriteXclbin, target: Target, index: int = 0) -> tuple[int, int]:
    device = xrt.device(write_xclbin(pair.images[target], kernel="pair", target=target), index)
    return device, xrt.kernel(device, "pair:{pair_1}", exclusive=True)


def buffers(xrt: Xrt, device: int, rows: int) -> tuple[Buffer, Buffer]:
    x, y = xrt.buffer(device, max(12 * rows, 1)), xrt.buffer(device, 8 * rows + 256)
    y.array[:] = CANARY
    y.to_device()
    return x, y


def check(pair: Pair, y: Buffer, rows: NDArray[np.float32]) -> None:
    got = y.floats(2 * len(rows)).view(np.uint32)
    np.testing.assert_array_equal(got, pair.expected(rows).ravel().view(np.uint32))
    assert (y.array[8 * len(rows) :] == CANARY).all()


@pytest.mark.parametrize("memory", ["ideal", "", "latency=200,outstanding=1", "stall=40,seed=3"])
@pytest.mark.parametrize("target", EMULATED)
def test_any_number_of_rows_comes_out_exact_and_nothing_past_them(
    xrt: Xrt, pair: Pair, write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch, *, target: Target, memory: str
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_MEMORY", memory)
    device, kernel = open_pair(xrt, pair, write_xclbin, target)
    for seed, count in enumerate((0, 1, 2, 5, 15, 16, 17, 63, 64, 65, 341, 342, 1000)):
        rows = some_rows(count, seed)
        x, y = buffers(xrt, device, count)
        x.fill(rows)
        run = xrt.run(kernel, x, y, count)
        xrt.start(run)
        assert xrt.finish(run).name == "COMPLETED"
        check(pair, y, rows)
    assert xrt.register(kernel, registers.RUNS) == 13
    assert xrt.register(kernel, registers.AXI_ERROR) == 0
    assert xrt.register(kernel, registers.VERSION) == registers.MAP_VERSION
    assert [xrt.register(kernel, r) for r in (registers.ROW_IN_BYTES, registers.ROW_OUT_BYTES)] == [12, 8]


@pytest.mark.parametrize("target", EMULATED)
def test_runs_in_flight_keep_their_own_rows(xrt: Xrt, pair: Pair, write_xclbin: WriteXclbin, target: Target) -> None:
    device, kernel = open_pair(xrt, pair, write_xclbin, target)
    inputs = [some_rows(count, seed) for seed, count in enumerate((300, 1, 0, 700, 17, 64, 16, 500, 3, 5, 90, 1))]
    slots = [buffers(xrt, device, len(rows)) for rows in inputs]
    runs = [xrt.run(kernel, x, y, len(rows)) for (x, y), rows in zip(slots, inputs, strict=True)]
    for (x, _), rows in zip(slots, inputs, strict=True):
        x.fill(rows)
    for run in runs:
        xrt.start(run)
    for run, (_, y), rows in zip(runs, slots, inputs, strict=True):
        assert xrt.finish(run).name == "COMPLETED"
        check(pair, y, rows)


def test_overlapping_runs_cost_less_than_runs_one_by_one(xrt: Xrt, pair: Pair, write_xclbin: WriteXclbin) -> None:
    device, kernel = open_pair(xrt, pair, write_xclbin, Target.HW_EMU)
    slots = [buffers(xrt, device, 4000) for _ in range(4)]
    runs = [xrt.run(kernel, x, y, 4000) for x, y in slots]
    xrt.start(runs[0])
    xrt.finish(runs[0])
    alone = xrt.register(kernel, registers.BUSY_CYCLES)
    assert alone == xrt.register(kernel, registers.RUN_CYCLES) > 4000
    for run in runs:
        xrt.start(run)
    for run in runs:
        assert xrt.finish(run).name == "COMPLETED"
    overlapped = xrt.register(kernel, registers.BUSY_CYCLES) - alone
    assert overlapped < 4 * alone - 200


def test_the_memory_model_costs_its_latency(
    xrt: Xrt, pair: Pair, write_xclbin: WriteXclbin, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = {}
    for latency in (0, 60, 500):
        monkeypatch.setenv("HYPERSONIC_EMU_MEMORY", f"latency={latency}")
        device, kernel = open_pair(xrt, pair, write_xclbin, Target.HW_EMU)
        x, y = buffers(xrt, device, 2000)
        run = xrt.run(kernel, x, y, 2000)
        xrt.start(run)
        assert xrt.finish(run).name == "COMPLETED"
        clocks[latency] = xrt.register(kernel, registers.RUN_CYCLES)
        xrt.close_all()
    assert clocks[60] - clocks[0] == 120
    assert 1000 <= clocks[500] - clocks[0] <= 2000


@pytest.mark.parametrize("target", EMULATED)
def test_a_write_past_the_output_buffer_is_caught(
    xrt: Xrt, pair: Pair, write_xclbin: WriteXclbin, capfd: pytest.CaptureFixture[str], target: Target
) -> None:
    device, kernel = open_pair(xrt, pair, write_xclbin, target)
    x, small, y = xrt.buffer(device, 1200), xrt.buffer(device, 64), xrt.buffer(device, 800)
    bystander = xrt.buffer(device, 4096)
    run = xrt.run(kernel, x, small, 100)
    xrt.start(run)
    assert xrt.finish(run).name == "ERROR"
    errors = capfd.readouterr().err
    assert errors.startswith("[XRT] ERROR: Compute unit pair_1: m_axi_gmem1: write of ")
    assert "past the end of the buffer object" in errors
    assert not bystander.floats().any()
    assert xrt.register(kernel, registers.AXI_ERROR) == registers.WRITE_ERROR
    assert xrt.set(run, 1, y) == 0
    xrt.start(run)
    assert xrt.finish(run).name == "COMPLETED"


@pytest.mark.parametrize("target", EMULATED)
def test_a_read_outside_every_buffer_is_caught(
    xrt: Xrt, pair: Pair, write_xclbin: WriteXclbin, capfd: pytest.CaptureFixture[str], target: Target
) -> None:
    device, kernel = open_pair(xrt, pair, write_xclbin, target)
    y, x = xrt.buffer(device, 16000), xrt.buffer(device, 1200)
    run = xrt.run(kernel, x, y, 2000)
    xrt.start(run)
    assert xrt.finish(run).name == "ERROR"
    assert capfd.readouterr().err.startswith("[XRT] ERROR: Compute unit pair_1: m_axi_gmem0: read of ")
    assert xrt.register(kernel, registers.AXI_ERROR) & registers.READ_ERROR


def test_two_cards_and_both_targets_work_side_by_side(xrt: Xrt, pair: Pair, write_xclbin: WriteXclbin) -> None:
    opened = [open_pair(xrt, pair, write_xclbin, target, index) for index, target in enumerate(EMULATED * 2)]
    rows = some_rows(3000)
    slots = [buffers(xrt, device, len(rows)) for device, _ in opened]
    runs = [xrt.run(kernel, x, y, len(rows)) for (_, kernel), (x, y) in zip(opened, slots, strict=True)]
    for run, (x, _) in zip(runs, slots, strict=True):
        x.fill(rows)
        xrt.start(run)
    for run, (_, y) in zip(runs, slots, strict=True):
        assert xrt.finish(run).name == "COMPLETED"
        check(pair, y, rows)


@pytest.mark.parametrize("target", EMULATED)
def test_a_card_closes_in_the_middle_of_a_run(xrt: Xrt, pair: Pair, write_xclbin: WriteXclbin, target: Target) -> None:
    device, kernel = open_pair(xrt, pair, write_xclbin, target)
    x, y = xrt.buffer(device, 12 * 200_000), xrt.buffer(device, 8 * 200_000)
    run = xrt.run(kernel, x, y, 200_000)
    xrt.start(run)
    assert xrt.finish(run, 1).name in {"RUNNING", "QUEUED", "COMPLETED"}


def test_a_simulator_needs_an_emulation_target_and_a_kernel() -> None:
    row = Row((TensorSpec("x", (1,), FixedPoint(16, 6)),))
    project = HlsProject(Path("nowhere"), "model", row, row, "part", {})
    with pytest.raises(SimulatorError, match="target is hw, expected sw_emu or hw_emu"):
        build_simulator(Target.HW, project)
    with pytest.raises(SimulatorError, match="model model: target hw_emu simulates the kernel's RTL, and there is none"):
        build_simulator(Target.HW_EMU, project)
