# SPDX-License-Identifier: Apache-2.0
"""axi_burst_split: the bursts of random descriptors, compared with six lines of Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.bus import Agent, Item, StreamTB
from tests.support.rtl.cocotb_run import bench_test, run_bench


def bursts_of(address: int, beats: int, user: int, beat_bytes: int, max_beats: int) -> list[Item]:
    """Return the bursts expected for a descriptor."""
    result: list[Item] = []
    while True:
        room = max_beats - address // beat_bytes % max_beats
        now = min(beats, room)
        beats -= now
        result.append({"address": address, "beats": now, "last": int(beats == 0), "user": user})
        address += now * beat_bytes
        if beats == 0:
            return result


class TB(StreamTB):
    source_prefix, source_fields = "s_axis_desc", ("address", "beats", "user")
    sink_prefix, sink_fields = "m_axis_burst", ("address", "beats", "last", "user")

    def others(self) -> list[Agent]:
        self.beat_bytes, self.max_beats = int(self.dut.BEAT_BYTES.value), int(self.dut.MAX_BURST_BEATS.value)
        return []

    def descriptor(self, address: int, beats: int) -> None:
        user = self.rng.randrange(2)
        self.source.send(address=address, beats=beats, user=user)
        self.expected += bursts_of(address, beats, user, self.beat_bytes, self.max_beats)

    def send(self, count: int) -> None:
        for _ in range(count):
            page = self.rng.randrange(1 << 40) * 4096
            first = self.rng.randrange(4096 // self.beat_bytes) * self.beat_bytes
            self.descriptor(page + first, self.rng.choice([0, 1, 2, 63, 64, 65, 700]))

    async def check(self) -> None:
        await super().check()
        for burst in self.sink.received:
            assert burst["address"] % 4096 + burst["beats"] * self.beat_bytes <= 4096


@bench_test
async def splits_every_descriptor_at_the_borders(dut: Any) -> None:
    await TB.check_pauses(dut, 60, pauses=((0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.3, 0.3)))


@bench_test
async def a_burst_leaves_in_every_second_clock(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.descriptor(0, 100 * tb.max_beats)
    await tb.bench.until(lambda: len(tb.sink.received) == 100)
    assert tb.bench.clocks <= 204  # full bursts have two beats or more


@bench_test
async def reset_forgets_the_descriptor_at_work(dut: Any) -> None:
    tb = TB(dut, 0.0, 0.6, 2)
    await tb.bench.reset()
    tb.descriptor(0, 1000 * tb.max_beats)
    await tb.bench.step(20)
    await tb.bench.reset(1)
    tb.forget()
    tb.descriptor(4096, 3)
    await tb.bench.step(20)
    assert tb.sink.received == tb.expected


SETS = {"wide": {"BEAT_BYTES": 64, "MAX_BURST_BEATS": 64}, "narrow": {"BEAT_BYTES": 8, "MAX_BURST_BEATS": 16}}


def test_axi_burst_split(tmp_path: Path) -> None:
    run_bench(tmp_path, "axi_burst_split", rtl_sources("axi_burst_split"), __name__, sets=SETS)
