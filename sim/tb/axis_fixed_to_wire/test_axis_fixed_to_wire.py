# SPDX-License-Identifier: Apache-2.0
"""axis_fixed_to_wire: rows with pauses on both sides; each element has its own scale."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.firmware.kernel.files import rtl_sources
from hypersonic.firmware.kernel.parts import Part, converter_parameters
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.spec import TensorSpec
from hypersonic.sim.bus import Bench, Item, Sink, Source
from hypersonic.sim.cocotb_run import bench_test, run_bench

_SCALES = (0, -3, 120)
_SPECS = {
    "FP32": TensorSpec("y", (3,), FixedPoint(30, 12), scale_exponents=_SCALES),
    "INT16": TensorSpec("y", (3,), FixedPoint(30, 12), "INT16"),
}


class TB:
    def __init__(self, dut: Any, pause_in: float = 0.0, pause_out: float = 0.0, seed: int = 1) -> None:
        datatype, *_ = dut._name.split("_")
        self.spec = _SPECS[datatype]
        self.generator = np.random.default_rng(seed)
        rng = random.Random(seed)
        self.source = Source(dut, "s_axis", ("tdata", "tlast"), rng, pause_in)
        self.sink = Sink(dut, "m_axis", ("tdata", "tlast"), rng, pause_out)
        self.bench = Bench(dut, [self.source, self.sink])
        self.expected: list[Item] = []

    def send(self, rows: int) -> None:
        fixed = self.spec.fixed
        raw = self.generator.integers(fixed.min_raw, fixed.max_raw, (rows, self.spec.size), endpoint=True)
        raw >>= self.generator.integers(0, fixed.width, raw.shape)
        for row, (values, y) in enumerate(zip(raw, self.spec.from_raw(raw), strict=True)):
            last = int(row == rows - 1)
            word = sum((int(r) & ((1 << fixed.width) - 1)) << (fixed.width * i) for i, r in enumerate(values))
            self.source.send(tdata=word, tlast=last)
            self.expected.append({"tdata": int.from_bytes(y.tobytes(), "little"), "tlast": last})

    async def check(self) -> None:
        await self.bench.until(lambda: len(self.sink.received) >= len(self.expected))
        await self.bench.step(10)
        assert self.sink.received == self.expected


@bench_test
async def rows_are_converted_in_order_under_pauses(dut: Any) -> None:
    for seed, (pause_in, pause_out) in enumerate([(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.4, 0.4)]):
        tb = TB(dut, pause_in, pause_out, seed)
        await tb.bench.reset()
        for rows in (1, 5, 100, 17):
            tb.send(rows)
        await tb.check()


@bench_test
async def a_row_enters_and_leaves_in_every_clock(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.send(300)
    await tb.bench.until(lambda: len(tb.sink.received) == 300)
    assert tb.bench.clocks <= 300 + 6


@bench_test
async def reset_in_mid_stream_leaves_nothing_behind(dut: Any) -> None:
    tb = TB(dut, 0.1, 0.3)
    await tb.bench.reset()
    tb.send(50)
    await tb.bench.step(20)
    await tb.bench.reset(1)
    tb.expected.clear()
    tb.sink.received.clear()
    tb.send(20)
    await tb.check()


def test_axis_fixed_to_wire(tmp_path: Path) -> None:
    sets = {}
    for datatype, latency in [("FP32", 5), ("INT16", 3), ("INT16", 4), ("INT16", 5)]:
        spec = _SPECS[datatype]
        rounded_to = spec.integer if spec.element.is_integer else FixedPoint(1, 1)
        parameters = converter_parameters(Part(spec, spec.size, 1), rounded_to)
        sets[f"{datatype}_latency_{latency}"] = {**parameters, "LATENCY": latency}
    run_bench(tmp_path, "axis_fixed_to_wire", rtl_sources("axis_fixed_to_wire"), __name__, sets=sets)
