# SPDX-License-Identifier: Apache-2.0
"""float_to_fixed against TensorSpec.to_raw: each number is converted to many types at once and compared bit for bit.

FP16: all numbers. FP32 and BF16: every exponent with selected fractions, both signs, NaN, infinities, denormals, and for each
type the ties, the ends of its range and their neighbours.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.firmware.kernel.files import rtl_sources
from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, FixedPoint, Overflow, Rounding
from hypersonic.hls.spec import TensorSpec
from tests.support.rtl.bench_pipeline import differences, pipeline
from tests.support.rtl.stream_bench import Dut, StreamBench

_LATENCY = 3


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


def lanes(every: list[TensorSpec]) -> Dut:
    """The conversions to all types side by side, of the same number."""
    element = every[0].element
    bits = f".EXPONENT_BITS({element.exponent_bits}), .MANTISSA_BITS({element.bits - 1 - element.exponent_bits})"
    texts, low = [], 0
    for i, spec in enumerate(every):
        fixed = spec.fixed
        texts.append(
            f"  float_to_fixed #({bits}, .WIDTH({fixed.width}), .SHIFT({fixed.fraction + int(spec.exponents[0])}), "
            f".SIGNED(1'b{int(fixed.signed)}), .ROUNDING({ROUNDING_CODES[fixed.rounding]}), "
            f".OVERFLOW({OVERFLOW_CODES[fixed.overflow]})) u_{i} "
            f"(.clk(clk), .enable(enable), .x(s_axis_tdata), .raw(m_axis_tdata[{low}+:{fixed.width}]));"
        )
        low += fixed.width
    name = f"lanes_{every[0].datatype.lower()}"
    return pipeline(name, _LATENCY, element.bits, widths(every), texts, rtl_sources("float_to_fixed"))


def widths(every: list[TensorSpec]) -> list[int]:
    return [spec.fixed.width for spec in every]


SPECS = {datatype: specs(datatype) for datatype in ("FP32", "FP16", "BF16")}


@pytest.fixture(scope="module")
def bench() -> Iterator[StreamBench]:
    with StreamBench([lanes(every) for every in SPECS.values()]) as opened:
        yield opened


@pytest.mark.parametrize("datatype", SPECS)
def test_every_type_converts_every_number_exactly(bench: StreamBench, datatype: str) -> None:
    every = SPECS[datatype]
    values = words(every)
    with np.errstate(invalid="ignore"):
        expected = np.stack([spec.to_raw(spec.decode(values.tobytes()))[:, 0] for spec in every], axis=1)
    wrong = differences(bench, lanes(every), values.tolist(), expected, widths(every))
    assert not wrong, "\n".join(
        f"{every[j].fixed} scale {every[j].exponents[0]}: {values[i]:#x} gave the bits {got:#x}, expected {expected[i, j]}"
        for i, j, got in wrong[:20]
    )
