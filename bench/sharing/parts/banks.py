# SPDX-License-Identifier: Apache-2.0
"""Two kernels in one xclbin, both with runs queued: on different memory banks, and on one bank.

The kernels are the shell around bench cores of FACILE's shape (18 numbers in, 1 out, FP32), which read more than a beat of 64
bytes for each row, so that the bank limits them. Clocks are those that the kernels count (BUSY_CYCLES).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.sharing.figure import Figure, Progress
from hypersonic.firmware.estimate.rates import BEAT_BYTES
from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import LinkedKernel, assemble_kernels
from hypersonic.firmware.xclbin.images import pack_images
from hypersonic.host.driver import TO_DEVICE, Handle, RunState
from hypersonic.host.library import load_library
from hypersonic.host.xrt import Library
from hypersonic.sim.bench_core import bench_rows, write_bench_core
from hypersonic.sim.card.simulator import build_hardware_simulator

TITLE = "two kernels of one xclbin, both with runs queued (hw_emu)"
ROWS, RUNS = 16_000, 8
#: with one unit of the first kernel and four of the second on a card with four banks, right_1 has a bank of its own and right_4
#: shares that of left_1
KERNELS = (LinkedKernel("left"), LinkedKernel("right", 4))
LEFT, APART, TOGETHER = "left_1", "right_1", "right_4"
_TIMEOUT_MS = 600_000


@dataclass(frozen=True)
class Unit:
    """A compute unit with RUNS runs of ROWS rows, which can be started again."""

    library: Library
    kernel: Handle
    runs: tuple[Handle, ...]

    def start(self) -> None:
        """Queue all runs."""
        for run in self.runs:
            self.library.start(run)

    def finish(self) -> None:
        """Wait for all runs. Raises ValueError if one fails."""
        for run in self.runs:
            if (state := self.library.wait(run, _TIMEOUT_MS)) != RunState.COMPLETED:
                raise ValueError(f"a run ended in state {state}, expected {RunState.COMPLETED}")

    def busy_clocks(self) -> int:
        """The clocks with a run in flight since reset."""
        low = self.library.read_register(self.kernel, registers.BUSY_CYCLES)
        return low | self.library.read_register(self.kernel, registers.BUSY_CYCLES + 4) << 32


def measure(progress: Progress, rows: int = ROWS) -> list[Figure]:
    """Measure the clocks of each kernel alone, with both on different banks, and with both on one bank."""
    beats = RUNS * -(-rows * bench_rows()[0].row_bytes // BEAT_BYTES)
    with tempfile.TemporaryDirectory() as place, _units(Path(place), rows, progress) as units:
        left, apart, together = (units[name] for name in (LEFT, APART, TOGETHER))
        alone = {name: _clocks(unit)[0] for name, unit in units.items()}
        both = _clocks(left, apart)
        ahead, shared = _overlapped(left, together)
    per_clock = 2 * beats / (ahead + shared)
    own = [alone[name] / clocks for name, clocks in zip((LEFT, APART), both, strict=True)]
    return [
        Figure("beats read per clock by one kernel alone", beats / alone[LEFT], f"{beats / alone[LEFT]:.3f}", "", met=True),
        *(
            Figure(f"different banks: {name}, part of its own speed", part, f"{part:.1%}", "97 % or more", met=part >= 0.97)
            for name, part in zip((LEFT, APART), own, strict=True)
        ),
        Figure(
            "one bank: beats read per clock by both", per_clock, f"{per_clock:.3f}", "0.97 to 1", met=0.97 <= per_clock <= 1.005
        ),
    ]


def _clocks(*units: Unit) -> list[int]:
    """The busy clocks of each unit for its runs, when all are started one after another."""
    before = [unit.busy_clocks() for unit in units]
    for unit in units:
        unit.start()
    for unit in units:
        unit.finish()
    return [unit.busy_clocks() - start for unit, start in zip(units, before, strict=True)]


def _overlapped(first: Unit, second: Unit) -> tuple[int, int]:
    """The clocks by which `first` was ahead when `second` was started, and the busy clocks of `second`."""
    before = first.busy_clocks(), second.busy_clocks()
    first.start()
    second.start()
    # the counters are read one after another while both count
    readings = second.busy_clocks() - before[1], first.busy_clocks() - before[0], second.busy_clocks() - before[1]
    ahead = readings[1] - (readings[0] + readings[2]) // 2
    for unit in (first, second):
        unit.finish()
    return ahead, second.busy_clocks() - before[1]


@contextmanager
def _units(place: Path, rows: int, progress: Progress) -> Iterator[dict[str, Unit]]:
    """Yield the compute units on an emulated card, after building their kernels."""
    x, y = bench_rows()
    images = dict[str, bytes]()
    for kernel in KERNELS:
        core = write_bench_core(x, y, place, name=kernel.name)
        images[kernel.name] = build_hardware_simulator(write_kernel(core, place / kernel.name), progress).read_bytes()
    xclbin = place / "sharing.xclbin"
    xclbin.write_bytes(assemble_kernels(KERNELS, Target.HW_EMU, find_platform("u250"), pack_images(images)))
    library = load_library(Target.HW_EMU)
    with ExitStack() as opened:
        device = library.open_device(0)
        opened.callback(library.close_device, device)
        uuid = library.load_xclbin(device, str(xclbin))
        yield {
            name: _unit(library, device, uuid, name, (x.row_bytes * rows, y.row_bytes * rows), rows, opened)
            for name in (LEFT, APART, TOGETHER)
        }


def _unit(
    library: Library, device: Handle, uuid: str, name: str, sizes_bytes: tuple[int, int], rows: int, opened: ExitStack
) -> Unit:
    kernel = library.open_kernel(device, uuid, f"{name.rpartition('_')[0]}:{{{name}}}")
    opened.callback(library.close_kernel, kernel)
    buffers = [library.allocate(device, size, library.group_id(kernel, argument)) for argument, size in enumerate(sizes_bytes)]
    for buffer, size in zip(buffers, sizes_bytes, strict=True):
        opened.callback(library.free_buffer, buffer)
        library.map_buffer(buffer, size)[:] = 0
        library.sync(buffer, TO_DEVICE, size, 0)
    runs = tuple(library.open_run(kernel) for _ in range(RUNS))
    for run in runs:
        opened.callback(library.close_run, run)
        for argument, buffer in enumerate(buffers):
            library.set_buffer(run, argument, buffer)
        library.set_scalar(run, len(buffers), rows)
    return Unit(library, kernel, runs)
