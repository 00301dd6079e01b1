# SPDX-License-Identifier: Apache-2.0
"""axis_ap_ctrl around a block such as Vitis HLS writes: it takes rows at any time and gives each output in its own clock."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path
from typing import Any

import cocotb

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.bus import Bench, Sink, Source
from tests.support.rtl.cocotb_run import run_bench

WIDTH, OUTPUTS, DEPTH = 8, 3, 8


def result(row: int) -> int:
    """The outputs of row n: output i is n + i, modulo 2**width; output 0 is in the low bits."""
    return sum((row + i & 0xFF) << (WIDTH * i) for i in range(OUTPUTS))


class Block:
    """A model of the block: a pipeline that advances every clock; output i is valid latency + i clocks after its row."""

    def __init__(self, dut: Any, rng: random.Random, interval: int, latency: int) -> None:
        self._dut, self._rng = dut, rng
        self._interval, self._latency = interval, latency
        self._wait = 0
        self.reset()

    def drive(self) -> None:
        self._ready = self._wait == 0 and self._rng.random() < 0.9
        self._dut.ap_ready.value = int(self._ready)
        due = [[row for clock, row in line if clock == self._clock] for line in self._lines]
        self._dut.result_tvalid.value = sum(bool(rows) << i for i, rows in enumerate(due))
        data = [rows[0] + i & 0xFF if rows else self._rng.randrange(256) for i, rows in enumerate(due)]
        self._dut.result_tdata.value = sum(value << (WIDTH * i) for i, value in enumerate(data))

    def sample(self) -> None:
        self._clock += 1
        self._wait = max(0, self._wait - 1)
        for i, line in enumerate(self._lines):
            while line and line[0][0] < self._clock:
                line.popleft()
            if self._ready and self._dut.ap_start.value == 1:
                line.append((self._clock - 1 + self._latency + i, self.rows))
        if self._ready and self._dut.ap_start.value == 1:
            self.rows += 1
            self._wait = self._interval - 1

    def reset(self) -> None:
        self._clock = self._wait = self.rows = 0
        self._ready = False
        self._lines: list[deque[tuple[int, int]]] = [deque() for _ in range(OUTPUTS)]
        self._dut.ap_ready.value = 0
        self._dut.result_tvalid.value = 0


@cocotb.test()
async def every_row_gives_its_results_once_in_order(dut: Any) -> None:
    cases = [(1, 1, 0.0, 0.0), (1, 5, 0.0, 0.0), (1, 5, 0.5, 0.0), (1, 20, 0.0, 0.6), (3, 9, 0.3, 0.3), (7, 2, 0.0, 0.1)]
    for seed, (interval, latency, pause_in, pause_out) in enumerate(cases):
        rng = random.Random(seed)
        source = Source(dut, "s_axis", ("tlast",), rng, pause_in)
        sink = Sink(dut, "m_axis", ("tdata", "tlast"), rng, pause_out)
        bench = Bench(dut, [source, Block(dut, rng, interval, latency), sink])
        await bench.reset()
        for row in range(60):
            source.send(tlast=row % 5 == 4)
        await bench.step(40)
        await bench.reset(1)  # in mid-stream: rows in flight are lost, and none is given twice
        sink.received.clear()
        last = [rng.random() < 0.3 for _ in range(150)]
        for flag in last:
            source.send(tlast=int(flag))
        await bench.until(lambda sink=sink: len(sink.received) == 150)
        await bench.step(30)
        assert sink.received == [{"tdata": result(row), "tlast": int(flag)} for row, flag in enumerate(last)]


@cocotb.test()
async def nothing_is_started_without_a_place_for_its_results(dut: Any) -> None:
    rng = random.Random(1)
    source, sink = Source(dut, "s_axis", ("tlast",), rng), Sink(dut, "m_axis", ("tdata", "tlast"), rng, 1.0)
    block = Block(dut, rng, 1, 3)
    bench = Bench(dut, [source, block, sink])
    await bench.reset()
    for _ in range(3 * DEPTH):
        source.send(tlast=0)
    await bench.step(10 * DEPTH)
    assert block.rows == DEPTH
    sink.pause = 0.0
    await bench.until(lambda: len(sink.received) == 3 * DEPTH)


def test_axis_ap_ctrl(tmp_path: Path) -> None:
    parameters = {"WIDTH": WIDTH, "OUTPUTS": OUTPUTS, "DEPTH": DEPTH}
    run_bench(tmp_path, "axis_ap_ctrl", rtl_sources("axis_ap_ctrl"), __name__, parameters=parameters)
