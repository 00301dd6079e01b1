# SPDX-License-Identifier: Apache-2.0
"""axis_wire_to_fixed: rows with pauses on both sides; each element has its own scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from hypersonic.firmware.kernel.files import rtl_sources
from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.spec import TensorSpec
from tests.support.rtl.bus import StreamTB
from tests.support.rtl.cocotb_run import run_bench

_SCALES = (0, -3, 5, 1, -12, 9, 2)
_SPEC = TensorSpec("x", (7,), FixedPoint(18, 8, True, Rounding.RND_CONV, Overflow.SAT), scale_exponents=_SCALES)


class TB(StreamTB):
    source_fields = sink_fields = ("tdata", "tlast")

    def __init__(self, dut: Any, pause_in: float = 0.0, pause_out: float = 0.0, seed: int = 1) -> None:
        super().__init__(dut, pause_in, pause_out, seed)
        self.generator = np.random.default_rng(seed)

    def send(self, count: int) -> None:
        scale = np.ldexp(1.0, 6 - _SPEC.exponents)
        x = (self.generator.normal(0, 1, (count, _SPEC.size)) * scale).astype(np.float32)
        x[self.generator.random(x.shape) < 0.05] = np.nan
        x[self.generator.random(x.shape) < 0.05] = np.inf
        width = _SPEC.fixed.width
        for row, (values, raw) in enumerate(zip(x, _SPEC.to_raw(x), strict=True)):
            last = int(row == count - 1)
            self.source.send(tdata=int.from_bytes(values.tobytes(), "little"), tlast=last)
            word = sum((int(r) & ((1 << width) - 1)) << (width * i) for i, r in enumerate(raw))
            self.expected.append({"tdata": word, "tlast": last})


@cocotb.test()
async def rows_are_converted_in_order_under_pauses(dut: Any) -> None:
    await TB.check_pauses(dut, 1, 5, 100, 17, pauses=((0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.4, 0.4)))


@cocotb.test()
async def a_row_enters_and_leaves_in_every_clock(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.send(300)
    await tb.bench.until(lambda: len(tb.sink.received) == 300)
    assert tb.bench.clocks <= 300 + 6


@cocotb.test()
async def reset_in_mid_stream_leaves_nothing_behind(dut: Any) -> None:
    await TB(dut, 0.1, 0.3).check_resets((20,), 50, 20)


def test_axis_wire_to_fixed(tmp_path: Path) -> None:
    scales = sum((scale & 0xFFFF) << (16 * i) for i, scale in enumerate(_SCALES))
    parameters = {
        "N": _SPEC.size,
        "WIDTH": _SPEC.fixed.width,
        "FRACTION": _SPEC.fixed.fraction,
        "ROUNDING": 2,
        "OVERFLOW": 1,
        "SCALES": f"{16 * _SPEC.size}'h{scales:x}",
    }
    run_bench(tmp_path, "axis_wire_to_fixed", rtl_sources("axis_wire_to_fixed"), __name__, parameters=parameters)
