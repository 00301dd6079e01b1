# SPDX-License-Identifier: Apache-2.0
"""rf_weights: the loaded words over and over, later beats passed on, any stalls, reset while loading and after it."""

from __future__ import annotations

import random
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from hypersonic.hls.rf.modules import rtl_sources
from tests.support.rtl.bus import Bench, Sink, Source
from tests.support.rtl.cocotb_run import bench_test, run_bench


class TB:
    def __init__(self, dut: Any, pause_in: float = 0.0, pause_out: float = 0.0, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.width, self.depth, self.load_width = (int(getattr(dut, n).value) for n in ("WIDTH", "DEPTH", "LOAD_WIDTH"))
        self.parts = -(-self.width // self.load_width)
        self.load = Source(dut, "s_load", ("tdata",), self.rng, pause_in)
        self.rest = Sink(dut, "m_load", ("tdata",), self.rng, pause_out)
        self.sink = Sink(dut, "m_axis", ("tdata",), self.rng, pause_out)
        self.bench = Bench(dut, [self.load, self.rest, self.sink])

    async def reset(self, clocks: int = 1) -> None:
        await self.bench.reset(clocks)
        self.rest.received.clear()
        self.sink.received.clear()

    def send(self, rest: int = 0) -> tuple[list[int], list[int]]:
        """Send new words and `rest` more beats. Returns the words, and the beats that must be passed on."""
        beats = [self.rng.getrandbits(self.load_width) for _ in range(self.depth * self.parts + rest)]
        for beat in beats:
            self.load.send(tdata=beat)
        own = [beats[i : i + self.parts] for i in range(0, self.depth * self.parts, self.parts)]
        words = [sum(beat << k * self.load_width for k, beat in enumerate(word)) & (1 << self.width) - 1 for word in own]
        return words, beats[self.depth * self.parts :]

    async def check(self, words: list[int], rest: list[int]) -> None:
        rounds = 5 * self.depth
        await self.bench.until(lambda: len(self.sink.received) >= rounds and len(self.rest.received) >= len(rest))
        assert [item["tdata"] for item in self.sink.received] == list(islice(cycle(words), len(self.sink.received)))
        assert [item["tdata"] for item in self.rest.received] == rest
        assert self.load.idle


@bench_test
async def words_leave_over_and_over_and_later_beats_go_on(dut: Any) -> None:
    for seed, (pause_in, pause_out) in enumerate([(0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (0.3, 0.3)]):
        tb = TB(dut, pause_in, pause_out, seed)
        await tb.reset()
        await tb.check(*tb.send(rest=50))


@bench_test
async def nothing_leaves_before_the_last_word_is_loaded(dut: Any) -> None:
    tb = TB(dut)
    await tb.reset()
    for _ in range(tb.depth * tb.parts - 1):
        tb.load.send(tdata=tb.rng.getrandbits(tb.load_width))
    await tb.bench.step(tb.depth * tb.parts + 50)
    assert tb.load.idle
    assert not tb.sink.received
    assert not tb.rest.received


@bench_test
async def a_word_leaves_every_clock(dut: Any) -> None:
    tb = TB(dut)
    await tb.reset()
    words, _ = tb.send()
    await tb.bench.until(lambda: bool(tb.sink.received))
    await tb.bench.step(200)
    assert [item["tdata"] for item in tb.sink.received] == list(islice(cycle(words), 201))


@bench_test
async def a_stopped_chain_does_not_stop_the_words(dut: Any) -> None:
    tb = TB(dut)
    tb.rest.pause = 1.0
    await tb.reset()
    words, rest = tb.send(rest=10)
    await tb.bench.until(lambda: len(tb.sink.received) >= 5 * tb.depth)
    assert not tb.rest.received
    tb.rest.pause = 0.0
    await tb.check(words, rest)


@bench_test
async def other_weights_are_loaded_after_a_reset(dut: Any) -> None:
    tb = TB(dut, 0.2, 0.4)
    for clocks in (1, 2, 7, 25, 80):
        await tb.reset()
        tb.send(rest=30)
        await tb.bench.step(clocks)
        await tb.reset()
        await tb.check(*tb.send(rest=20))


SETS = {
    f"width_{width}_depth_{depth}": {"WIDTH": width, "DEPTH": depth, "LOAD_WIDTH": load_width}
    for width, depth, load_width in [(24, 8, 16), (5, 1, 5), (7, 6, 16), (64, 3, 8)]
}


def test_rf_weights(tmp_path: Path) -> None:
    run_bench(tmp_path, "rf_weights", rtl_sources("rf_weights"), __name__, sets=SETS)
