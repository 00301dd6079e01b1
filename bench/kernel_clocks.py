# SPDX-License-Identifier: Apache-2.0
"""Clocks per run of a kernel, Verilated, with an ideal and with a slow memory.

    python bench/kernel_clocks.py [MODEL] [--rows N] [--runs N] [--latency CLOCKS] [--json]

MODEL is a zoo name or a model file, as for `hypersonic build`; without it the shell is measured around a bench core of
FACILE's shape (18 numbers in, 1 out). Clocks are counted by the kernel itself (RUN_CYCLES, BUSY_CYCLES).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from hypersonic.firmware import registers
from hypersonic.firmware.kernel import Kernel, write_kernel
from hypersonic.sim.bench_core import bench_specs, write_bench_core
from hypersonic.sim.direct import MemoryTiming, Simulation
from hypersonic.sim.simulator import build_hardware_simulator

_PAGE_BYTES = 4096
_BEAT_BYTES = 64


@dataclass(frozen=True)
class Clocks:
    """What `runs` runs of `rows` rows cost with one memory.

    bound: rows times what the slowest part needs, no latency. single: one run, accepted to done. per_run: when runs are
    queued. gap: clocks per queued run above bound. blocked: clocks in which a row waited for the core, in the single run.
    """

    memory: str
    rows: int
    bound: int
    single: int
    per_run: float
    gap: float
    blocked: int
    clocks_per_second: float


def bound_clocks(kernel: Kernel, rows: int) -> int:
    """Clocks no kernel with these ports can do without: rows * max(II, bytes in / 64, bytes out / 64)."""
    core = kernel.core
    beats = max(-(-rows * spec.row_bytes // _BEAT_BYTES) for spec in (core.input, core.output))
    return max(beats, rows * core.ii)


def measure(kernel: Kernel, simulator: Path, rows: int, runs: int, memory: tuple[str, MemoryTiming]) -> Clocks:
    """Run once alone, then `runs` times queued."""
    x, y = _PAGE_BYTES, _PAGE_BYTES * (2 + rows * kernel.core.input.row_bytes // _PAGE_BYTES)
    size_bytes = y + _PAGE_BYTES * (1 + rows * kernel.core.output.row_bytes // _PAGE_BYTES)
    with Simulation(simulator, size_bytes, memory[1]) as simulation:
        simulation.memory[x : x + rows * kernel.core.input.row_bytes] = 1
        simulation.start(x, y, rows)
        single = simulation.finish()
        blocked = simulation.read(registers.BLOCKED_CYCLES)
        busy, began = simulation.read(registers.BUSY_CYCLES), time.perf_counter()
        started = min(runs, registers.MAX_RUNS)
        for _ in range(started):
            simulation.start(x, y, rows)
        for run in range(runs):
            simulation.finish()
            if started + run < runs:
                simulation.start(x, y, rows)
        clocks = simulation.read(registers.BUSY_CYCLES) - busy
        speed = clocks / (time.perf_counter() - began)
    bound = bound_clocks(kernel, rows)
    gap = (clocks - single) / (runs - 1) - bound
    return Clocks(memory[0], rows, bound, single, round(clocks / runs, 1), round(gap, 1), blocked, round(speed))


def kernel_of(model: str | None, directory: Path) -> Kernel:
    """The model's kernel, or the bench core's."""
    if model is None:
        return write_kernel(write_bench_core(*bench_specs(), directory), directory)
    from hypersonic.hls.build import build_project

    _, core = build_project(model, directory / "project")
    if core is None:
        raise SystemExit(f"{model}: no RTL core was built")
    return write_kernel(core, directory)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--rows", type=int, default=16_000)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--latency", type=int, default=60, help="clocks of the slow memory (default 60)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.rows < 1 or options.runs < 2:
        parser.error(f"got --rows {options.rows} --runs {options.runs}, expected at least 1 row and 2 runs")
    memories = {"ideal": MemoryTiming(), f"{options.latency} clocks": MemoryTiming(options.latency, options.latency)}
    with tempfile.TemporaryDirectory() as directory:
        kernel = kernel_of(options.model, Path(directory))
        simulator = build_hardware_simulator(kernel)
        results = [measure(kernel, simulator, options.rows, options.runs, memory) for memory in memories.items()]
    if options.json:
        print(json.dumps({"kernel": kernel.name, "clocks": [asdict(result) for result in results]}, indent=1))
        return 0
    print(f"kernel {kernel.name}: {options.rows} rows a run, {options.runs} runs queued")
    print(f"{'memory':12} {'bound':>8} {'1 run':>8} {'queued':>10} {'gap':>6} {'blocked':>8} {'simulated clocks/s':>19}")
    for r in results:
        print(f"{r.memory:12} {r.bound:8} {r.single:8} {r.per_run:10} {r.gap:6} {r.blocked:8} {r.clocks_per_second:19.0f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
