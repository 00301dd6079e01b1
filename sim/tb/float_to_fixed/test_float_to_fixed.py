# SPDX-License-Identifier: Apache-2.0
"""float_to_fixed against TensorSpec.to_raw: each number is converted to many types at once and compared bit for bit.

FP16: all numbers. FP32 and BF16: every exponent with selected fractions, both signs, NaN, infinities, denormals, and for each
type the ties, the ends of its range and their neighbours.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
import pytest
from cocotb.triggers import Timer
from numpy.typing import NDArray

from hypersonic.firmware.kernel.files import rtl_sources
from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, FixedPoint, Overflow, Rounding
from hypersonic.hls.spec import TensorSpec
from hypersonic.sim.cocotb_run import run_bench

_LATENCY = 3
_SPECS = "HYPERSONIC_BENCH_SPECS"


def specs(datatype: str) -> list[TensorSpec]:
    """Every rounding and overflow mode with selected widths, the extremes of width and shift, and random types."""
    modes = list(itertools.product(Rounding, Overflow))
    rng = random.Random(7)
    chosen = [(*shape, *mode) for shape in [(16, 6, True, 0), (8, 8, False, 2)] for mode in modes]
    shapes = [(18, 8, True, -3), (1, 1, True, 0), (1, 0, False, 0), (33, 5, True, 1)]
    chosen += [(*shape, *mode) for shape in shapes for mode in rng.sample(modes, 3)]
    extreme = [
        (62, 30, True, 0),
        (62, 62, False, 0),
        (16, -20, True, 0),
        (16, 40, True, 0),
        (12, 4, True, 392),
        (20, 9, False, 140),
    ]
    extreme += [(40, 20, True, -420), (7, 3, True, 131)]
    chosen += [(*shape, rng.choice(list(Rounding)), rng.choice(list(Overflow))) for shape in extreme]
    for _ in range(14):
        width = rng.randrange(1, 40)
        chosen.append((width, rng.randrange(-10, 45), rng.random() < 0.7, rng.randrange(-30, 31), *rng.choice(modes)))
    return [
        TensorSpec("x", (1,), FixedPoint(width, integer, signed, rounding, overflow), datatype, scale_exponents=(scale,))
        for width, integer, signed, scale, rounding, overflow in chosen
    ]


def words(every: list[TensorSpec]) -> NDArray[np.generic]:
    """The elements to convert, in their wire format."""
    element = every[0].element
    if element.bits == 16 and element.exponent_bits == 5:
        return np.arange(1 << 16, dtype=np.uint16)
    rng = np.random.default_rng(11)
    fractions = np.array([0, 1, 0x2AAAAA, 0x400000, 0x400001, 0x7FFFFF], dtype=np.uint32)
    grid = (np.arange(256, dtype=np.uint32)[:, None] << 23 | fractions).ravel()
    random_bits = rng.integers(0, 1 << 32, 400, dtype=np.uint32)
    parts = [np.concatenate([grid, grid | np.uint32(1 << 31), random_bits]).view(np.float32)]
    for spec in every:
        low, high = spec.fixed.min_raw, spec.fixed.max_raw
        raw = np.concatenate([[low, high, 0, 1, -1, 2, -2], rng.integers(low, high, 4, endpoint=True)]).astype(np.float64)
        halves = np.concatenate([raw, raw + 0.5, raw - 0.5, raw + 1.0, raw - 1.0, raw * 2.0])
        with np.errstate(over="ignore"):
            near = np.ldexp(halves, -spec.fixed.fraction - spec.exponents[0]).astype(np.float32)
            parts += [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
    with np.errstate(invalid="ignore"):
        return every[0].encode(np.concatenate(parts)).view(element.dtype.str.replace("f", "u"))


def wrapper(every: list[TensorSpec]) -> str:
    """A module with the conversions to all types in parallel."""
    element = every[0].element
    bits = f".EXPONENT_BITS({element.exponent_bits}), .MANTISSA_BITS({element.bits - 1 - element.exponent_bits})"
    lanes, low = [], 0
    for i, spec in enumerate(every):
        fixed = spec.fixed
        lanes.append(
            f"  float_to_fixed #({bits}, .WIDTH({fixed.width}), .SHIFT({fixed.fraction + int(spec.exponents[0])}), "
            f".SIGNED(1'b{int(fixed.signed)}), .ROUNDING({ROUNDING_CODES[fixed.rounding]}), "
            f".OVERFLOW({OVERFLOW_CODES[fixed.overflow]})) u_{i} "
            f"(.clk(clk), .enable(enable), .x(x), .raw(raw[{low}+:{fixed.width}]));"
        )
        low += fixed.width
    ports = f"input logic clk, input logic enable, input logic [{element.bits - 1}:0] x, output logic [{low - 1}:0] raw"
    return "\n".join([f"module lanes ({ports});", *lanes, "endmodule", ""])


def unpack(word: int, every: list[TensorSpec]) -> list[int]:
    """The raw numbers of all types from one output word."""
    values = []
    for spec in every:
        low = word & ((1 << spec.fixed.width) - 1)
        values.append(low - (1 << spec.fixed.width) if low > spec.fixed.max_raw else low)
        word >>= spec.fixed.width
    return values


@cocotb.test()
async def every_type_converts_every_number_exactly(dut: Any) -> None:
    every = [TensorSpec.from_json(value) for value in json.loads(os.environ[_SPECS])]
    values = words(every)
    with np.errstate(invalid="ignore"):
        expected = np.stack([spec.to_raw(spec.decode(values.tobytes()))[:, 0] for spec in every], axis=1)
    rng = random.Random(5)
    answers: list[int] = []
    shown = 0
    while len(answers) < len(values):
        enable = rng.random() < 0.9
        dut.clk.value = 0
        dut.enable.value = int(enable)
        dut.x.value = int(values[min(shown, len(values) - 1)])
        await Timer(1, "ns")
        dut.clk.value = 1
        await Timer(1, "ns")
        shown += enable
        if enable and shown >= _LATENCY:
            answers.append(int(dut.raw.value))
    got = np.array([unpack(word, every) for word in answers])
    wrong = np.argwhere(got != expected)
    assert not wrong.size, "\n".join(
        f"{every[j].fixed} scale {every[j].exponents[0]}: {values[i]:#x} gave {got[i, j]}, expected {expected[i, j]}"
        for i, j in wrong[:20]
    )


@pytest.mark.parametrize("datatype", ["FP32", "FP16", "BF16"])
def test_float_to_fixed(tmp_path: Path, datatype: str) -> None:
    every = specs(datatype)
    top = tmp_path / "lanes.sv"
    top.write_text(wrapper(every))
    environment = {_SPECS: json.dumps([spec.to_json() for spec in every])}
    run_bench(tmp_path / "build", "lanes", [*rtl_sources("float_to_fixed"), top], __name__, environment=environment)
