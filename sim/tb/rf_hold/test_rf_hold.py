# SPDX-License-Identifier: Apache-2.0
"""rf_hold: every beat once, in order and with its vector's number under any stalls, full throughput, reset in mid-vector."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path
from typing import Any

from hypersonic.hls.rf.modules import rtl_sources
from hypersonic.sim.bus import Bench, Channel, Source
from hypersonic.sim.cocotb_run import bench_test, run_bench

_PORTS = ("m_axis_tdata", "m_axis_tlast", "m_number")


class Numbers:
    """Gives each vector's number 1 to LATENCY clocks after its last beat was taken; `late` always takes LATENCY clocks."""

    def __init__(self, dut: Any, rng: random.Random, late: bool) -> None:
        self._dut, self._rng, self._late = dut, rng, late
        self._beats, self._latency = int(dut.BEATS.value), int(dut.LATENCY.value)
        self.reset()

    def reset(self) -> None:
        self._clock = self._taken = self._busy_until = 0
        self._due: deque[tuple[int, int]] = deque()
        self.numbers: deque[int] = deque()
        self._dut.number_tvalid.value = 0

    def drive(self) -> None:
        self._clock += 1
        given = bool(self._due) and self._due[0][0] == self._clock
        self._dut.number_tvalid.value = int(given)
        if given:
            self._dut.number_tdata.value = self._due.popleft()[1]

    def sample(self) -> None:
        if self._dut.s_axis_tvalid.value == 1 and self._dut.s_axis_tready.value == 1:
            self._taken += 1
            if self._taken % self._beats == 0:
                delay = self._latency if self._late else self._rng.randint(1, self._latency)
                self._busy_until = max(self._busy_until + 1, self._clock + delay)
                self._due.append((self._busy_until, self.numbers.popleft()))


class Taker:
    """Takes the beats with their numbers; ready is low at random."""

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
    def __init__(self, dut: Any, pause_in: float = 0.0, pause_out: float = 0.0, seed: int = 1, late: bool = False) -> None:
        self.rng = random.Random(seed)
        self.width, self.number_width, self.beats = (int(getattr(dut, n).value) for n in ("WIDTH", "NUMBER_WIDTH", "BEATS"))
        self.latency = int(dut.LATENCY.value)
        self.source = Source(dut, "s_axis", ("tdata", "tlast"), self.rng, pause_in)
        self.numbers = Numbers(dut, self.rng, late)
        self.sink = Taker(dut, self.rng, pause_out)
        self.bench = Bench(dut, [self.source, self.numbers, self.sink])
        self.expected: list[tuple[int, int, int]] = []

    def send(self, vectors: int) -> None:
        for _ in range(vectors):
            number = self.rng.getrandbits(self.number_width)
            self.numbers.numbers.append(number)
            for _ in range(self.beats):
                tdata, tlast = self.rng.getrandbits(self.width), self.rng.getrandbits(1)
                self.source.send(tdata=tdata, tlast=tlast)
                self.expected.append((tdata, tlast, number))

    async def check(self) -> None:
        await self.bench.until(lambda: len(self.sink.received) >= len(self.expected))
        await self.bench.step(10)
        assert self.sink.received == self.expected
        assert self.source.idle

    def forget(self) -> None:
        self.expected.clear()
        self.sink.received.clear()


@bench_test
async def every_beat_has_its_vectors_number(dut: Any) -> None:
    for seed, (pause_in, pause_out) in enumerate([(0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (0.3, 0.3)]):
        tb = TB(dut, pause_in, pause_out, seed)
        await tb.bench.reset()
        tb.send(60)
        await tb.check()


@bench_test
async def a_beat_passes_every_clock_with_the_latest_numbers_allowed(dut: Any) -> None:
    tb = TB(dut, late=True)
    await tb.bench.reset()
    tb.send(50)
    await tb.bench.until(lambda: tb.source.idle)
    assert tb.bench.clocks == 50 * tb.beats
    await tb.check()


@bench_test
async def a_stopped_sink_loses_nothing(dut: Any) -> None:
    tb = TB(dut, pause_out=1.0)
    await tb.bench.reset()
    tb.send(100)
    await tb.bench.step(300)
    assert not tb.source.idle
    tb.sink.pause = 0.0
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
    f"beats_{beats}_latency_{latency}": {"WIDTH": 9, "BEATS": beats, "NUMBER_WIDTH": 11, "LATENCY": latency}
    for beats, latency in [(1, 1), (3, 7), (8, 2)]
}


def test_rf_hold(tmp_path: Path) -> None:
    run_bench(tmp_path, "rf_hold", rtl_sources("rf_hold"), __name__, sets=SETS)
