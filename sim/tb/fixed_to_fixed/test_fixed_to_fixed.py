# SPDX-License-Identifier: Apache-2.0
"""fixed_to_fixed against the exact cast of ap_fixed: many pairs of types at once, bit for bit, and small types exhaustively."""

from __future__ import annotations

import itertools
import random

import numpy as np

from hypersonic.firmware.kernel.files import rtl_sources
from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, FixedPoint, Overflow, Rounding
from hypersonic.sim.bench_pipeline import differences, packed, pipeline
from hypersonic.sim.stream_bench import Dut, StreamBench

_LATENCY = 3
_VALUES = 600
Pair = tuple[FixedPoint, FixedPoint]


def pairs() -> list[Pair]:
    """Every mode on a cast that drops bits at both ends, the widths of wire formats, extreme shifts, and random types."""
    chosen = [
        (FixedPoint(9, 4, signed), FixedPoint(6, 3, True, *modes))
        for signed, modes in itertools.product([True, False], itertools.product(Rounding, Overflow))
    ]
    rng = random.Random(9)
    shapes = [
        (16, 8, 18, 10),
        (8, 4, 18, 10),
        (32, 16, 18, 10),
        (18, 10, 16, 10),
        (24, 12, 8, 4),
        (53, 20, 32, 16),
        (1, 1, 1, 1),
    ]
    shapes += [(16, 16, 8, -30), (8, -30, 16, 16), (12, 6, 12, 6), (62, 31, 62, 30)]
    shapes += [(rng.randrange(1, 40), rng.randrange(-5, 40), rng.randrange(1, 40), rng.randrange(-5, 40)) for _ in range(16)]
    for width_in, integer_in, width, integer in shapes:
        modes = rng.choice(list(Rounding)), rng.choice(list(Overflow))
        source = FixedPoint(width_in, integer_in, rng.random() < 0.7)
        chosen.append((source, FixedPoint(width, integer, rng.random() < 0.7, *modes)))
    return chosen


def raw_numbers(fixed: FixedPoint, rng: random.Random) -> list[int]:
    """_VALUES raw numbers: all of a small type; otherwise the ends, powers of two and their neighbours, and random ones."""
    if fixed.width <= 9:
        return [fixed.min_raw + i % (1 << fixed.width) for i in range(_VALUES)]
    powers = [sign * (1 << bit) + step for bit in range(fixed.width) for sign in (1, -1) for step in (-1, 0, 1)]
    some = [fixed.min_raw, fixed.max_raw, *(raw for raw in powers if fixed.min_raw <= raw <= fixed.max_raw)][:_VALUES]
    return some + [rng.randint(fixed.min_raw, fixed.max_raw) for _ in range(_VALUES - len(some))]


def lanes(every: list[Pair]) -> Dut:
    """All casts side by side, each of its own number."""
    texts, x_low, y_low = [], 0, 0
    for i, (source, to) in enumerate(every):
        texts.append(
            f"  fixed_to_fixed #(.WIDTH_IN({source.width}), .SIGNED_IN(1'b{int(source.signed)}), "
            f".SHIFT({to.fraction - source.fraction}), .WIDTH({to.width}), .SIGNED(1'b{int(to.signed)}), "
            f".ROUNDING({ROUNDING_CODES[to.rounding]}), .OVERFLOW({OVERFLOW_CODES[to.overflow]})) u_{i} (.clk(clk), "
            f".enable(enable), .x(s_axis_tdata[{x_low}+:{source.width}]), .raw(m_axis_tdata[{y_low}+:{to.width}]));"
        )
        x_low, y_low = x_low + source.width, y_low + to.width
    return pipeline("lanes", _LATENCY, x_low, [to.width for _, to in every], texts, rtl_sources("fixed_to_fixed"))


def test_every_cast_is_exact() -> None:
    every = pairs()
    sources, targets = [source for source, _ in every], [to for _, to in every]
    rng = random.Random(5)
    raw = np.array([raw_numbers(source, rng) for source in sources]).T
    expected = [[to.cast(int(value), source.fraction) for value, (source, to) in zip(row, every, strict=True)] for row in raw]
    with StreamBench([dut := lanes(every)]) as bench:
        x = packed(raw, [source.width for source in sources])
        wrong = differences(bench, dut, x, expected, [to.width for to in targets])
    assert not wrong, "\n".join(
        f"{raw[i, j]} of {sources[j]} as {targets[j]} gave the bits {got:#x}, expected {expected[i][j]}"
        for i, j, got in wrong[:20]
    )
