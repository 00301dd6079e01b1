# SPDX-License-Identifier: Apache-2.0
"""kernel_control: XRT's use of the ap_ctrl_chain protocol, through cocotbext-axi's AXI4-Lite master."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.bus import Bench, Item, Sink, Source
from tests.support.rtl.cocotb_run import bench_test, run_bench
from tests.support.rtl.control_bus import ControlMaster

_ROW_IN_BYTES, _ROW_OUT_BYTES = 72, 4


_EVENTS = (
    ("starved", registers.STARVED_CYCLES),
    ("blocked", registers.BLOCKED_CYCLES),
    ("read_address_waits", registers.READ_ADDRESS_CYCLES),
    ("write_address_waits", registers.WRITE_ADDRESS_CYCLES),
    ("write_data_waits", registers.WRITE_DATA_CYCLES),
)


class TB:
    def __init__(self, dut: Any, pause: float = 0.0, seed: int = 1) -> None:
        self.dut = dut
        self.rng = random.Random(seed)
        self.runs = Sink(dut, "m_axis_run", ("x", "y", "rows", "w"), self.rng, pause)
        self.done = Source(dut, "s_axis_done", (), self.rng, pause)
        self.bench = Bench(dut, [self.runs, self.done])
        for name in ("read_error", "write_error", *(event for event, _ in _EVENTS), "results_valid", "results_ready"):
            getattr(dut, name).value = 0
        self.control = ControlMaster(dut, self.bench)
        self.weights = int(dut.WEIGHTS_BEATS.value)
        self.write, self.read, self.write_bytes = self.control.write, self.control.read, self.control.write_bytes

    async def start(self, x: int, y: int, rows: int, w: int = 0) -> Item:
        """Start a run. Returns the expected run; without weights in memory, w is written too but has no effect."""
        await self.control.write_arguments(x, y, rows, w)
        await self.write(registers.CONTROL, registers.AP_START)
        return {"x": x, "y": y, "rows": rows, "w": w if self.weights else 0}

    async def start_random(self) -> Item:
        x, y, w = (self.rng.randrange(1 << 64) for _ in range(3))
        return await self.start(x, y, self.rng.randrange(1 << 32), w)


@bench_test
async def control_reads_idle_after_reset_and_constants_read_back(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    assert await tb.read(registers.CONTROL) == registers.AP_IDLE
    assert await tb.read(registers.VERSION) == registers.MAP_VERSION
    assert await tb.read(registers.ROW_IN_BYTES) == _ROW_IN_BYTES
    assert await tb.read(registers.ROW_OUT_BYTES) == _ROW_OUT_BYTES
    zero = {register.offset + 4 * word for register in registers.REGISTERS for word in range(register.words)}
    zero -= {registers.CONTROL, registers.VERSION, registers.ROW_IN_BYTES, registers.ROW_OUT_BYTES, registers.WEIGHTS_BEATS}
    assert await tb.read(registers.WEIGHTS_BEATS) == tb.weights
    for offset in sorted(zero | {0x18, 0x24, 0x2C, 0x38, 0x3C, 0x7C, 0xFFC}):
        assert await tb.read(offset) == 0


@bench_test
async def bytes_are_written_by_their_strobes(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    await tb.write(registers.X, 0x11223344)
    await tb.write_bytes(registers.X + 1, b"\xaa\xbb")
    assert await tb.read(registers.X) == 0x11BBAA44
    await tb.write(registers.RUNS, 5)  # read only
    assert await tb.read(registers.RUNS) == 0


@bench_test
async def a_run_goes_through_start_ready_done_and_continue(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.runs.pause = 1.0
    first = await tb.start_random()
    status = await tb.read(registers.CONTROL)
    assert status == registers.AP_READY  # accepted: start has fallen, neither idle nor done
    assert await tb.read(registers.CONTROL) == 0  # ready is cleared by reading
    tb.runs.pause = 0.0
    await tb.bench.step(3)
    assert tb.runs.received == [first]
    tb.done.send()
    await tb.bench.step(3)
    for _ in range(3):  # done stays set however often it is read
        assert await tb.read(registers.CONTROL) == registers.AP_DONE | registers.AP_IDLE
    assert await tb.read(registers.RUNS) == 1
    await tb.write(registers.CONTROL, registers.AP_CONTINUE)
    assert await tb.read(registers.CONTROL) == registers.AP_IDLE
    await tb.write(registers.CONTROL, registers.AP_CONTINUE)  # nothing to acknowledge: no effect
    assert await tb.read(registers.CONTROL) == registers.AP_IDLE


@bench_test
async def arguments_are_latched_when_the_run_is_accepted(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.runs.pause = 1.0
    first = await tb.start(0x1000, 0x2000, 16, 0x3000)
    second = await tb.start(0xAAAA_BBBB_0000, 0xCCCC_DDDD_0000, 32, 0xEEEE_FFFF_0000)  # the first has not left yet
    await tb.write(registers.ROWS, 99)
    tb.runs.pause = 0.0
    await tb.bench.step(4)
    assert tb.runs.received[0] == first
    # the second start waited for the first run to leave, so it is accepted with the arguments of that clock
    assert tb.runs.received[1] == {**second, "rows": 99}


@bench_test
async def the_address_of_weights_reads_back_where_there_are_any(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    await tb.write(registers.W, 0x89ABC000)
    await tb.write_bytes(registers.W + 5, b"\x12\x34")
    words = [await tb.read(registers.W), await tb.read(registers.W + 4)]
    assert words == ([0x89ABC000, 0x00341200] if tb.weights else [0, 0])


@bench_test
async def done_counts_every_run_until_each_is_acknowledged(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    sent = [await tb.start_random() for _ in range(registers.MAX_RUNS)]
    await tb.bench.step(4)
    assert tb.runs.received == sent
    await tb.start_random()  # one too many: it must wait for an acknowledgement
    await tb.bench.step(10)
    assert await tb.read(registers.CONTROL) & registers.AP_START
    for _ in range(3):
        tb.done.send()
    await tb.bench.step(10)
    assert await tb.read(registers.CONTROL) & (registers.AP_START | registers.AP_DONE) == registers.AP_START | registers.AP_DONE
    for left in (2, 1, 0):
        await tb.write(registers.CONTROL, registers.AP_CONTINUE)
        assert bool(await tb.read(registers.CONTROL) & registers.AP_DONE) == (left > 0)
    assert len(tb.runs.received) == registers.MAX_RUNS + 1
    assert not await tb.read(registers.CONTROL) & registers.AP_START


@bench_test
async def start_and_continue_in_one_write_both_count(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    await tb.start_random()
    tb.done.send()
    await tb.bench.step(3)
    await tb.write(registers.CONTROL, registers.AP_START | registers.AP_CONTINUE)
    assert await tb.read(registers.CONTROL) == registers.AP_READY
    assert len(tb.runs.received) == 2


@bench_test
async def auto_restart_and_reset_bits_are_ignored(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    await tb.write(registers.CONTROL, 1 << 7 | 1 << 8)
    assert await tb.read(registers.CONTROL) == registers.AP_IDLE
    assert not tb.runs.received


@bench_test
async def interrupts_follow_done_and_are_toggled_off(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    await tb.write(registers.IER, 1)
    await tb.start_random()
    tb.done.send()
    await tb.bench.step(3)
    assert await tb.read(registers.ISR) == 1
    assert dut.irq.value == 0  # not enabled globally
    await tb.write(registers.GIE, 1)
    await tb.bench.step(2)
    assert dut.irq.value == 1
    await tb.write(registers.ISR, 1)  # done is still set, so the bit is set again
    assert await tb.read(registers.ISR) == 1
    await tb.write(registers.CONTROL, registers.AP_CONTINUE)
    await tb.write(registers.ISR, await tb.read(registers.ISR))
    assert await tb.read(registers.ISR) == 0
    assert dut.irq.value == 0
    await tb.write(registers.ISR, 2)  # toggle on write sets a bit that was not set
    assert await tb.read(registers.ISR) == 2
    await tb.write(registers.ISR, 2)
    await tb.write(registers.IER, 2)
    await tb.start_random()
    assert await tb.read(registers.ISR) == 2  # ready
    assert dut.irq.value == 1


@bench_test
async def counters_tell_clocks_runs_and_errors(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    await tb.start_random()
    await tb.bench.step(100)
    tb.done.send()
    await tb.bench.until(lambda: tb.done.idle)
    await tb.bench.step()
    busy = await tb.read(registers.BUSY_CYCLES)
    assert await tb.read(registers.BUSY_CYCLES) == busy  # does not count while nothing is in flight
    assert await tb.read(registers.BUSY_CYCLES + 4) == 0
    assert await tb.read(registers.RUN_CYCLES) == busy
    assert 100 <= busy <= 120
    dut.write_error.value = 1
    assert await tb.read(registers.AXI_ERROR) == registers.WRITE_ERROR
    dut.read_error.value = 1
    assert await tb.read(registers.AXI_ERROR) == registers.READ_ERROR | registers.WRITE_ERROR


@bench_test
async def every_event_has_a_counter_of_its_own(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    for clocks, (event, _) in enumerate(_EVENTS, 5):
        getattr(dut, event).value = 1
        await tb.bench.step(clocks)
        getattr(dut, event).value = 0
    for clocks, (_, counter) in enumerate(_EVENTS, 5):
        assert await tb.read(counter) == clocks


@bench_test
async def a_row_waits_for_the_core_alone_while_results_leave_without_waiting(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    dut.blocked.value = 1
    for valid, ready, clocks in ((0, 0, 10), (1, 1, 10), (1, 0, 10), (1, 1, 1), (0, 1, 10), (1, 1, 4)):
        dut.results_valid.value, dut.results_ready.value = valid, ready
        await tb.bench.step(clocks)
    dut.results_valid.value = 0
    await tb.bench.step(10)
    dut.blocked.value = 0
    assert await tb.read(registers.BLOCKED_CYCLES) == 55
    # the first 20, and one until the wait is seen; in the last 10 none of the last four results had waited
    assert await tb.read(registers.CORE_CYCLES) == 31


@bench_test
async def the_bus_may_pause_anywhere(dut: Any) -> None:
    tb = TB(dut, 0.5, 4)
    await tb.bench.reset()
    tb.control.pause(0.6, tb.rng)
    sent = []
    for _ in range(12):
        sent.append(await tb.start_random())
        while await tb.read(registers.CONTROL) & registers.AP_START:
            pass
        await tb.bench.until(lambda: len(tb.runs.received) == len(sent))
        tb.done.send()
        while not await tb.read(registers.CONTROL) & registers.AP_DONE:
            pass
        await tb.write(registers.CONTROL, registers.AP_CONTINUE)
    assert tb.runs.received == sent
    assert await tb.read(registers.RUNS) == 12


@bench_test
async def reset_forgets_runs_and_acknowledgements(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    await tb.start_random()
    tb.done.send()
    await tb.start_random()
    await tb.bench.reset()
    await tb.bench.step(4)
    assert await tb.read(registers.CONTROL) == registers.AP_IDLE
    assert await tb.read(registers.RUNS) == 0
    tb.runs.received.clear()
    run = await tb.start_random()
    await tb.bench.step(4)
    assert tb.runs.received == [run]


_COMMON = {"ROW_IN_BYTES": _ROW_IN_BYTES, "ROW_OUT_BYTES": _ROW_OUT_BYTES, "MAX_RUNS": registers.MAX_RUNS}
SETS = {"fixed": {**_COMMON, "WEIGHTS_BEATS": 0}, "weights_in_memory": {**_COMMON, "WEIGHTS_BEATS": 133}}


def test_kernel_control(tmp_path: Path) -> None:
    run_bench(tmp_path, "kernel_control", rtl_sources("kernel_control"), __name__, sets=SETS)
