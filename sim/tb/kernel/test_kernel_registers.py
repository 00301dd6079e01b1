# SPDX-License-Identifier: Apache-2.0
"""A kernel with registers at its AXI ports (firmware/kernel/slices.py) beside the one without: equal bytes at the same rate.

The memory refuses bursts that break AXI's rules. test_kernel.py has such a kernel too, with monitors and resets in mid-run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.hls.core import Core
from hypersonic.hls.da.write import write_core
from hypersonic.sim.bench_rf import rf_bench_network, rf_bench_rows
from hypersonic.sim.card.direct import MemoryTiming, Simulation
from hypersonic.sim.card.simulator import build_hardware_simulator

pytestmark = pytest.mark.whole

_X, _Y = 0x1000, 0x400000
_MEMORY_BYTES = 1 << 23

#: each channel delays a run once: AR and R before its first row, AW or W and B after its last
LATENCY_CLOCKS = 4

TIMINGS = {
    "ideal": MemoryTiming(),
    "slow": MemoryTiming(read_latency_clocks=60, write_latency_clocks=60),
    "stalling": MemoryTiming(read_latency_clocks=60, write_latency_clocks=20, stall_percent=30),
}


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Core:
    rows = rf_bench_rows(((6,), "FP16"))
    return write_core(rf_bench_network(*rows), "unrolled", *rows, tmp_path_factory.mktemp("core"))[0]


@pytest.fixture(scope="module")
def simulators(core: Core, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The simulators of the kernel without and with registers."""
    place = tmp_path_factory.mktemp("kernels")
    plain, registered = (
        build_hardware_simulator(write_kernel(core, place / str(choice), port_registers=choice)) for choice in (False, True)
    )
    return plain, registered


def _run(simulator: Path, core: Core, timing: MemoryTiming, sizes: tuple[int, ...]) -> tuple[bytes, list[int]]:
    """The memory behind _Y after runs over that many rows each, and the clocks of each run."""
    x = np.random.default_rng(3).integers(0, 256, max(sizes) * core.inputs.row_bytes, dtype=np.uint8)
    with Simulation(simulator, _MEMORY_BYTES, timing) as simulation:
        simulation.memory[:] = 0xA5
        simulation.memory[_X : _X + x.size] = x
        clocks = list[int]()
        for number, rows in enumerate(sizes):
            simulation.start(_X, _Y + 0x80000 * number, rows)
            clocks.append(simulation.finish())
        assert not simulation.faults
        return simulation.memory[_Y:].tobytes(), clocks


@pytest.mark.parametrize("timing", TIMINGS.values(), ids=TIMINGS)
def test_registers_at_the_ports_change_no_byte(core: Core, simulators: tuple[Path, Path], timing: MemoryTiming) -> None:
    sizes = (0, 1, 2, 15, 16, 17, 3_000)
    (expected, _), (got, _) = (_run(simulator, core, timing, sizes) for simulator in simulators)
    assert got == expected
    written = sum(rows * core.outputs.row_bytes for rows in sizes)
    assert len(expected) - expected.count(0xA5) > written // 2, "results were written"


@pytest.mark.parametrize("name", ["ideal", "slow"])
def test_registers_at_the_ports_add_clocks_to_a_run_and_none_to_a_row(
    core: Core, simulators: tuple[Path, Path], name: str
) -> None:
    sizes = (1, 1_000, 10_000, 20_000)
    (_, plain), (_, registered) = (_run(simulator, core, TIMINGS[name], sizes) for simulator in simulators)
    assert [after - before for before, after in zip(plain, registered, strict=True)] == [LATENCY_CLOCKS] * len(sizes)
