# SPDX-License-Identifier: Apache-2.0
"""kernel_runs: each run gives three descriptors, each at the pace of its consumer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import cocotb

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.bus import Bench, Sink, Source
from tests.support.rtl.cocotb_run import run_bench

_ROW_IN_BYTES, _ROW_OUT_BYTES = 72, 20


class TB:
    def __init__(self, dut: Any, pause: float, seed: int) -> None:
        self.rng = random.Random(seed)
        self.runs = Source(dut, "s_axis_run", ("x", "y", "rows"), self.rng, pause)
        self.read = Sink(dut, "m_axis_read", ("address", "beats"), self.rng, pause)
        self.unpack = Sink(dut, "m_axis_unpack", ("rows",), self.rng, pause)
        self.write = Sink(dut, "m_axis_write", ("address", "beats", "tail"), self.rng, pause)
        self.sinks = (self.read, self.unpack, self.write)
        self.bench = Bench(dut, [self.runs, *self.sinks])

    def send_random(self) -> tuple[int, int, int]:
        x, y = self.rng.randrange(1 << 58) * 64, self.rng.randrange(1 << 58) * 64
        rows = self.rng.choice([0, 1, 15, 16, 16_000, self.rng.randrange(1 << 32), (1 << 32) - 1])
        self.runs.send(x=x, y=y, rows=rows)
        return x, y, rows

    async def check(self, runs: list[tuple[int, int, int]]) -> None:
        await self.bench.until(lambda: all(len(sink.received) >= len(runs) for sink in self.sinks))
        await self.bench.step(10)
        beats = [-(-rows * _ROW_IN_BYTES // 64) for _, _, rows in runs]
        assert self.read.received == [{"address": x, "beats": n} for (x, _, _), n in zip(runs, beats, strict=True)]
        assert self.unpack.received == [{"rows": rows} for _, _, rows in runs]
        assert self.write.received == [_written(y, rows * _ROW_OUT_BYTES) for _, y, rows in runs]


def _written(address: int, size_bytes: int) -> dict[str, int]:
    return {"address": address, "beats": -(-size_bytes // 64), "tail": size_bytes % 64}


@cocotb.test()
async def every_run_gives_its_three_descriptors_in_order(dut: Any) -> None:
    for seed, pause in enumerate((0.0, 0.5)):
        tb = TB(dut, pause, seed)
        await tb.bench.reset()
        await tb.check([tb.send_random() for _ in range(50)])


@cocotb.test()
async def a_consumer_that_waits_holds_up_no_other(dut: Any) -> None:
    tb = TB(dut, 0.0, 1)
    await tb.bench.reset()
    tb.write.pause = 1.0
    for _ in range(8):
        tb.send_random()
    await tb.bench.step(8 * 8 + 10)
    assert len(tb.read.received) == len(tb.unpack.received) == 8
    assert not tb.write.received


@cocotb.test()
async def reset_forgets_the_queues(dut: Any) -> None:
    tb = TB(dut, 0.7, 1)
    await tb.bench.reset()
    for _ in range(8):
        tb.send_random()
    await tb.bench.step(12)
    await tb.bench.reset(1)
    for sink in tb.sinks:
        sink.received.clear()
    await tb.check([tb.send_random() for _ in range(8)])


def test_kernel_runs(tmp_path: Path) -> None:
    parameters = {"ROW_IN_BYTES": _ROW_IN_BYTES, "ROW_OUT_BYTES": _ROW_OUT_BYTES}
    run_bench(tmp_path, "kernel_runs", rtl_sources("kernel_runs"), __name__, parameters=parameters)
