# SPDX-License-Identifier: Apache-2.0
"""axis_free_running: every result once, in order and with its tlast under any stalls, full throughput, reset in mid-burst."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path
from typing import Any

from hypersonic.hls.rf.modules import rtl_sources
from tests.support.rtl.bus import Agent, StreamTB
from tests.support.rtl.cocotb_run import bench_test, run_bench


class Pipeline:
    """The pipeline outside the module. A row's result is on `pipeline_tdata` LATENCY clocks after the row is taken.

    In every other clock the port has random bits, and a reset does not empty the pipeline.
    """

    def __init__(self, dut: Any, rng: random.Random) -> None:
        self._dut, self._rng, self._width = dut, rng, int(dut.WIDTH.value)
        self._line = deque(self._bits() for _ in range(int(dut.LATENCY.value)))
        self.results: deque[int] = deque()

    def _bits(self) -> int:
        return self._rng.getrandbits(self._width)

    def drive(self) -> None:
        self._dut.pipeline_tdata.value = self._line.popleft()

    def sample(self) -> None:
        taken = self._dut.s_axis_tvalid.value == 1 and self._dut.s_axis_tready.value == 1
        self._line.append(self.results.popleft() if taken else self._bits())

    def reset(self) -> None:
        self.results.clear()


class TB(StreamTB):
    source_fields, sink_fields = ("tlast",), ("tdata", "tlast")

    def others(self) -> list[Agent]:
        self.latency = int(self.dut.LATENCY.value)
        self.quiet_clocks = self.latency + 10
        self.pipeline = Pipeline(self.dut, self.rng)
        return [self.pipeline]

    def send(self, count: int) -> None:
        for _ in range(count):
            item = {"tdata": self.rng.getrandbits(int(self.dut.WIDTH.value)), "tlast": self.rng.getrandbits(1)}
            self.expected.append(item)
            self.pipeline.results.append(item["tdata"])
            self.source.send(tlast=item["tlast"])


@bench_test
async def results_come_out_once_and_in_order(dut: Any) -> None:
    await TB.check_pauses(dut, 300)


@bench_test
async def one_row_a_clock_passes(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.send(200)
    await tb.bench.until(lambda: len(tb.sink.received) == 200)
    assert tb.bench.clocks == 200 + tb.latency + 2


@bench_test
async def a_stopped_sink_leaves_as_many_rows_inside_as_the_fifo_holds(dut: Any) -> None:
    tb = TB(dut, pause_out=1.0)
    depth = 1 << (int(dut.MOST_LATENCY.value) + 3).bit_length()
    await tb.bench.reset()
    tb.send(depth + 5)
    await tb.bench.step(2 * depth + 20)
    assert tb.source.taken == depth
    tb.sink.pause = 0.0
    await tb.check()


@bench_test
async def reset_in_mid_burst_leaves_nothing_behind(dut: Any) -> None:
    await TB(dut, 0.2, 0.5).check_resets((1, 2, 7, 25), 100, 40)


SETS = {
    f"width_{width}_latency_{latency}": {"WIDTH": width, "LATENCY": latency} for width, latency in [(1, 1), (32, 5), (70, 14)]
} | {"joined_with_a_slower_stream": {"WIDTH": 8, "LATENCY": 3, "MOST_LATENCY": 9}}


def test_axis_free_running(tmp_path: Path) -> None:
    run_bench(tmp_path, "axis_free_running", rtl_sources("axis_free_running"), __name__, sets=SETS)
