# SPDX-License-Identifier: Apache-2.0
"""axi_read_master between a descriptor source, a memory and a sink; the data are compared with the memory's."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.axi_bus import MemoryBehaviour, ReadMemory, ReadMonitor
from tests.support.rtl.bus import Bench, Sink, Source
from tests.support.rtl.cocotb_run import bench_test, run_bench

_MEMORY_BYTES = 1 << 18


class TB:
    def __init__(self, dut: Any, behaviour: MemoryBehaviour, pause: float = 0.0, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.dut = dut
        self.beat_bytes = int(dut.DATA_WIDTH.value) // 8
        self.data = bytearray(self.rng.randbytes(_MEMORY_BYTES))
        self.source = Source(dut, "s_axis_desc", ("address", "beats"), self.rng, pause)
        self.sink = Sink(dut, "m_axis", ("tdata",), self.rng, pause)
        self.memory = ReadMemory(dut, "m_axi", self.data, self.rng, behaviour)
        self.monitor = ReadMonitor(dut, "m_axi", self.beat_bytes, int(dut.MAX_BURST_BEATS.value))
        self.bench = Bench(dut, [self.source, self.sink, self.memory, self.monitor])
        self.expected: list[int] = []

    def send(self, address: int, beats: int) -> None:
        self.source.send(address=address, beats=beats)
        for at in range(address, address + beats * self.beat_bytes, self.beat_bytes):
            self.expected.append(int.from_bytes(self.data[at : at + self.beat_bytes], "little"))

    def send_random(self, most_beats: int = 150) -> None:
        beats = self.rng.choice([0, 1, 2, self.rng.randrange(most_beats)])
        last = _MEMORY_BYTES // self.beat_bytes - beats
        self.send(self.rng.randrange(last) * self.beat_bytes, beats)

    async def check(self) -> None:
        await self.bench.until(lambda: len(self.sink.received) >= len(self.expected))
        await self.bench.step(20)
        assert [item["tdata"] for item in self.sink.received] == self.expected


@bench_test
async def reads_what_the_descriptors_say_under_pauses_everywhere(dut: Any) -> None:
    cases = [(0.0, 0.0, 1), (0.3, 0.3, 20), (0.0, 0.6, 5), (0.6, 0.0, 60)]
    for seed, (pause_memory, pause, latency) in enumerate(cases):
        tb = TB(dut, MemoryBehaviour(pause_memory, latency), pause, seed)
        await tb.bench.reset()
        for _ in range(25):
            tb.send_random()
        await tb.check()
        assert tb.monitor.held_back == 0  # room for every beat is reserved before it is requested
        assert tb.monitor.outstanding <= int(dut.OUTSTANDING.value)
        assert dut.error.value == 0


@bench_test
async def streams_without_a_bubble_through_a_slow_memory(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(latency=60))
    await tb.bench.reset()
    for _ in range(4):
        tb.send(4096, 500)
    await tb.check()
    assert tb.bench.clocks <= 2000 + 60 + 40
    assert tb.monitor.outstanding > 1


@bench_test
async def an_error_response_stays_visible_until_reset(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(errors={4096 + 3 * tb_bytes(dut)}))
    await tb.bench.reset()
    tb.send(0, 4)
    await tb.check()
    assert dut.error.value == 0
    tb.send(4096, 4)
    tb.send(0, 4)
    await tb.check()
    assert dut.error.value == 1
    await tb.bench.reset()
    assert dut.error.value == 0


@bench_test
async def reset_in_mid_burst_leaves_nothing_behind(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(0.2, 10), 0.4, 3)
    await tb.bench.reset()
    for clocks in (7, 30, 90):
        tb.send(0, 400)
        await tb.bench.step(clocks)
        await tb.bench.reset(2)
        tb.expected.clear()
        tb.sink.received.clear()
        for _ in range(5):
            tb.send_random()
        await tb.check()
        tb.expected.clear()
        tb.sink.received.clear()


def tb_bytes(dut: Any) -> int:
    return int(dut.DATA_WIDTH.value) // 8


SETS = {
    "wide": {"DATA_WIDTH": 512, "MAX_BURST_BEATS": 64, "OUTSTANDING": 16},
    "narrow": {"DATA_WIDTH": 32, "MAX_BURST_BEATS": 16, "OUTSTANDING": 8},
}


def test_axi_read_master(tmp_path: Path) -> None:
    run_bench(tmp_path, "axi_read_master", rtl_sources("axi_read_master"), __name__, sets=SETS)
