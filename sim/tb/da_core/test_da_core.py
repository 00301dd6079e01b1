# SPDX-License-Identifier: Apache-2.0
"""The streams of a da core: tlast with its row, any back-pressure, full throughput, and a reset that drops the rows inside.

The network is a chain of x @ [[1, -1], [2, 3]] + 5 with wrapping, so the bench knows every answer; tests/hls compares numbers
of real networks in bulk. The length of the chain is about the number of pipeline stages.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.hls.da.write import write_core
from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.network.base import Network, Tensor
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from tests.support.rtl.bus import StreamTB
from tests.support.rtl.cocotb_run import bench_test, run_bench

#: makes a type from its width and its number of fraction bits
fixed_point = FixedPoint.with_fraction

WIDTH_IN, WIDTH_OUT = 8, 12
DEPTHS = {"shallow": 1, "deep": 12}
WEIGHT = np.array([[1, -1], [2, 3]])


def network(depth: int) -> Network:
    bias, weight, result = Constants(np.full(2, 5), 0), Constants(WEIGHT, 0), fixed_point(WIDTH_OUT, 0)
    tensors = [Tensor("x", (2,), fixed_point(WIDTH_IN, 0)), *(Tensor(f"d{i}", (2,), result) for i in range(depth))]
    layers = tuple(Dense(y.name, x, y, weight, bias, fixed_point(40, 0), 1, 1) for x, y in pairwise(tensors))
    return Network("bench", tuple(tensors[:1]), tuple(tensors[-1:]), layers)


def answer(x: list[int], depth: int) -> list[int]:
    y = np.array(x)
    for _ in range(depth):
        y = (y @ WEIGHT + 5) % (1 << WIDTH_OUT)
    return [int(value) for value in y]


def packed(values: list[int], width: int) -> int:
    return sum((value & ((1 << width) - 1)) << (width * i) for i, value in enumerate(values))


class TB(StreamTB):
    source_prefix, sink_prefix = "s_axis_x", "m_axis_y"
    source_fields = sink_fields = ("tdata", "tlast")
    quiet_clocks = 30

    def send(self, count: int) -> None:
        for _ in range(count):
            x = [self.rng.randrange(-(1 << (WIDTH_IN - 1)), 1 << (WIDTH_IN - 1)) for _ in range(2)]
            last = self.rng.randrange(2)
            self.source.send(tdata=packed(x, WIDTH_IN), tlast=last)
            self.expected.append({"tdata": packed(answer(x, DEPTHS[self.dut._name]), WIDTH_OUT), "tlast": last})


@bench_test
async def results_keep_their_rows_order_and_last(dut: Any) -> None:
    await TB.check_pauses(dut, 300, pauses=((0.0, 0.0), (0.6, 0.0), (0.0, 0.7), (0.3, 0.5)))


@bench_test
async def one_row_a_clock_without_a_bubble(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.send(1)
    await tb.bench.until(lambda: len(tb.sink.received) == 1)
    latency = tb.bench.clocks - 1
    tb.forget()
    before = tb.bench.clocks
    tb.send(300)
    await tb.bench.until(lambda: len(tb.sink.received) == 300)
    assert tb.bench.clocks - before == 300 + latency


@bench_test
async def a_stopped_sink_stops_the_source_and_loses_nothing(dut: Any) -> None:
    tb = TB(dut, pause_out=1.0)
    await tb.bench.reset()
    tb.send(200)
    await tb.bench.step(150)
    assert tb.source.taken < 100
    assert dut.s_axis_x_tready.value == 0
    tb.sink.pause = 0.0
    await tb.check()


@bench_test
async def reset_in_mid_burst_leaves_nothing_behind(dut: Any) -> None:
    await TB(dut, 0.1, 0.4).check_resets((1, 5, 12, 40), 200, 60)


def test_da_core(tmp_path: Path) -> None:
    x = TensorSpec("x", (2,), FixedPoint(WIDTH_IN, WIDTH_IN))
    y = TensorSpec("y", (2,), FixedPoint(WIDTH_OUT, WIDTH_OUT))
    cores = {name: write_core(network(depth), name, Row((x,)), Row((y,)), tmp_path / name)[0] for name, depth in DEPTHS.items()}
    sources = dict.fromkeys(source for core in cores.values() for source in core.sources)
    run_bench(tmp_path, {name: core.top for name, core in cores.items()}, list(sources), __name__)
