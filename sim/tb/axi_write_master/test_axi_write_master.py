# SPDX-License-Identifier: Apache-2.0
"""axi_write_master between a descriptor source, a data source and a memory; the whole memory is compared afterwards."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.axi_bus import WAITS, MemoryBehaviour, WriteMemory, WriteMonitor
from tests.support.rtl.bus import Bench, Sink, Source
from tests.support.rtl.cocotb_run import bench_test, run_bench

_MEMORY_BYTES = 1 << 17


class Buffered:
    """Checks that an address is offered only when all data of its burst have been taken."""

    def __init__(self, data: Source, monitor: WriteMonitor) -> None:
        self._data, self._monitor = data, monitor

    def drive(self) -> None:
        pass

    def sample(self) -> None:
        assert sum(burst.beats for burst in self._monitor.bursts) <= self._data.taken

    def reset(self) -> None:
        self._data.taken = 0
        self._monitor.bursts.clear()


class TB:
    def __init__(self, dut: Any, behaviour: MemoryBehaviour, pause: float = 0.0, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.beat_bytes = int(dut.DATA_WIDTH.value) // 8
        self.expected = bytearray(self.rng.randbytes(_MEMORY_BYTES))
        self.stored = bytearray(self.expected)
        self.descriptors = Source(dut, "s_axis_desc", ("address", "beats", "tail"), self.rng, pause)
        self.data = Source(dut, "s_axis", ("tdata",), self.rng, pause)
        self.done = Sink(dut, "m_axis_done", (), self.rng, pause)
        self.memory = WriteMemory(dut, "m_axi", self.stored, self.rng, behaviour)
        self.monitor = WriteMonitor(dut, "m_axi", self.beat_bytes, int(dut.MAX_BURST_BEATS.value))
        buffered = Buffered(self.data, self.monitor)
        self.bench = Bench(dut, [self.descriptors, self.data, self.done, self.memory, self.monitor, buffered])
        self.runs = 0

    def send(self, address: int, size_bytes: int) -> None:
        self.descriptors.send(address=address, beats=-(-size_bytes // self.beat_bytes), tail=size_bytes % self.beat_bytes)
        self.runs += 1
        text = self.rng.randbytes(size_bytes)
        self.expected[address : address + size_bytes] = text
        padding = self.rng.randbytes(-size_bytes % self.beat_bytes)
        whole = text + padding  # the bytes after the descriptor's end, in the last beat, must not be written
        for at in range(0, len(whole), self.beat_bytes):
            self.data.send(tdata=int.from_bytes(whole[at : at + self.beat_bytes], "little"))

    def send_random(self) -> None:
        size_bytes = self.rng.choice([0, 1, 3, self.beat_bytes, self.rng.randrange(1, 150 * self.beat_bytes)])
        beats = (_MEMORY_BYTES - size_bytes) // self.beat_bytes
        self.send(self.rng.randrange(beats) * self.beat_bytes, size_bytes)

    async def check(self) -> None:
        await self.bench.until(lambda: len(self.done.received) >= self.runs)
        assert self.stored == self.expected  # at done, not later
        await self.bench.step(20)
        assert self.stored == self.expected
        assert len(self.done.received) == self.runs
        assert self.data.idle

    def forget(self) -> None:
        self.expected[:] = self.stored
        self.done.received.clear()
        self.runs = 0


@bench_test
async def writes_what_the_descriptors_say_and_not_a_byte_more(dut: Any) -> None:
    cases = [(0.0, 0.0, 1), (0.3, 0.3, 20), (0.0, 0.6, 5), (0.6, 0.0, 60)]
    for seed, (pause_memory, pause, latency) in enumerate(cases):
        tb = TB(dut, MemoryBehaviour(pause_memory, latency), pause, seed)
        await tb.bench.reset()
        for _ in range(25):
            tb.send_random()
        await tb.check()
        assert dut.error.value == 0


@bench_test
async def a_memory_may_wait_for_addresses_and_data_as_axi4_permits(dut: Any) -> None:
    for seed, (address, data) in enumerate(WAITS):
        behaviour = MemoryBehaviour(0.2, 5, address_waits_for_data=address, data_waits_for_address=data)
        tb = TB(dut, behaviour, 0.2, seed)
        await tb.bench.reset()
        for _ in range(10):
            tb.send_random()
        await tb.check()


@bench_test
async def every_tail_length_is_strobed_to_the_byte(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour())
    await tb.bench.reset()
    for size_bytes in range(2 * tb.beat_bytes + 1):
        tb.send(4096 * (size_bytes % 20), size_bytes)
    await tb.check()


@bench_test
async def a_beat_leaves_in_every_clock(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(latency=8))
    await tb.bench.reset()
    tb.send(0, 1000 * tb.beat_bytes)
    await tb.bench.until(lambda: len(tb.done.received) == 1)
    assert tb.bench.clocks <= 1000 + 64 + 40


@bench_test
async def each_done_waits_for_its_own_last_response(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(latency=40))
    await tb.bench.reset()
    tb.send(0, 5)
    tb.send(4096, 0)  # nothing to write, but not done before the previous one
    tb.send(8192, 5)
    await tb.bench.step(30)
    assert tb.monitor.finished == 2
    assert not tb.done.received
    await tb.check()
    tb.send(4096, 0)
    await tb.bench.step(12)
    assert len(tb.done.received) == 4


@bench_test
async def an_error_response_stays_visible_until_reset(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(errors={4096}))
    await tb.bench.reset()
    tb.send(0, 100)
    await tb.check()
    assert dut.error.value == 0
    tb.send(4096, 100)
    tb.send(0, 100)
    await tb.check()
    assert dut.error.value == 1
    await tb.bench.reset()
    assert dut.error.value == 0


@bench_test
async def reset_in_mid_burst_leaves_nothing_behind(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(0.2, 10), 0.2, 3)
    await tb.bench.reset()
    for clocks in (20, 110, 200):
        tb.send(0, 400 * tb.beat_bytes)
        await tb.bench.step(clocks)
        await tb.bench.reset(2)
        tb.forget()
        for _ in range(5):
            tb.send_random()
        await tb.check()
        tb.forget()


SETS = {
    "wide": {"DATA_WIDTH": 512, "MAX_BURST_BEATS": 64, "OUTSTANDING": 16},
    "narrow": {"DATA_WIDTH": 32, "MAX_BURST_BEATS": 16, "OUTSTANDING": 8},
}


def test_axi_write_master(tmp_path: Path) -> None:
    run_bench(tmp_path, "axi_write_master", rtl_sources("axi_write_master"), __name__, sets=SETS)
