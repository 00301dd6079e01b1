# SPDX-License-Identifier: Apache-2.0
"""axi_read_share between three masters and a memory: each receives its own beats, in order, and they take turns."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.axi_bus import MemoryBehaviour, ReadMemory, ReadMonitor
from tests.support.rtl.bus import Bench, Item, Sink, Source
from tests.support.rtl.cocotb_run import bench_test, run_bench

_MEMORY_BYTES = 1 << 16
_MASTERS = range(3)


class TB:
    def __init__(self, dut: Any, behaviour: MemoryBehaviour, pause: float = 0.0, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.beat_bytes = int(dut.DATA_WIDTH.value) // 8
        self.data = bytearray(self.rng.randbytes(_MEMORY_BYTES))
        self.masters = [Source(dut, f"s_ar{number}", ("addr", "len"), self.rng, pause) for number in _MASTERS]
        self.beats = [Sink(dut, f"m_r{number}", ("data", "resp", "last"), self.rng, pause) for number in _MASTERS]
        self.memory = ReadMemory(dut, "m_axi", self.data, self.rng, behaviour)
        self.monitor = ReadMonitor(dut, "m_axi", self.beat_bytes)
        self.bench = Bench(dut, [*self.masters, *self.beats, self.memory, self.monitor])
        self.expected: list[list[Item]] = [[] for _ in _MASTERS]

    def ask(self, number: int, address: int, beats: int) -> None:
        self.masters[number].send(addr=address, len=beats - 1)
        for beat in range(beats):
            at = address + beat * self.beat_bytes
            data = int.from_bytes(self.data[at : at + self.beat_bytes], "little")
            resp = 2 if at in self.memory.behaviour.errors else 0
            self.expected[number].append({"data": data, "resp": resp, "last": int(beat == beats - 1)})

    def ask_random(self, number: int) -> None:
        page = 4096 * self.rng.randrange(_MEMORY_BYTES // 4096)
        first = self.rng.randrange(64)
        beats = self.rng.choice([1, 1, 2, self.rng.randrange(1, 65)])
        self.ask(number, page + first * self.beat_bytes, min(beats, 64 - first))

    async def check(self) -> None:
        pairs = list(zip(self.beats, self.expected, strict=True))
        await self.bench.until(lambda: all(len(beats.received) >= len(wanted) for beats, wanted in pairs))
        await self.bench.step(20)
        for beats, wanted in pairs:
            assert beats.received == wanted

    def forget(self) -> None:
        for beats, wanted in zip(self.beats, self.expected, strict=True):
            beats.received.clear()
            wanted.clear()


@bench_test
async def each_master_gets_what_it_asked_for_in_its_order(dut: Any) -> None:
    for seed, (pause_memory, pause, latency) in enumerate([(0.0, 0.0, 1), (0.2, 0.2, 40), (0.0, 0.5, 10), (0.5, 0.0, 80)]):
        tb = TB(dut, MemoryBehaviour(pause_memory, latency), pause, seed)
        await tb.bench.reset()
        for _ in range(20):
            for number in _MASTERS:
                tb.ask_random(number)
        await tb.check()
        assert tb.monitor.outstanding <= int(dut.DEPTH.value) + 1
        assert pause or tb.monitor.held_back == 0  # no beat waits if the masters take the beats they requested


@bench_test
async def all_masters_are_served_in_turn(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour())
    await tb.bench.reset()
    for page in range(8):
        for number in _MASTERS:
            tb.ask(number, 4096 * page + number * tb.beat_bytes, 2)
    await tb.check()
    assert [burst.address % 4096 // tb.beat_bytes for burst in tb.monitor.bursts] == [*_MASTERS] * 8


@bench_test
async def bursts_follow_each_other_without_a_pause(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(latency=20))
    await tb.bench.reset()
    for burst in range(30):
        tb.ask(burst % 3, 4096 * (burst % 16), 32)
    await tb.check()
    assert tb.bench.clocks <= 30 * 32 + 60


@bench_test
async def an_error_comes_with_its_beat(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(errors={4096, 8192 + tb_bytes(dut)}))
    await tb.bench.reset()
    for page in range(6):
        tb.ask(page % 3, 4096 * page, 3)
    await tb.check()


def tb_bytes(dut: Any) -> int:
    return int(dut.DATA_WIDTH.value) // 8


@bench_test
async def reset_in_mid_burst_leaves_nothing_behind(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(0.2, 20), 0.2, 3)
    await tb.bench.reset()
    for clocks in (10, 45, 150):
        for _ in range(6):
            for number in _MASTERS:
                tb.ask_random(number)
        await tb.bench.step(clocks)
        await tb.bench.reset(2)
        tb.forget()
        for number in _MASTERS:
            tb.ask_random(number)
        await tb.check()
        tb.forget()


SETS = {"wide": {"DATA_WIDTH": 512, "DEPTH": 8}, "narrow": {"DATA_WIDTH": 64, "DEPTH": 2}}


def test_axi_read_share(tmp_path: Path) -> None:
    sources = [*rtl_sources("axi_read_share"), Path(__file__).with_name("axi_read_share_bench.sv")]
    run_bench(tmp_path, "axi_read_share_bench", sources, __name__, sets=SETS)
