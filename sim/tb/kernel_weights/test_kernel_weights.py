# SPDX-License-Identifier: Apache-2.0
"""kernel_weights: a run passes when the core has its weights, and the core receives each image from its beginning."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path
from typing import Any

import cocotb

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.bus import Bench, Item, Sink, Source
from tests.support.rtl.cocotb_run import run_bench

#: the first beat and the beats of each stream, as in kernel_weights_bench; the second one repeats
_STREAMS = ((0, 21), (64, 3))
_BEAT_BYTES = 64


class Stream:
    """The master of a stream and the core's side of it.

    core has the addresses of the beats that the core has received since its reset, and asked those that memory has yet to send.
    """

    def __init__(self, dut: Any, number: int, rng: random.Random, pause: float) -> None:
        self.desc = Sink(dut, f"m_desc{number}", ("address", "beats"), rng, pause)
        names = (f"s_w{number}_tvalid", f"s_w{number}_tready", f"m_w{number}_tvalid", f"m_w{number}_tready")
        self._s_valid, self._s_ready, self._m_valid, self._m_ready = (getattr(dut, name) for name in names)
        self._core_rst_n = dut.core_rst_n
        self._rng = rng
        self._arrived = getattr(dut, f"w{number}_arrived")
        self.asked: deque[int] = deque()
        self._held: deque[int] = deque()  # beats in the master
        self._shown = self._comes = False
        self.pause = pause
        self.core: list[int] = []
        self.thrown = 0

    def drive(self) -> None:
        self.desc.drive()
        self._shown = self._shown or (bool(self._held) and self._rng.random() >= self.pause)
        self._comes = bool(self.asked) and self._rng.random() >= self.pause
        self._arrived.value = int(self._comes)
        self._s_valid.value = int(self._shown)
        self._m_ready.value = int(self._rng.random() >= self.pause)

    def sample(self) -> None:
        given = self._m_valid.value == 1 and self._m_ready.value == 1
        if self._core_rst_n.value == 0:
            assert not given
            self.core.clear()
        if self._shown and self._s_ready.value == 1:
            beat = self._held.popleft()
            self._shown = False
            if given:
                self.core.append(beat)
            else:
                self.thrown += 1
        else:
            assert not given
        if self._comes:
            self._held.append(self.asked.popleft())
        self.desc.sample()
        for item in self.desc.received:
            self.asked += [item["address"] + _BEAT_BYTES * beat for beat in range(item["beats"])]
        self.desc.received.clear()

    def reset(self) -> None:
        self.desc.reset()
        self.asked.clear()
        self._held.clear()
        self._shown = self._comes = False
        self._arrived.value = 0
        self.core.clear()
        self._s_valid.value = self._m_ready.value = 0


class Work:
    """The rest of the kernel: takes the runs and completes each after some clocks, the last one not before another is sent.

    It checks that the core has the weights of each run, and that memory owes no beats when all runs are done.
    """

    def __init__(self, dut: Any, rng: random.Random, pause: float, streams: list[Stream], most_clocks: int = 40) -> None:
        self._sink = Sink(dut, "m_axis_run", ("x", "y", "rows"), rng, pause)
        self._streams, self._core_rst_n = streams, dut.core_rst_n
        self._written, self._taken = dut.s_axis_done_tvalid, dut.s_axis_done_tready
        self._done, self._ready = dut.m_axis_done_tvalid, dut.m_axis_done_tready
        self._rng, self.most_clocks = rng, most_clocks
        self._left: deque[int] = deque()  # clocks until each run in flight is done
        self.sent: list[Item] = []
        self.passed = 0
        self.loads: list[int] = []  # the address of each image loaded
        self._working = False

    def drive(self) -> None:
        self._sink.drive()
        last = self.passed == len(self.sent) and len(self._left) == 1
        self._written.value = int(bool(self._left) and self._left[0] <= 0 and not last)
        self._ready.value = int(self._rng.random() >= 0.3)
        self._left = deque(clocks - 1 for clocks in self._left)

    def sample(self) -> None:
        works = self._core_rst_n.value == 1
        if works and not self._working:
            self.loads.append(self.sent[self.passed]["w"])
        assert works or not self._left, "the core is reset while a run is in flight"
        if self._written.value == 1 and self._taken.value == 1:
            assert self._done.value == 1
            assert self._ready.value == 1
            self._left.popleft()
            owed = [len(stream.asked) for stream in self._streams]
            assert self._left or not any(owed), f"memory owes {owed} beats, and no run is in flight"
        else:
            assert self._done.value == 0 or self._ready.value == 0
        self._working = works
        self._sink.sample()
        for item in self._sink.received:
            assert works
            assert {**item, "w": self.loads[-1]} == self.sent[self.passed]
            self._left.append(self._rng.randrange(self.most_clocks))
            self.passed += 1
        self._sink.received.clear()

    def reset(self) -> None:
        self._sink.reset()
        self._left.clear()
        self.sent.clear()
        self.loads.clear()
        self.passed, self._working = 0, False
        self._written.value = self._ready.value = 0


class TB:
    def __init__(self, dut: Any, pause: float = 0.0, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.runs = Source(dut, "s_axis_run", ("x", "y", "rows", "w"), self.rng, pause)
        self.streams = [Stream(dut, number, self.rng, pause) for number in range(len(_STREAMS))]
        self.work = Work(dut, self.rng, pause, self.streams)
        self.bench = Bench(dut, [self.runs, self.work, *self.streams])

    def send(self, w: int) -> None:
        run = {"x": self.rng.getrandbits(64), "y": self.rng.getrandbits(64), "rows": self.rng.getrandbits(32), "w": w}
        self.work.sent.append(run)
        self.runs.send(**run)

    async def finish(self) -> None:
        await self.bench.until(lambda: self.work.passed == len(self.work.sent))

    async def check_beats(self) -> None:
        """Check that the core received its image from the beginning and in order: one stream once, the other over and over."""
        w = self.work.loads[-1]
        (first, beats), (first_again, beats_again) = _STREAMS
        await self.bench.until(lambda: len(self.streams[0].core) == beats and len(self.streams[1].core) > 4 * beats_again)
        assert self.streams[0].core == [w + _BEAT_BYTES * (first + beat) for beat in range(beats)]
        again = [w + _BEAT_BYTES * (first_again + beat % beats_again) for beat in range(len(self.streams[1].core))]
        assert self.streams[1].core == again


@cocotb.test()
async def every_run_passes_once_with_its_own_weights(dut: Any) -> None:
    for seed, pause in enumerate((0.0, 0.3, 0.7)):
        tb = TB(dut, pause, seed)
        await tb.bench.reset()
        images = [tb.rng.randrange(1 << 52) * 4096 for _ in range(3)]
        for _ in range(6):
            for w in tb.rng.choices(images, k=5):
                tb.send(w)
            await tb.finish()
            await tb.check_beats()
        changed = [
            run["w"] for before, run in zip([{}, *tb.work.sent], tb.work.sent, strict=False) if before.get("w") != run["w"]
        ]
        assert tb.work.loads == changed


@cocotb.test()
async def a_run_with_the_same_weights_waits_for_nothing(dut: Any) -> None:
    tb = TB(dut)
    tb.work.most_clocks = 1  # done in the next clock
    await tb.bench.reset()
    tb.send(4096)
    await tb.finish()
    before = tb.bench.clocks
    for _ in range(20):
        tb.send(4096)
    await tb.finish()
    assert tb.bench.clocks - before <= 2 * 20 + 2
    assert tb.work.loads == [4096]
    assert tb.streams[0].thrown == tb.streams[1].thrown == 0


@cocotb.test()
async def weights_that_change_during_a_load_are_thrown_away(dut: Any) -> None:
    tb = TB(dut, 0.4)
    await tb.bench.reset()
    for w in (4096, 8192, 4096, 64):
        tb.send(w)
    await tb.finish()
    await tb.check_beats()
    assert tb.work.loads == [4096, 8192, 4096, 64]
    assert all(stream.thrown > 0 for stream in tb.streams)


@cocotb.test()
async def reset_in_mid_load_forgets_the_weights(dut: Any) -> None:
    tb = TB(dut, 0.3, 5)
    await tb.bench.reset()
    for clocks in (9, 30, 60):
        tb.send(4096)
        tb.send(8192)
        await tb.bench.step(clocks)
        await tb.bench.reset(2)
        tb.send(8192)
        await tb.finish()
        await tb.check_beats()
        assert tb.work.loads == [8192]


def test_kernel_weights(tmp_path: Path) -> None:
    sources = [*rtl_sources("kernel_weights"), Path(__file__).with_name("kernel_weights_bench.sv")]
    run_bench(tmp_path, "kernel_weights_bench", sources, __name__)
