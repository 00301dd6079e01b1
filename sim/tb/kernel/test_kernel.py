# SPDX-License-Identifier: Apache-2.0
"""The whole kernel around a bench core, with cocotbext-axi's AXI4-Lite master and memories and this project's monitors.

    AxiLiteMaster -> s_axi_control | kernel | m_axi_gmem0 -> AxiRamRead  --+
                                            | m_axi_gmem1 -> AxiRamWrite --+- one memory, compared byte for byte

Every byte around an output is a canary. numpy computes the expected rows (Row and the bench core's formula).
"""

from __future__ import annotations

import itertools
import mmap
import random
from pathlib import Path
from typing import Any

import numpy as np
from cocotbext.axi import AxiRamRead, AxiRamWrite, AxiReadBus, AxiWriteBus

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.sim.bench_core import bench_core_wire, bench_rows, several_rows, write_bench_core
from tests.support.rtl.axi_bus import ReadMonitor, WriteMonitor
from tests.support.rtl.bus import Bench
from tests.support.rtl.cocotb_run import bench_test, bench_test_on, run_bench
from tests.support.rtl.control_bus import ControlMaster

_MEMORY_BYTES = 1 << 22
_X, _Y = 0x1000, 0x200000

#: rows and initiation interval
KERNELS = {
    "rows_18_to_1": (bench_rows(), 1),
    "rows_3_to_5": (bench_rows(3, 5), 1),
    "rows_33_out": (bench_rows(1, 33), 3),
    "rows_40_in": (bench_rows(40, 2), 1),
    "several": (several_rows(), 1),
    "registered": (several_rows(), 1),
}

#: kernels with registers at their AXI ports
_REGISTERED = {"registered"}

_STALLS = {
    "ar": registers.READ_ADDRESS_CYCLES,
    "aw": registers.WRITE_ADDRESS_CYCLES,
    "w": registers.WRITE_DATA_CYCLES,
    "r": registers.STARVED_CYCLES,
    "blocked": registers.BLOCKED_CYCLES,
    "core": registers.CORE_CYCLES,
}


class Waits:
    """Counts the clocks in which a channel's valid was high and its ready low."""

    def __init__(self, dut: Any, channel: str) -> None:
        self._valid, self._ready = getattr(dut, f"{channel}valid"), getattr(dut, f"{channel}ready")
        self.clocks = 0

    def drive(self) -> None:
        pass

    def sample(self) -> None:
        self.clocks += self._valid.value == 1 and self._ready.value == 0

    def reset(self) -> None:
        self.clocks = 0


class DataWaits(Waits):
    """The same for W, without the clocks in which W waits with the address of its burst: these are AW's."""

    def __init__(self, dut: Any) -> None:
        super().__init__(dut, "m_axi_gmem1_w")
        self._dut = dut
        self._open = 0  # bursts whose address has been taken, less those whose data have

    def sample(self) -> None:
        dut = self._dut
        if self._open > 0:
            super().sample()
        self._open += dut.m_axi_gmem1_awvalid.value == 1 and dut.m_axi_gmem1_awready.value == 1
        self._open -= self._valid.value == 1 and self._ready.value == 1 and dut.m_axi_gmem1_wlast.value == 1

    def reset(self) -> None:
        super().reset()
        self._open = 0


class TB:
    """The bench: `put` writes rows to memory, `control` starts and finishes runs, and `check` compares one output."""

    def __init__(self, dut: Any, seed: int = 1) -> None:
        self.rng, self.generator = random.Random(seed), np.random.default_rng(seed)
        (self.x, self.y), _ = KERNELS[dut._name]
        self.memory = mmap.mmap(-1, _MEMORY_BYTES)
        self.array = np.frombuffer(self.memory, dtype=np.uint8)
        self.array[:] = self.generator.integers(0, 256, _MEMORY_BYTES, dtype=np.uint8)
        self.expected = self.array.copy()
        self.reads, self.writes = (
            ReadMonitor(dut, "m_axi_gmem0"),
            WriteMonitor(dut, "m_axi_gmem1", early=dut._name in _REGISTERED),
        )
        self.waits = [Waits(dut, "m_axi_gmem0_ar"), Waits(dut, "m_axi_gmem1_aw"), DataWaits(dut)]
        self.bench = Bench(dut, [self.reads, self.writes, *self.waits], "ap_clk", "ap_rst_n")
        memory = {"reset_active_level": False, "size": _MEMORY_BYTES, "mem": self.memory}
        self.ram_read = AxiRamRead(AxiReadBus.from_prefix(dut, "m_axi_gmem0"), dut.ap_clk, dut.ap_rst_n, **memory)
        self.ram_write = AxiRamWrite(AxiWriteBus.from_prefix(dut, "m_axi_gmem1"), dut.ap_clk, dut.ap_rst_n, **memory)
        self.control = ControlMaster(dut, self.bench, "ap_clk", "ap_rst_n")

    def pause(self, probability: float) -> None:
        self.control.pause(probability, self.rng)
        ram = (self.ram_read.ar_channel, self.ram_read.r_channel)
        for channel in (*ram, self.ram_write.aw_channel, self.ram_write.w_channel, self.ram_write.b_channel):
            channel.set_pause_generator(self.rng.random() < probability for _ in itertools.count())

    async def stalls(self, slow: str, rows: int) -> dict[str, int]:
        """Return what a run adds to the stall counters if one channel of the memory is ready only in one clock of eight."""
        before = {name: await self.control.read(offset) for name, offset in _STALLS.items()}
        channel = getattr(self.ram_read if slow in ("ar", "r") else self.ram_write, f"{slow}_channel")
        channel.set_pause_generator(clock % 8 != 0 for clock in itertools.count())
        await self.run(rows)
        channel.clear_pause_generator()
        channel.pause = False
        return {name: await self.control.read(offset) - before[name] for name, offset in _STALLS.items()}

    def put(self, rows: int, x: int = _X, y: int = _Y) -> None:
        """Write random rows to memory at x, and their results to the expected memory at y."""
        data = self.x.encode([t.quantise(self.generator.normal(0, 8, (rows, t.size))) for t in self.x.tensors])
        self.array[x : x + data.nbytes] = self.expected[x : x + data.nbytes] = data
        result = self.y.encode(bench_core_wire(self.x.decode(data), self.x, self.y))
        self.expected[y : y + result.nbytes] = result

    def check(self, start: int = 0, end: int = _MEMORY_BYTES) -> None:
        wrong = np.flatnonzero(self.array[start:end] != self.expected[start:end])
        assert not wrong.size, f"{wrong.size} bytes are wrong, the first at {start + wrong[0]:#x}"

    async def run(self, rows: int, x: int = _X, y: int = _Y) -> None:
        self.put(rows, x, y)
        await self.control.start(x, y, rows)
        await self.control.finish()
        self.check()


@bench_test
async def any_number_of_rows_and_nothing_behind_the_last(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    for rows in (0, 1, 2, 15, 16, 17, 31, 257):
        await tb.run(rows)
    assert await tb.control.read(registers.RUNS) == 8
    assert await tb.control.read(registers.AXI_ERROR) == 0
    assert await tb.control.read(registers.CONTROL) & registers.AP_IDLE


@bench_test_on("rows_33_out", "several", "registered")
async def every_channel_may_pause_at_random(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    for probability in (0.2, 0.6):
        tb.pause(probability)
        for rows in (17, 1, 0, 233):
            await tb.run(rows, _X + 64 * tb.rng.randrange(64), _Y + 64 * tb.rng.randrange(64))
    assert tb.reads.held_back == 0


@bench_test_on("several")
async def arguments_overwritten_right_after_acceptance_do_no_harm(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.put(200)
    await tb.control.start(_X, _Y, 200)
    await tb.control.write_arguments(0x3000, 0x300000, 77)
    await tb.control.finish()
    tb.check()


@bench_test_on("several", "registered")
async def queued_runs_are_done_in_order_and_each_is_whole_by_then(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.pause(0.1)
    sizes = (100, 0, 3, 250, 1, 0, 16, 40, 0, 5)
    places = [(_X + 0x10000 * i, _Y + 0x10000 * i) for i in range(len(sizes))]
    for rows, (x, y) in zip(sizes, places, strict=True):
        tb.put(rows, x, y)
    ahead = 4
    for i in range(len(sizes) + ahead):
        if i < len(sizes):
            await tb.control.start(*places[i], sizes[i])
        if (done := i - ahead) >= 0:
            await tb.control.finish()
            y = places[done][1]
            tb.check(y, y + sizes[done] * tb.y.row_bytes)
    tb.check()
    assert await tb.control.read(registers.RUNS) == len(sizes)


@bench_test
async def reset_in_mid_run_leaves_a_working_kernel(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    for clocks in (5, 60, 150, 400):
        tb.put(2000)
        await tb.control.start(_X, _Y, 2000)
        await tb.bench.step(clocks)
        await tb.bench.reset()
        await tb.bench.step(4)
        assert await tb.control.read(registers.CONTROL) == registers.AP_IDLE
        tb.expected[:] = tb.array
        for rows in (3, 40):
            await tb.run(rows)


@bench_test_on("rows_33_out", "several")
async def each_stall_is_counted_for_the_channel_that_causes_it_and_for_no_other(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    for slow in ("ar", "r", "aw", "w"):
        seen, bursts = [waits.clocks for waits in tb.waits], len(tb.writes.bursts)
        stalls = await tb.stalls(slow, 60)
        seen = [waits.clocks - before for waits, before in zip(tb.waits, seen, strict=True)]
        assert [stalls[channel] for channel in ("ar", "aw", "w")] == seen
        assert all(stalls[channel] == 0 for channel in ("ar", "aw") if channel != slow)
        # this memory may take a burst's first beat a clock after its address
        assert slow == "w" or stalls["w"] <= len(tb.writes.bursts) - bursts
        assert stalls["core"] == stalls["blocked"]  # the write master's buffer holds 60 rows of results
        assert slow != "w" or stalls["w"] > 0


@bench_test_on("several")
async def the_interrupt_tells_that_a_run_is_done(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    await tb.control.write(registers.GIE, 1)
    await tb.control.write(registers.IER, 1)
    tb.put(20)
    await tb.control.start(_X, _Y, 20)
    await tb.bench.until(lambda: dut.interrupt.value == 1, 1000)
    tb.check()
    await tb.control.write(registers.CONTROL, registers.AP_CONTINUE)
    await tb.control.write(registers.ISR, await tb.control.read(registers.ISR))
    await tb.bench.step(2)
    assert dut.interrupt.value == 0


def test_kernel(tmp_path: Path) -> None:
    kernels = {
        name: write_kernel(write_bench_core(*rows, tmp_path, name=name, ii=ii), tmp_path, port_registers=name in _REGISTERED)
        for name, (rows, ii) in KERNELS.items()
    }
    tops = {name: kernel.top for name, kernel in kernels.items()}
    sources, waivers = (
        list(dict.fromkeys(file for kernel in kernels.values() for file in getattr(kernel, files)))
        for files in ("sources", "lint_waivers")
    )
    run_bench(tmp_path / "build", tops, sources, __name__, waivers=waivers)
