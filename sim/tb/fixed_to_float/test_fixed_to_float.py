# SPDX-License-Identifier: Apache-2.0
"""fixed_to_float against TensorSpec.from_raw: many types at once, bit for bit, infinities and denormals included."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.firmware.kernel.files import rtl_sources
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.spec import TensorSpec
from tests.support.rtl.bench_pipeline import differences, packed, pipeline
from tests.support.rtl.stream_bench import Dut, StreamBench

_LATENCY = 5
_VALUES = 700


def specs(datatype: str) -> list[TensorSpec]:
    """Types with selected widths, and shifts whose results are denormal (around 149), too large, or next to either limit."""
    shapes = [(16, 6, True, 0), (16, 6, False, 3), (1, 1, True, 0), (1, 1, False, 0), (2, 1, True, 5), (24, 4, True, 0)]
    shapes += [(25, 4, True, 0), (26, 4, False, 0), (33, 8, True, -7), (54, 20, True, 0), (62, 31, True, 0), (62, 62, False, 0)]
    if datatype == "FP16":
        for shift in (10, 13, 14, 15, 16, 22, 24, 25, 26, 30, 40, -2, 0, 1):
            shapes += [(16, 16, True, shift), (40, 40, False, shift), (12, 12, True, shift)]
    for shift in (120, 126, 127, 130, 133, 134, 148, 149, 150, 152, 175, 200, 400):
        shapes += [(16, 16, True, shift), (40, 40, False, shift)]
    for shift in (-88, -96, -100, -104, -111, -112, -113, -128, -400):
        shapes += [(16, 16, True, shift), (40, 40, True, shift)]
    rng = random.Random(3)
    for _ in range(12):
        width = rng.randrange(1, 63)
        shapes.append((width, rng.randrange(-5, 70), rng.random() < 0.6, rng.randrange(-60, 61)))
    return [
        TensorSpec("y", (1,), FixedPoint(width, integer, signed), datatype, scale_exponents=(scale,))
        for width, integer, signed, scale in shapes
    ]


def raw_numbers(spec: TensorSpec, rng: np.random.Generator) -> NDArray[np.int64]:
    """Raw numbers (_VALUES,) of the type: the ends, powers of two and their neighbours, ties, and random ones."""
    low, high = spec.fixed.min_raw, spec.fixed.max_raw
    powers = 1 << np.arange(spec.fixed.width, dtype=np.int64)
    near = np.concatenate([powers, powers - 1, powers + 1, powers * 3 // 2])
    bits = spec.element.bits - spec.element.exponent_bits  # significant bits
    patterns = rng.integers(1 << (bits - 1), 1 << (bits + 1), 40) << rng.integers(0, max(1, spec.fixed.width - bits), 40)
    ties = np.concatenate([patterns | patterns >> bits, (patterns << 1 | 1) << rng.integers(0, 30, 40)])
    some = np.concatenate([[low, high, 0], near, -near, ties, -ties])
    some = some[(some >= low) & (some <= high)][: _VALUES - 100]
    magnitudes = rng.integers(low, high, _VALUES - some.size, endpoint=True)
    return np.concatenate([some, magnitudes >> rng.integers(0, spec.fixed.width, magnitudes.size)])


def lanes(every: list[TensorSpec]) -> Dut:
    """The conversions of all types side by side, each of its own number."""
    element = every[0].element
    bits = f".EXPONENT_BITS({element.exponent_bits}), .MANTISSA_BITS({element.bits - 1 - element.exponent_bits})"
    texts, low = [], 0
    for i, spec in enumerate(every):
        fixed = spec.fixed
        texts.append(
            f"  fixed_to_float #({bits}, .WIDTH({fixed.width}), .SHIFT({fixed.fraction + int(spec.exponents[0])}), "
            f".SIGNED(1'b{int(fixed.signed)})) u_{i} (.clk(clk), .enable(enable), "
            f".raw(s_axis_tdata[{low}+:{fixed.width}]), .y(m_axis_tdata[{element.bits * i}+:{element.bits}]));"
        )
        low += fixed.width
    name = f"lanes_{every[0].datatype.lower()}"
    return pipeline(name, _LATENCY, low, [element.bits] * len(every), texts, rtl_sources("fixed_to_float"))


SPECS = {datatype: specs(datatype) for datatype in ("FP32", "FP16", "BF16")}


@pytest.fixture(scope="module")
def bench() -> Iterator[StreamBench]:
    with StreamBench([lanes(every) for every in SPECS.values()]) as opened:
        yield opened


@pytest.mark.parametrize("datatype", SPECS)
def test_every_type_converts_every_number_exactly(bench: StreamBench, datatype: str) -> None:
    every = SPECS[datatype]
    generator = np.random.default_rng(11)
    raw = np.stack([raw_numbers(spec, generator) for spec in every], axis=1)
    element = every[0].element
    kind = f"<u{element.bytes}"
    expected = np.stack([spec.encode(spec.from_raw(raw[:, i : i + 1])).view(kind) for i, spec in enumerate(every)], axis=1)
    x = packed(raw, [spec.fixed.width for spec in every])
    wrong = differences(bench, lanes(every), x, expected, [element.bits] * len(every))
    assert not wrong, "\n".join(
        f"{every[j].fixed} scale {every[j].exponents[0]}: {raw[i, j]} gave {got:08x}, expected {expected[i, j]:08x}"
        for i, j, got in wrong[:20]
    )
