# SPDX-License-Identifier: Apache-2.0
"""Measures the clocks of a Verilated kernel's runs, by wire format and memory, and predicts the rate on a card.

    hypersonic bench kernel [MODEL] [--rows N] [--runs N] [--latency CLOCKS ...] [--platform NAME]
                            [--network-gbps GBPS] [--json]

`--help` explains the columns. Without MODEL, the shell is measured around a bench core of FACILE's shape (18 numbers in, 1
out). The kernel itself counts the clocks (RUN_CYCLES, BUSY_CYCLES and the stall counters, docs/registers.md). Rates are
computed for the platform's clock: this kernel has not been run at that clock on a card.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import numpy as np

from hypersonic.commands.bench import add_kernel_options
from hypersonic.firmware.errors import FirmwareError
from hypersonic.firmware.estimate.rates import BEAT_BYTES, CardRate, card_rate
from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.platform import Platform, find_platform
from hypersonic.hls.errors import ConversionError, ToolError
from hypersonic.hls.row import Row
from hypersonic.sim.bench_core import bench_rows, write_bench_core
from hypersonic.sim.card.direct import MemoryTiming, Simulation
from hypersonic.sim.card.simulator import build_hardware_simulator

_PAGE_BYTES = 4096
FORMATS = ("FP32", "FP16", "INT16", "INT8")


@dataclass(frozen=True)
class Stalls:
    """The clocks of the single run in which something waited.

    read_address, write_address, write_data: the memory did not accept what the kernel offered (or, for write_address, owed it a
    response). read_data: a row waited for its bytes. core: a row waited for the core. behind_core: a row waited because results
    waited, for write_address, write_data, or the write channel's width.
    """

    read_address: int
    read_data: int
    core: int
    behind_core: int
    write_address: int
    write_data: int


@dataclass(frozen=True)
class Clocks:
    """The clocks of runs of `rows` rows with one wire format and one memory.

    bound: a lower bound without latency (see bound_clocks). single: a single run, from accepted to done. allowed: 1.03 x bound
    + 600. one_row: a single run of one row. per_run: each run when runs are queued. gap: clocks per queued run above bound.
    stalls: of the single run. clocks_per_second: the speed of the simulation.
    """

    datatypes: tuple[str, str]
    memory: str
    rows: int
    bound: int
    single: int
    allowed: float
    one_row: int
    per_run: float
    gap: float
    stalls: Stalls
    clocks_per_second: float


def bound_clocks(kernel: Kernel, rows: int) -> int:
    """Return the fewest clocks of any kernel with these ports: rows * max(II, bytes in / 64, bytes out / 64)."""
    core = kernel.core
    beats = max(-(-rows * row.row_bytes // BEAT_BYTES) for row in (core.inputs, core.outputs))
    return max(beats, rows * core.ii)


def measure(kernel: Kernel, simulator: Path, rows: int, runs: int, memory: tuple[str, MemoryTiming]) -> Clocks:
    """Measure a single run, a run of one row, and `runs` queued runs.

    memory: a name and the memory's timing. Weights that come from memory are loaded before the measurement.
    """
    core, bound = kernel.core, bound_clocks(kernel, rows)
    x, y = _PAGE_BYTES, _PAGE_BYTES * (2 + rows * core.inputs.row_bytes // _PAGE_BYTES)
    w = y + _PAGE_BYTES * (1 + rows * core.outputs.row_bytes // _PAGE_BYTES)
    weights = np.fromfile(core.weights, np.uint8) if core.weights else np.empty(0, np.uint8)
    with Simulation(simulator, w + weights.size, memory[1]) as simulation:
        simulation.memory[w : w + weights.size] = weights
        last = w if core.weights else None
        if core.weights:
            simulation.start(x, y, 1, last)
            simulation.finish()
        before = read_stalls(simulation)
        simulation.start(x, y, rows, last)
        single = simulation.finish()
        stalls = Stalls(*(now - then for now, then in zip(astuple(read_stalls(simulation)), astuple(before), strict=True)))
        simulation.start(x, y, 1, last)
        one_row = simulation.finish()
        clocks, seconds = queued(simulation, (x, y, rows, last), runs)
    gap = (clocks - single) / (runs - 1) - bound
    return Clocks(
        (_datatypes(core.inputs), _datatypes(core.outputs)), memory[0], rows, bound, single, round(1.03 * bound + 600), one_row,
        round(clocks / runs, 1), round(gap, 1), stalls, round(clocks / seconds),
    )  # fmt: skip


def read_stalls(simulation: Simulation) -> Stalls:
    """Read the stall counters, which count since reset."""
    read = simulation.read
    core = read(registers.CORE_CYCLES)
    return Stalls(
        read_address=read(registers.READ_ADDRESS_CYCLES),
        read_data=read(registers.STARVED_CYCLES),
        core=core,
        behind_core=read(registers.BLOCKED_CYCLES) - core,
        write_address=read(registers.WRITE_ADDRESS_CYCLES),
        write_data=read(registers.WRITE_DATA_CYCLES),
    )


def _datatypes(row: Row) -> str:
    return "+".join(tensor.datatype for tensor in row.tensors)


def queued(simulation: Simulation, run: tuple[int, int, int, int | None], runs: int) -> tuple[int, float]:
    """Do `runs` runs, with as many in flight as the kernel takes; return the clocks, and the seconds on this machine."""
    busy, began = simulation.read(registers.BUSY_CYCLES), time.perf_counter()
    started = min(runs, registers.MAX_RUNS)
    for _ in range(started):
        simulation.start(*run)
    for done in range(runs):
        simulation.finish()
        if started + done < runs:
            simulation.start(*run)
    return simulation.read(registers.BUSY_CYCLES) - busy, time.perf_counter() - began


def rate_of(platform: Platform, clocks: Clocks, row_bytes: tuple[int, int], network_gbps: float) -> CardRate:
    """Return the predicted rate in events (runs of the bench's rows) per second, and its limits."""
    x, y = (size * clocks.rows for size in row_bytes)
    return card_rate(platform, clocks.per_run, (x, y), network_gbps=network_gbps)


def kernels_of(model: str | None, directory: Path) -> Iterator[Kernel]:
    """Yield the model's kernel, or without a model the kernels of a bench core in each wire format."""
    if model is None:
        for datatype in FORMATS:
            place = directory / datatype
            yield write_kernel(write_bench_core(*bench_rows(datatypes=(datatype, datatype)), place), place)
        return
    from hypersonic.hls.build import build_project

    _, core = build_project(model, directory / "project")
    if core is None:
        raise SystemExit(f"{model}: no RTL core was built")
    yield write_kernel(core, directory)


def parse_options() -> argparse.Namespace:
    """Parse the command line; fewer than 1 row or 2 runs are an error."""
    parser = argparse.ArgumentParser(prog="hypersonic bench kernel", formatter_class=argparse.RawDescriptionHelpFormatter)
    add_kernel_options(parser)
    options = parser.parse_args()
    if options.rows < 1 or options.runs < 2:
        parser.error(f"got --rows {options.rows} --runs {options.runs}, expected at least 1 row and 2 runs")
    return options


def main() -> int:
    """Measure, and print tables or JSON."""
    options = parse_options()
    platform = find_platform(options.platform)
    memories = {"ideal": MemoryTiming(), **{f"{n} clocks": MemoryTiming(n, n) for n in options.latency}}
    measured: list[tuple[list[Clocks], CardRate]] = []
    with tempfile.TemporaryDirectory() as directory:
        for kernel in kernels_of(options.model, Path(directory)):
            simulator = build_hardware_simulator(kernel)
            clocks = [measure(kernel, simulator, options.rows, options.runs, memory) for memory in memories.items()]
            row_bytes = kernel.core.inputs.row_bytes, kernel.core.outputs.row_bytes
            measured.append((clocks, rate_of(platform, clocks[-1], row_bytes, options.network_gbps)))
    if options.json:
        kernels = [{"clocks": [asdict(c) for c in clocks], "card": rate.as_data()} for clocks, rate in measured]
        print(json.dumps({"platform": platform.name, "kernels": kernels}, indent=1))
        return 0
    for clocks, rate in measured:
        show(clocks, rate)
    return 0


def show(clocks: list[Clocks], rate: CardRate) -> None:
    """Print the table of one kernel, with a line per memory, and its predicted rate."""
    x, y = clocks[0].datatypes
    print(f"{x} in, {y} out, {clocks[0].rows} rows per run")
    print("memory         bound   1 run  allowed  1 row    queued   gap |     AR       R    core  behind      AW       W")
    for c in clocks:
        stalls = "".join(f"{count:8}" for count in astuple(c.stalls))
        print(f"{c.memory:12} {c.bound:7} {c.single:7} {c.allowed:8.0f} {c.one_row:6} {c.per_run:9} {c.gap:5} |{stalls[1:]}")
    print("\n".join(rate.lines()))
    print()


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except (ConversionError, FirmwareError, ToolError) as error:
        sys.stderr.write(f"hypersonic: error: {error}\n")
        raise SystemExit(2) from None
