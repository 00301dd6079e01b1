# SPDX-License-Identifier: Apache-2.0
"""rf_hold: every beat once, in order and with its vector's number under any stalls, full throughput, reset in mid-vector."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path
from typing import Any

from hypersonic.hls.rf.modules import rtl_sources
from tests.support.rtl.bus import Agent, StreamTB
from tests.support.rtl.cocotb_run import bench_test, run_bench


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


class TB(StreamTB):
    source_fields = sink_fields = ("tdata", "tlast")
    sink_also = ("m_number",)
    late = False

    def others(self) -> list[Agent]:
        self.beats = int(self.dut.BEATS.value)
        self.numbers = Numbers(self.dut, self.rng, self.late)
        return [self.numbers]

    def send(self, count: int) -> None:
        for _ in range(count):
            number = self.rng.getrandbits(int(self.dut.NUMBER_WIDTH.value))
            self.numbers.numbers.append(number)
            for _ in range(self.beats):
                item = {"tdata": self.rng.getrandbits(int(self.dut.WIDTH.value)), "tlast": self.rng.getrandbits(1)}
                self.source.send(**item)
                self.expected.append({**item, "m_number": number})


class LateTB(TB):
    late = True


@bench_test
async def every_beat_has_its_vectors_number(dut: Any) -> None:
    await TB.check_pauses(dut, 60)


@bench_test
async def a_beat_passes_every_clock_with_the_latest_numbers_allowed(dut: Any) -> None:
    tb = LateTB(dut)
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
    await TB(dut, 0.2, 0.5).check_resets((1, 2, 7, 25), 30, 12)


SETS = {
    f"beats_{beats}_latency_{latency}": {"WIDTH": 9, "BEATS": beats, "NUMBER_WIDTH": 11, "LATENCY": latency}
    for beats, latency in [(1, 1), (3, 7), (8, 2)]
}


def test_rf_hold(tmp_path: Path) -> None:
    run_bench(tmp_path, "rf_hold", rtl_sources("rf_hold"), __name__, sets=SETS)
