# SPDX-License-Identifier: Apache-2.0
"""axis_skid: every beat once and in order under any stalls, full throughput, two beats held, reset in mid-burst."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import cocotb

from hypersonic.hls.core import AXIS_RTL
from hypersonic.sim.bus import Bench, Sink, Source
from hypersonic.sim.cocotb_run import bench_test, run_bench


class TB:
    def __init__(self, dut: Any, pause_in: float = 0.0, pause_out: float = 0.0, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.width = int(dut.WIDTH.value)
        self.source = Source(dut, "s_axis", ("tdata",), self.rng, pause_in)
        self.sink = Sink(dut, "m_axis", ("tdata",), self.rng, pause_out)
        self.bench = Bench(dut, [self.source, self.sink])
        self.expected: list[dict[str, int]] = []

    def send(self, beats: int) -> None:
        for _ in range(beats):
            self.expected.append({"tdata": self.rng.getrandbits(self.width)})
            self.source.send(**self.expected[-1])

    async def check(self) -> None:
        await self.bench.until(lambda: len(self.sink.received) >= len(self.expected))
        await self.bench.step(10)
        assert self.sink.received == self.expected
        assert self.source.idle


@bench_test
async def beats_come_out_once_and_in_order(dut: Any) -> None:
    for seed, (pause_in, pause_out) in enumerate([(0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (0.3, 0.3)]):
        tb = TB(dut, pause_in, pause_out, seed)
        await tb.bench.reset()
        tb.send(300)
        await tb.check()


@bench_test
async def one_beat_a_clock_passes_with_one_clock_of_latency(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.send(200)
    await tb.bench.until(lambda: len(tb.sink.received) == 200)
    assert tb.bench.clocks == 200 + 1


@bench_test
async def a_stopped_sink_leaves_two_beats_inside(dut: Any) -> None:
    tb = TB(dut, pause_out=1.0)
    await tb.bench.reset()
    tb.send(5)
    await tb.bench.step(20)
    assert tb.source.taken == 2
    tb.sink.pause = 0.0
    await tb.check()


@bench_test
async def ready_does_not_follow_ready_within_a_clock(dut: Any) -> None:
    tb = TB(dut, pause_out=1.0)
    await tb.bench.reset()
    tb.send(5)
    await tb.bench.step(20)
    assert dut.s_axis_tready.value == 0
    dut.m_axis_tready.value = 1
    await cocotb.triggers.Timer(1, "ns")
    assert dut.s_axis_tready.value == 0
    dut.m_axis_tready.value = 0


@bench_test
async def reset_in_mid_burst_leaves_nothing_behind(dut: Any) -> None:
    tb = TB(dut, 0.2, 0.5)
    for clocks in (1, 2, 7, 25):
        await tb.bench.reset(1)
        tb.send(100)
        await tb.bench.step(clocks)
        await tb.bench.reset(1)
        tb.expected.clear()
        tb.sink.received.clear()
        tb.send(40)
        await tb.check()
        tb.expected.clear()
        tb.sink.received.clear()


SETS = {f"width_{width}": {"WIDTH": width} for width in (1, 65)}


def test_axis_skid(tmp_path: Path) -> None:
    run_bench(tmp_path, "axis_skid", [AXIS_RTL / "axis_skid.sv"], __name__, sets=SETS)
