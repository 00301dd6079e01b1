# SPDX-License-Identifier: Apache-2.0
"""axis_fixed_to_wire: rows with pauses on both sides; each element has its own scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.firmware.kernel.files import rtl_sources
from hypersonic.firmware.kernel.parts import RowPart, converter_parameters
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.spec import TensorSpec
from tests.support.rtl.bus import StreamTB
from tests.support.rtl.cocotb_run import bench_test, run_bench

_SCALES = (0, -3, 120)
_SPECS = {
    "FP32": TensorSpec("y", (3,), FixedPoint(30, 12), scale_exponents=_SCALES),
    "INT16": TensorSpec("y", (3,), FixedPoint(30, 12), "INT16"),
}


class TB(StreamTB):
    source_fields = sink_fields = ("tdata", "tlast")

    def __init__(self, dut: Any, pause_in: float = 0.0, pause_out: float = 0.0, seed: int = 1) -> None:
        super().__init__(dut, pause_in, pause_out, seed)
        self.generator = np.random.default_rng(seed)
        self.spec = _SPECS[dut._name.split("_")[0]]

    def send(self, count: int) -> None:
        fixed = self.spec.fixed
        raw = self.generator.integers(fixed.min_raw, fixed.max_raw, (count, self.spec.size), endpoint=True)
        raw >>= self.generator.integers(0, fixed.width, raw.shape)
        for row, (values, y) in enumerate(zip(raw, self.spec.from_raw(raw), strict=True)):
            last = int(row == count - 1)
            word = sum((int(r) & ((1 << fixed.width) - 1)) << (fixed.width * i) for i, r in enumerate(values))
            self.source.send(tdata=word, tlast=last)
            self.expected.append({"tdata": int.from_bytes(y.tobytes(), "little"), "tlast": last})


@bench_test
async def rows_are_converted_in_order_under_pauses(dut: Any) -> None:
    await TB.check_pauses(dut, 1, 5, 100, 17, pauses=((0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.4, 0.4)))


@bench_test
async def a_row_enters_and_leaves_in_every_clock(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.send(300)
    await tb.bench.until(lambda: len(tb.sink.received) == 300)
    assert tb.bench.clocks <= 300 + 8


@bench_test
async def reset_in_mid_stream_leaves_nothing_behind(dut: Any) -> None:
    await TB(dut, 0.1, 0.3).check_resets((20,), 50, 20)


def test_axis_fixed_to_wire(tmp_path: Path) -> None:
    sets = {}
    for datatype, spec in _SPECS.items():
        rounded_to = spec.integer if spec.element.is_integer else FixedPoint(1, 1)
        sets[datatype] = converter_parameters(RowPart(spec, spec.size, 1), rounded_to)
    run_bench(tmp_path, "axis_fixed_to_wire", rtl_sources("axis_fixed_to_wire"), __name__, sets=sets)
