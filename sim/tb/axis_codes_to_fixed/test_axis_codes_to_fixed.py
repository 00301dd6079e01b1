# SPDX-License-Identifier: Apache-2.0
"""axis_codes_to_fixed: rows of codes with pauses on both sides; the reference is Packing (hls/packing)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from hypersonic.firmware.kernel.files import rtl_sources
from hypersonic.firmware.kernel.parts import table_literal
from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.packing.codes import converters
from hypersonic.hls.packing.layout import Field, Packing
from hypersonic.hls.spec import TensorSpec
from tests.support.rtl.bus import StreamTB
from tests.support.rtl.cocotb_run import run_bench

_CODES, _BITS, _SELECT = 5, 4, 2
_TABLE = tuple(tuple(np.random.default_rng(s).normal(0, 3, 1 << _BITS).tolist()) for s in range(1 << _SELECT))
_PACKING = Packing((Field("adc", _BITS, _CODES, table=_TABLE, select="gain"), Field("gain", _SELECT, is_input=False)))
_FIXED = FixedPoint(11, 3, True, Rounding.RND_CONV, Overflow.SAT)
_SPEC = TensorSpec("x", (_PACKING.row_bytes,), _FIXED, "UINT8", packing=_PACKING)


class TB(StreamTB):
    source_fields = sink_fields = ("tdata", "tlast")

    def __init__(self, dut: Any, pause_in: float = 0.0, pause_out: float = 0.0, seed: int = 1) -> None:
        super().__init__(dut, pause_in, pause_out, seed)
        self.generator = np.random.default_rng(seed)

    def send(self, count: int) -> None:
        x = self.generator.integers(0, 256, (count, _SPEC.row_bytes), dtype=np.uint8)
        bits, width = _CODES * _BITS + _SELECT, _FIXED.width
        for row, (data, raw) in enumerate(zip(x, _SPEC.to_raw(x), strict=True)):
            last = int(row == count - 1)
            self.source.send(tdata=int.from_bytes(data.tobytes(), "little") & ((1 << bits) - 1), tlast=last)
            word = sum((int(r) & ((1 << width) - 1)) << (width * i) for i, r in enumerate(raw))
            self.expected.append({"tdata": word, "tlast": last})


@cocotb.test()
async def codes_are_looked_up_in_order_under_pauses(dut: Any) -> None:
    await TB.check_pauses(dut, 1, 5, 60, 17, pauses=((0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.4, 0.4)))


@cocotb.test()
async def a_row_enters_and_leaves_in_every_clock(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.send(200)
    await tb.bench.until(lambda: len(tb.sink.received) == 200)
    assert tb.bench.clocks <= 200 + 6


@cocotb.test()
async def reset_in_mid_burst_leaves_nothing_behind(dut: Any) -> None:
    await TB(dut, 0.1, 0.3).check_resets((20,), 50, 20)


def test_axis_codes_to_fixed(tmp_path: Path) -> None:
    (codes,) = converters(_PACKING, ())
    parameters = {
        "N": _CODES,
        "CODE_WIDTH": _BITS,
        "ADDRESS_WIDTH": _BITS,
        "SELECT_WIDTH": _SELECT,
        "ENTRY_WIDTH": _FIXED.width,
        "TABLE": table_literal(codes.raw_table(_FIXED), _FIXED.width),
    }
    run_bench(tmp_path, "axis_codes_to_fixed", rtl_sources("axis_codes_to_fixed"), __name__, parameters=parameters)
