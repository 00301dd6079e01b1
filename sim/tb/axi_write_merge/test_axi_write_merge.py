# SPDX-License-Identifier: Apache-2.0
"""axi_write_merge between two units and a PCIM that needs data right after their address; the whole memory is compared."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.axi_bus import WAITS, MemoryBehaviour
from tests.support.rtl.bus import Bench, Sink, Source
from tests.support.rtl.cocotb_run import bench_test, run_bench
from tests.support.rtl.pcim_bus import PcimWrites

_HALF_BYTES = 1 << 16  # each unit writes to its half of the memory


class TB:
    def __init__(self, dut: Any, behaviour: MemoryBehaviour, pause: float = 0.0, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.beat_bytes = int(dut.DATA_WIDTH.value) // 8
        self.max_beats, self.outstanding = int(dut.MAX_BURST_BEATS.value), int(dut.OUTSTANDING.value)
        self.expected = bytearray(self.rng.randbytes(2 * _HALF_BYTES))
        self.stored = bytearray(self.expected)
        self.addresses = [Source(dut, f"s_aw{unit}", ("addr", "len"), self.rng, pause) for unit in range(2)]
        self.data = [Source(dut, f"s_w{unit}", ("data", "strb", "last"), self.rng, pause) for unit in range(2)]
        self.responses = [Sink(dut, f"m_b{unit}", ("resp",), self.rng, pause) for unit in range(2)]
        self.pcim = PcimWrites(dut, "m_axi", self.stored, self.rng, behaviour)
        self.bench = Bench(dut, [*self.addresses, *self.data, *self.responses, self.pcim])
        self.wanted: list[list[int]] = [[], []]

    def write(self, unit: int, address: int, size_bytes: int) -> None:
        """Write size_bytes from `address` in the unit's half on as one burst; the last beat's strobes are exact to the byte."""
        at = unit * _HALF_BYTES + address
        text = self.rng.randbytes(size_bytes)
        self.expected[at : at + size_bytes] = text
        beats = -(-size_bytes // self.beat_bytes)
        self.addresses[unit].send(addr=at, len=beats - 1)
        for beat in range(beats):
            part = text[beat * self.beat_bytes : (beat + 1) * self.beat_bytes]
            strobes = (1 << len(part)) - 1
            self.data[unit].send(data=int.from_bytes(part, "little"), strb=strobes, last=int(beat == beats - 1))
        self.wanted[unit].append(2 if at in self.pcim.behaviour.errors else 0)

    def write_random(self, unit: int) -> None:
        page = 4096 * self.rng.randrange(_HALF_BYTES // 4096)
        most = min(self.max_beats * self.beat_bytes, 4096)
        first = self.rng.randrange(4096 // self.beat_bytes) * self.beat_bytes
        self.write(unit, page + first, self.rng.randrange(1, min(most, 4096 - first) + 1))

    async def check(self) -> None:
        done = zip(self.responses, self.wanted, strict=True)
        pairs = list(done)
        await self.bench.until(lambda: all(len(got.received) >= len(wanted) for got, wanted in pairs))
        assert self.stored == self.expected
        await self.bench.step(20)
        assert self.stored == self.expected
        for got, wanted in pairs:
            assert [item["resp"] for item in got.received] == wanted

    def forget(self) -> None:
        self.expected[:] = self.stored
        for unit in range(2):
            self.responses[unit].received.clear()
            self.wanted[unit].clear()


@bench_test
async def what_the_units_write_is_written_and_each_gets_its_own_responses(dut: Any) -> None:
    for seed, (pause_memory, pause, latency) in enumerate([(0.0, 0.0, 1), (0.3, 0.3, 30), (0.0, 0.7, 5), (0.6, 0.0, 60)]):
        tb = TB(dut, MemoryBehaviour(pause_memory, latency), pause, seed)
        await tb.bench.reset()
        for _ in range(15):
            tb.write_random(0)
            tb.write_random(1)
        await tb.check()
        assert all(burst.id == burst.address // _HALF_BYTES for burst in tb.pcim.taken)


@bench_test
async def a_memory_may_wait_for_addresses_and_data_as_axi4_permits(dut: Any) -> None:
    for seed, (address, data) in enumerate(WAITS):
        behaviour = MemoryBehaviour(0.2, 5, address_waits_for_data=address, data_waits_for_address=data)
        tb = TB(dut, behaviour, 0.2, seed)
        await tb.bench.reset()
        for _ in range(10):
            tb.write_random(0)
            tb.write_random(1)
        await tb.check()


@bench_test
async def no_address_leaves_before_the_last_of_its_data_has_come(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour())
    await tb.bench.reset()
    tb.addresses[0].send(addr=0, len=tb.max_beats - 1)
    for beat in range(tb.max_beats - 1):
        tb.data[0].send(data=beat, strb=(1 << tb.beat_bytes) - 1, last=0)
    tb.write(1, 0, tb.beat_bytes)  # waits for the burst that is being taken
    await tb.bench.step(3 * tb.max_beats)
    assert not tb.pcim.taken
    tb.data[0].send(data=7, strb=1, last=1)
    await tb.bench.until(lambda: len(tb.pcim.taken) == 2)
    assert [burst.id for burst in tb.pcim.taken] == [0, 1]


@bench_test
async def a_burst_costs_one_clock_more_than_its_beats(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(latency=8))
    await tb.bench.reset()
    beats = min(tb.max_beats, 4096 // tb.beat_bytes)
    for number in range(32):
        tb.write(number % 2, 4096 * (number % 8), beats * tb.beat_bytes)
    await tb.bench.until(lambda: sum(len(got.received) for got in tb.responses) == 32)
    assert tb.bench.clocks <= 32 * (beats + 1) + beats + 30


@bench_test
async def no_more_bursts_leave_than_may_be_unanswered(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(latency=1000))
    await tb.bench.reset()
    for number in range(2 * tb.outstanding):
        tb.write(number % 2, 4096 * (number % 16), 5)
    await tb.bench.step(900)
    assert len(tb.pcim.taken) == tb.outstanding
    await tb.check()


@bench_test
async def an_error_goes_to_whom_it_belongs(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(errors={4096, _HALF_BYTES + 8192}))
    await tb.bench.reset()
    for page in range(4):
        tb.write(0, 4096 * page, 2 * tb.beat_bytes + 1)
        tb.write(1, 4096 * page, 2 * tb.beat_bytes + 1)
    await tb.check()


@bench_test
async def reset_in_mid_burst_leaves_nothing_behind(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(0.2, 10), 0.2, 3)
    await tb.bench.reset()
    for clocks in (9, 60, 170):
        for _ in range(8):
            tb.write_random(0)
            tb.write_random(1)
        await tb.bench.step(clocks)
        await tb.bench.reset(2)
        tb.forget()
        for _ in range(4):
            tb.write_random(0)
            tb.write_random(1)
        await tb.check()
        tb.forget()


SETS = {
    "wide": {"DATA_WIDTH": 512, "MAX_BURST_BEATS": 64, "OUTSTANDING": 32},
    "narrow": {"DATA_WIDTH": 32, "MAX_BURST_BEATS": 8, "OUTSTANDING": 4},
}


def test_axi_write_merge(tmp_path: Path) -> None:
    sources = [*rtl_sources("axi_write_merge"), Path(__file__).with_name("axi_write_merge_bench.sv")]
    run_bench(tmp_path, "axi_write_merge_bench", sources, __name__, sets=SETS)
