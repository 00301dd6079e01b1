# SPDX-License-Identifier: Apache-2.0
"""The kernel in a C++ loop: whole 16 000-row runs, clock counts, back-to-back runs, memory errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.sim.bench_core import bench_core_wire, bench_rows, several_rows, write_bench_core
from hypersonic.sim.card.direct import MemoryTiming, Simulation, SimulationError
from hypersonic.sim.card.simulator import build_hardware_simulator

pytestmark = pytest.mark.whole

_X, _Y = 0x1000, 0x400000
_MEMORY_BYTES = 1 << 23
_X_ROW, _Y_ROW = bench_rows(18, 1)

IDEAL = MemoryTiming()
SLOW = MemoryTiming(read_latency_clocks=60, write_latency_clocks=60)
STALLING = MemoryTiming(read_latency_clocks=60, write_latency_clocks=20, stall_percent=30)


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("kernel")
    core = write_bench_core(_X_ROW, _Y_ROW, directory)
    return build_hardware_simulator(write_kernel(core, directory))


def put(simulation: Simulation, rows: int, seed: int = 1, x: int = _X) -> NDArray[np.float32]:
    """Write random rows at x, with canaries everywhere else. Returns the expected results."""
    data = np.random.default_rng(seed).normal(0, 50, (rows, _X_ROW.size)).astype(np.float32)
    simulation.memory[x : x + data.nbytes] = data.reshape(-1).view(np.uint8)
    (result,) = bench_core_wire((data,), _X_ROW, _Y_ROW)
    return result


def check(simulation: Simulation, expected: NDArray[np.float32], y: int = _Y) -> None:
    got = simulation.memory[y : y + expected.nbytes].view(np.uint32)
    np.testing.assert_array_equal(got, expected.reshape(-1).view(np.uint32))


@pytest.mark.parametrize("timing", [IDEAL, SLOW, STALLING], ids=["ideal", "slow", "stalling"])
def test_every_row_count_is_exact_and_writes_nothing_behind_its_end(simulator: Path, timing: MemoryTiming) -> None:
    with Simulation(simulator, _MEMORY_BYTES, timing) as simulation:
        for rows in (0, 1, 2, 15, 16, 17, 16_000):
            simulation.memory[:] = 0xA5
            expected = put(simulation, rows)
            simulation.start(_X, _Y, rows)
            simulation.finish()
            check(simulation, expected)
            assert (simulation.memory[_Y + expected.nbytes :] == 0xA5).all()
            assert (simulation.memory[_X + rows * _X_ROW.row_bytes : _Y] == 0xA5).all()


@pytest.mark.parametrize(("timing", "latency"), [(IDEAL, 100), (SLOW, 250)], ids=["ideal", "slow"])
def test_a_run_costs_its_read_beats_and_a_fixed_latency(simulator: Path, timing: MemoryTiming, latency: int) -> None:
    with Simulation(simulator, _MEMORY_BYTES, timing) as simulation:
        put(simulation, 16_000)
        simulation.start(_X, _Y, 16_000)
        cycles = simulation.finish()
        assert 18_000 < cycles <= 18_000 + latency
        assert (
            simulation.read(registers.STARVED_CYCLES) <= 2_000 + 2 * latency
        )  # the rate of the data itself causes 1 clock in 9
        assert simulation.read(registers.BLOCKED_CYCLES) == 0


@pytest.mark.parametrize(
    ("datatypes", "n_in", "n_out"),
    [
        (("FP16", "FP16"), 18, 1),
        (("BF16", "FP32"), 5, 3),
        (("INT16", "INT16"), 18, 1),
        (("INT8", "INT32"), 70, 2),
        (("FP32", "INT8"), 3, 33),
        (("INT32", "BF16"), 18, 7),
    ],
)
def test_every_wire_format_is_exact_end_to_end(tmp_path: Path, datatypes: tuple[str, str], n_in: int, n_out: int) -> None:
    x, y = bench_rows(n_in, n_out, datatypes=datatypes)
    kernel = write_kernel(write_bench_core(x, y, tmp_path), tmp_path)
    data = np.random.default_rng(4).integers(0, 256, 1000 * x.row_bytes, dtype=np.uint8)  # NaN and infinities among them
    expected = y.encode(bench_core_wire(x.decode(data), x, y))
    built = build_hardware_simulator(kernel)
    run_exactly(built, STALLING, (data, expected), (x.row_bytes, y.row_bytes))
    for timing in (IDEAL, STALLING):
        queue_exactly(built, timing, (data, expected), (x.row_bytes, y.row_bytes))


def queue_exactly(
    simulator: Path, timing: MemoryTiming, data: tuple[NDArray[np.uint8], NDArray[np.uint8]], row_bytes: tuple[int, int]
) -> None:
    """Check that queued runs over a few rows of data[0], at any address of a beat, write those of data[1] and no other byte."""
    rng = np.random.default_rng(6)
    with Simulation(simulator, _MEMORY_BYTES, timing) as simulation:
        simulation.memory[:] = 0xA5
        expected = simulation.memory.copy()
        sizes, done = [0, 1, 2, 15, 16, 17, 100, 0, 3, 40], 0
        assert len(sizes) > registers.MAX_RUNS, "the queue is never full"
        for run, rows in enumerate(sizes):
            x, y = (place + 0x8000 * run + 64 * int(rng.integers(64)) for place in (_X, _Y))
            first = int(rng.integers(900))
            for memory in (simulation.memory, expected):
                memory[x : x + rows * row_bytes[0]] = data[0][first * row_bytes[0] :][: rows * row_bytes[0]]
            expected[y : y + rows * row_bytes[1]] = data[1][first * row_bytes[1] :][: rows * row_bytes[1]]
            if run - done == registers.MAX_RUNS:
                simulation.finish()
                done += 1
            simulation.start(x, y, rows)
        for _ in sizes[done:]:
            simulation.finish()
        np.testing.assert_array_equal(simulation.memory, expected)


def run_exactly(
    simulator: Path, timing: MemoryTiming, data: tuple[NDArray[np.uint8], NDArray[np.uint8]], row_bytes: tuple[int, int]
) -> int:
    """Check that a run over all of data[0] writes data[1] and no other byte. Returns its clocks."""
    with Simulation(simulator, _MEMORY_BYTES, timing) as simulation:
        simulation.memory[:] = 0xA5
        simulation.memory[_X : _X + data[0].size] = data[0]
        simulation.start(_X, _Y, data[0].size // row_bytes[0])
        clocks = simulation.finish()
        np.testing.assert_array_equal(simulation.memory[_Y : _Y + data[1].size], data[1])
        assert (simulation.memory[_Y + data[1].size :] == 0xA5).all()
        assert (simulation.read(registers.ROW_IN_BYTES), simulation.read(registers.ROW_OUT_BYTES)) == row_bytes
        return clocks


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("several")
    return build_hardware_simulator(write_kernel(write_bench_core(*several_rows(), directory), directory))


@pytest.mark.parametrize(("timing", "clocks"), [(IDEAL, 16_250), (STALLING, 25_000)], ids=["ideal", "stalling"])
def test_several_tensors_a_side_are_exact_and_take_a_clock_a_row(several: Path, timing: MemoryTiming, clocks: int) -> None:
    x, y = several_rows()
    data = np.random.default_rng(5).integers(0, 256, 16_000 * x.row_bytes, dtype=np.uint8)
    expected = y.encode(bench_core_wire(x.decode(data), x, y))
    assert run_exactly(several, timing, (data, expected), (x.row_bytes, y.row_bytes)) < clocks


@pytest.mark.parametrize("size", [1, 2, 3, 63, 64, 65])
def test_several_tensors_make_runs_of_any_number_of_rows(several: Path, size: int) -> None:
    x, y = several_rows()
    data = np.random.default_rng(size).integers(0, 256, size * x.row_bytes, dtype=np.uint8)
    expected = y.encode(bench_core_wire(x.decode(data), x, y))
    run_exactly(several, SLOW, (data, expected), (x.row_bytes, y.row_bytes))


def stalls(tmp_path: Path, n_in: int, n_out: int, ii: int, timing: MemoryTiming) -> dict[str, int]:
    """The stall counters of a kernel after 4 000 rows."""
    core = write_bench_core(*bench_rows(n_in, n_out), tmp_path, ii=ii)
    return stalls_of(build_hardware_simulator(write_kernel(core, tmp_path)), timing)


def stalls_of(simulator: Path, timing: MemoryTiming) -> dict[str, int]:
    with Simulation(simulator, _MEMORY_BYTES, timing) as simulation:
        simulation.start(_X, _Y, 4_000)
        simulation.finish()
        names = ("STARVED", "BLOCKED", "READ_ADDRESS", "WRITE_ADDRESS", "WRITE_DATA", "CORE")
        return {name: simulation.read(getattr(registers, f"{name}_CYCLES")) for name in names}


def test_a_slow_memory_to_read_shows_in_the_read_counters_alone(simulator: Path) -> None:
    counted = stalls_of(simulator, MemoryTiming(read_latency_clocks=2000))
    assert counted.pop("STARVED") > 4_000
    assert not any(counted.values())


def test_a_slow_memory_to_write_shows_in_the_write_counters_and_in_the_rows_behind_it(tmp_path: Path) -> None:
    counted = stalls(tmp_path, 16, 16, 1, MemoryTiming(write_latency_clocks=3000))
    assert counted["STARVED"] < 16  # until the first row: the clocks of axis_row_unpack
    assert counted["WRITE_ADDRESS"] > counted["BLOCKED"] > 4_000
    assert counted["READ_ADDRESS"] == counted["WRITE_DATA"] == counted["CORE"] == 0


def test_a_slow_core_shows_as_the_core_and_a_write_channel_at_its_width_does_not(tmp_path: Path) -> None:
    counted = stalls(tmp_path / "core", 16, 4, 3, IDEAL)
    assert counted["CORE"] == counted["BLOCKED"] > 7_000
    assert counted["READ_ADDRESS"] == counted["WRITE_ADDRESS"] == counted["WRITE_DATA"] == 0
    counted = stalls(tmp_path / "width", 4, 33, 1, IDEAL)
    assert counted["BLOCKED"] > 4_000
    assert counted["CORE"] == counted["WRITE_ADDRESS"] == counted["WRITE_DATA"] == 0


def queued(simulation: Simulation, runs: int, rows: int) -> Iterator[int]:
    """The busy clocks after each of `runs` runs that were started together."""
    for run in range(runs):
        simulation.start(_X, _Y + 0x20000 * run, rows)
    for _ in range(runs):
        simulation.finish()
        yield simulation.read(registers.BUSY_CYCLES)


@pytest.mark.parametrize("timing", [IDEAL, SLOW], ids=["ideal", "slow"])
def test_back_to_back_runs_leave_no_gap(simulator: Path, timing: MemoryTiming) -> None:
    with Simulation(simulator, _MEMORY_BYTES, timing) as simulation:
        expected = put(simulation, 16_000)
        *_, busy = queued(simulation, 4, 16_000)
        single = 18_000 + 250
        assert busy <= single + 3 * (18_000 + 32)
        for run in range(4):
            check(simulation, expected, _Y + 0x20000 * run)


def test_an_address_outside_the_memory_shows_in_the_error_register(simulator: Path) -> None:
    for x, y, error in ((_MEMORY_BYTES, _Y, registers.READ_ERROR), (_X, _MEMORY_BYTES, registers.WRITE_ERROR)):
        with Simulation(simulator, _MEMORY_BYTES, IDEAL) as simulation:
            simulation.start(x, y, 40)
            with pytest.raises(SimulationError, match="no buffer object"):
                simulation.finish()
            simulation.faults.clear()
            simulation.finish()  # the run ends nevertheless
            assert simulation.read(registers.AXI_ERROR) == error


def test_many_small_runs_of_mixed_sizes_never_mix_rows(simulator: Path) -> None:
    with Simulation(simulator, _MEMORY_BYTES, STALLING) as simulation:
        rng = np.random.default_rng(9)
        for _ in range(20):
            sizes = rng.integers(0, 60, registers.MAX_RUNS).tolist()
            places = [(_X + 0x4000 * i, _Y + 0x4000 * i) for i in range(len(sizes))]
            expected = [
                put(simulation, rows, int(rng.integers(1 << 30)), x) for rows, (x, _) in zip(sizes, places, strict=True)
            ]
            for rows, (x, y) in zip(sizes, places, strict=True):
                simulation.start(x, y, rows)
            for rows, (_, y) in zip(expected, places, strict=True):
                simulation.finish()
                check(simulation, rows, y)
