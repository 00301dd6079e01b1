# SPDX-License-Identifier: Apache-2.0
"""rf_maximum: a vector's maximum and the first place of it on each of its beats, any stalls, full throughput, reset."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from hypersonic.hls.rf.modules import rtl_sources
from hypersonic.sim.bus import Bench, Channel, Source
from hypersonic.sim.cocotb_run import bench_test, run_bench
from hypersonic.sim.stream_bench import beats_of

_PORTS = ("m_axis_tdata", "m_axis_tlast", "m_max", "m_place")


class Taker:
    """Takes the beats with the maximum and its place; ready is low at random."""

    def __init__(self, dut: Any, rng: random.Random, pause: float) -> None:
        self._channel = Channel(dut, "m_axis", "m_axis_tvalid", "m_axis_tready", _PORTS)
        self._ready, self._rng, self.pause = dut.m_axis_tready, rng, pause
        self.received: list[tuple[int, ...]] = []

    def drive(self) -> None:
        self._ready.value = int(self._rng.random() >= self.pause)

    def sample(self) -> None:
        if (item := self._channel.sample()) is not None:
            self.received.append(tuple(item[port] for port in _PORTS))

    def reset(self) -> None:
        self._channel.reset()
        self._ready.value = 0


class TB:
    def __init__(self, dut: Any, pause_in: float = 0.0, pause_out: float = 0.0, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.n, self.lanes, self.width = (int(getattr(dut, name).value) for name in ("N", "LANES", "X_WIDTH"))
        self.low = -(1 << self.width - 1) if int(dut.X_SIGNED.value) else 0
        self.source = Source(dut, "s_axis", ("tdata", "tlast"), self.rng, pause_in)
        self.sink = Taker(dut, self.rng, pause_out)
        self.bench = Bench(dut, [self.source, self.sink])
        self.expected: list[tuple[int, int, int, int]] = []

    def send(self, vectors: int) -> None:
        """Send random vectors. Every second one has only three different values, so that the maximum occurs several times."""
        for vector in range(vectors):
            span = 3 if vector % 2 else 1 << self.width
            low = self.rng.randint(self.low, self.low + (1 << self.width) - span)
            x = [low + self.rng.randrange(span) for _ in range(self.n)]
            largest = max(x)
            for data, last in beats_of(x, self.lanes, self.width):
                self.source.send(tdata=data, tlast=int(last))
                self.expected.append((data, int(last), largest & (1 << self.width) - 1, x.index(largest)))

    async def check(self) -> None:
        await self.bench.until(lambda: len(self.sink.received) >= len(self.expected))
        await self.bench.step(10)
        assert self.sink.received == self.expected
        assert self.source.idle

    def forget(self) -> None:
        self.expected.clear()
        self.sink.received.clear()


@bench_test
async def every_beat_has_its_vectors_maximum_and_its_first_place(dut: Any) -> None:
    for seed, (pause_in, pause_out) in enumerate([(0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (0.3, 0.3)]):
        tb = TB(dut, pause_in, pause_out, seed)
        await tb.bench.reset()
        tb.send(80)
        await tb.check()


@bench_test
async def a_beat_is_taken_every_clock(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.send(50)
    await tb.bench.until(lambda: tb.source.idle)
    assert tb.bench.clocks == 50 * tb.n // tb.lanes
    await tb.check()


@bench_test
async def reset_in_mid_vector_leaves_nothing_behind(dut: Any) -> None:
    tb = TB(dut, 0.2, 0.5)
    for clocks in (1, 2, 7, 25):
        await tb.bench.reset(1)
        tb.send(30)
        await tb.bench.step(clocks)
        await tb.bench.reset(1)
        tb.forget()
        tb.send(12)
        await tb.check()
        tb.forget()


SETS = {
    f"n_{n}_lanes_{lanes}": {"N": n, "LANES": lanes, "X_WIDTH": 6, "X_SIGNED": signed}
    for n, lanes, signed in [(1, 1, 1), (6, 3, 1), (12, 2, 0), (5, 5, 1)]
}


def test_rf_maximum(tmp_path: Path) -> None:
    run_bench(tmp_path, "rf_maximum", rtl_sources("rf_maximum"), __name__, sets=SETS)
