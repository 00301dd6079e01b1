# SPDX-License-Identifier: Apache-2.0
"""axi_read_merge between two units and a PCIM that answers in any order: each unit receives its own beats, in order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.axi_bus import MemoryBehaviour
from tests.support.rtl.bus import Bench, Item, Sink, Source
from tests.support.rtl.cocotb_run import bench_test, run_bench
from tests.support.rtl.pcim_bus import PcimReads

_MEMORY_BYTES = 1 << 16


class TB:
    def __init__(self, dut: Any, behaviour: MemoryBehaviour, pause: float = 0.0, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.beat_bytes = int(dut.DATA_WIDTH.value) // 8
        self.max_beats, self.slots = int(dut.MAX_BURST_BEATS.value), int(dut.SLOTS.value)
        self.memory = bytearray(self.rng.randbytes(_MEMORY_BYTES))
        self.units = [Source(dut, f"s_ar{unit}", ("addr", "len"), self.rng, pause) for unit in range(2)]
        self.beats = [Sink(dut, f"m_r{unit}", ("data", "resp", "last"), self.rng, pause) for unit in range(2)]
        self.pcim = PcimReads(dut, "m_axi", self.memory, self.rng, behaviour)
        self.pcim.max_beats = self.max_beats
        self.bench = Bench(dut, [*self.units, *self.beats, self.pcim])
        self.expected: list[list[Item]] = [[], []]

    def ask(self, unit: int, address: int, beats: int) -> None:
        self.units[unit].send(addr=address, len=beats - 1)
        for beat in range(beats):
            at = address + beat * self.beat_bytes
            data = int.from_bytes(self.memory[at : at + self.beat_bytes], "little")
            resp = 2 if at in self.pcim.behaviour.errors else 0
            self.expected[unit].append({"data": data, "resp": resp, "last": int(beat == beats - 1)})

    def ask_random(self, unit: int) -> None:
        """A random burst within one 4 KiB page, as AXI allows it."""
        page = 4096 * self.rng.randrange(_MEMORY_BYTES // 4096)
        most = 4096 // self.beat_bytes
        first = self.rng.randrange(most)
        beats = self.rng.choice([1, 2, self.rng.randrange(1, 257), 256])
        self.ask(unit, page + first * self.beat_bytes, min(beats, most - first, 256))

    async def check(self) -> None:
        await self.bench.until(lambda: all(len(beats.received) >= len(wanted) for beats, wanted in self._pairs()))
        await self.bench.step(20)
        for beats, wanted in self._pairs():
            assert beats.received == wanted

    def _pairs(self) -> list[tuple[Sink, list[Item]]]:
        return list(zip(self.beats, self.expected, strict=True))

    def forget(self) -> None:
        for beats, wanted in self._pairs():
            beats.received.clear()
            wanted.clear()


@bench_test
async def each_unit_gets_what_it_asked_for_in_its_order(dut: Any) -> None:
    overtaken = 0
    for seed, (pause_memory, pause, latency) in enumerate([(0.0, 0.0, 1), (0.2, 0.2, 40), (0.0, 0.5, 10), (0.5, 0.0, 80)]):
        tb = TB(dut, MemoryBehaviour(pause_memory, latency), pause, seed)
        await tb.bench.reset()
        for _ in range(12):
            tb.ask_random(0)
            tb.ask_random(1)
        await tb.check()
        overtaken += tb.pcim.overtaken
    assert overtaken > 100


@bench_test
async def both_units_are_served_in_turn(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(latency=2))
    await tb.bench.reset()
    for page in range(8):
        tb.ask(0, 4096 * page, 2)
        tb.ask(1, 4096 * page + 2 * tb.beat_bytes, 2)
    await tb.check()
    offsets = [burst.address % 4096 for burst in tb.pcim.asked]
    assert offsets == [0, 2 * tb.beat_bytes] * 8


@bench_test
async def as_many_reads_are_on_their_way_as_there_are_slots(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(latency=200))
    await tb.bench.reset()
    for number in range(2 * tb.slots):
        tb.ask(number % 2, 4096 * (number % 8), 1)
    await tb.check()
    assert tb.pcim.most == tb.slots
    assert sorted({burst.id for burst in tb.pcim.asked}) == list(range(tb.slots))


@bench_test
async def a_burst_costs_one_clock_more_than_its_beats(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(latency=0))
    tb.pcim.disorder = False
    await tb.bench.reset()
    beats = min(256, 4096 // tb.beat_bytes)
    for number in range(16):
        tb.ask(number % 2, 4096 * (number % 8), beats)
    await tb.bench.until(lambda: sum(len(received.received) for received in tb.beats) == 16 * beats)
    bursts = -(-beats // tb.max_beats)
    assert tb.bench.clocks <= 16 * (beats + bursts) + 20


@bench_test
async def an_error_comes_with_its_beat(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(errors={4096, 8192}))
    await tb.bench.reset()
    for page in range(4):
        tb.ask(page % 2, 4096 * page, 3)
    await tb.check()


@bench_test
async def reset_in_mid_burst_leaves_nothing_behind(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(0.2, 20), 0.2, 3)
    await tb.bench.reset()
    for clocks in (10, 45, 150):
        for _ in range(6):
            tb.ask_random(0)
            tb.ask_random(1)
        await tb.bench.step(clocks)
        await tb.bench.reset(2)
        tb.forget()
        for _ in range(3):
            tb.ask_random(0)
            tb.ask_random(1)
        await tb.check()
        tb.forget()


SETS = {
    "wide": {"DATA_WIDTH": 512, "MAX_BURST_BEATS": 64, "SLOTS": 32},
    "narrow": {"DATA_WIDTH": 128, "MAX_BURST_BEATS": 8, "SLOTS": 4},
}


def test_axi_read_merge(tmp_path: Path) -> None:
    sources = [*rtl_sources("axi_read_merge"), Path(__file__).with_name("axi_read_merge_bench.sv")]
    run_bench(tmp_path, "axi_read_merge_bench", sources, __name__, sets=SETS)
