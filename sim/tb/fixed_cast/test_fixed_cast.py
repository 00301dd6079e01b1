# SPDX-License-Identifier: Apache-2.0
"""fixed_cast against the exact cast of ap_fixed: many pairs of types at once, bit for bit, and small types exhaustively."""

from __future__ import annotations

import itertools
import random

from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, FixedPoint, Overflow, Rounding
from tests.support.rtl.bench_cases import fixed_point
from tests.support.rtl.stream_bench import Beat, Dut, Stalls, StreamBench

_VALUES = 600
Pair = tuple[FixedPoint, FixedPoint]


def pairs() -> list[Pair]:
    """Every mode on a cast that drops bits at both ends, wide accumulators, extreme shifts, and random types."""
    chosen = [
        (fixed_point(9, 5, signed), fixed_point(6, 3, to_signed, rounding, overflow))
        for signed, to_signed, rounding, overflow in itertools.product([True, False], [True, False], Rounding, Overflow)
    ]
    rng = random.Random(9)
    shapes = [(16, 8, 18, 8), (48, 20, 16, 10), (96, 40, 16, 6), (128, 60, 64, 30), (18, 10, 16, 10), (1, 0, 1, 0)]
    shapes += [(16, 0, 8, 38), (8, 38, 16, 0), (12, 6, 12, 6), (1, 3, 4, 2), (4, 5, 4, 0), (4, 6, 4, 0), (4, 4, 4, 0)]
    shapes += [(rng.randrange(1, 70), rng.randrange(-5, 40), rng.randrange(1, 40), rng.randrange(-5, 40)) for _ in range(40)]
    for width_in, fraction_in, width, fraction in shapes:
        modes = rng.choice(list(Rounding)), rng.choice(list(Overflow))
        source = fixed_point(width_in, fraction_in, rng.random() < 0.7)
        chosen.append((source, fixed_point(width, fraction, rng.random() < 0.7, *modes)))
    return chosen


def raw_numbers(source: FixedPoint, to: FixedPoint, rng: random.Random) -> list[int]:
    """_VALUES raw numbers: all of a small type; otherwise ends, powers of two, ties and their neighbours, and random ones."""
    if source.width <= 9:
        return [source.min_raw + i % (1 << source.width) for i in range(_VALUES)]
    down = max(0, source.fraction - to.fraction)
    powers = [sign * (1 << bit) + step for bit in range(source.width) for sign in (1, -1) for step in (-1, 0, 1)]
    ties = [((2 * rng.randint(-9, 9) + 1) << down >> 1) + rng.randint(-1, 1) for _ in range(100)]
    ends = [source.min_raw, source.max_raw, ((to.max_raw << down) + (1 << down) // 2), (to.min_raw << down) - 1]
    some = [raw for raw in (*ends, *ties, *rng.sample(powers, len(powers))) if source.min_raw <= raw <= source.max_raw][
        :_VALUES
    ]
    return some + [rng.randint(source.min_raw, source.max_raw) for _ in range(_VALUES - len(some))]


def wrapper(every: list[Pair]) -> str:
    """A module with all casts in parallel, each with its own input, as one stream."""
    lanes, x_low, y_low = [], 0, 0
    for i, (source, to) in enumerate(every):
        lanes.append(
            f"  fixed_cast #(.IN_WIDTH({source.width}), .SIGNED_IN(1'b{int(source.signed)}), "
            f".SHIFT({source.fraction - to.fraction}), .WIDTH({to.width}), .SIGNED(1'b{int(to.signed)}), "
            f".ROUNDING({ROUNDING_CODES[to.rounding]}), .OVERFLOW({OVERFLOW_CODES[to.overflow]})) u_{i} "
            f"(.clk(clk), .enable(1'b1), .x(s_axis_tdata[{x_low}+:{source.width}]), .y(y[{y_low}+:{to.width}]));"
        )
        x_low, y_low = x_low + source.width, y_low + to.width
    return f"""\
module lanes (
    input logic clk, rst_n, s_axis_tvalid, output logic s_axis_tready, input logic [{x_low - 1}:0] s_axis_tdata,
    input logic s_axis_tlast, output logic m_axis_tvalid, input logic m_axis_tready,
    output logic [{y_low - 1}:0] m_axis_tdata, output logic m_axis_tlast
);
  logic [{y_low - 1}:0] y;
{chr(10).join(lanes)}
  axis_free_running #(.WIDTH({y_low}), .LATENCY(2)) u_axis_free_running (.pipeline_tdata(y), .*);
endmodule
"""


def pack(values: list[int], types: list[FixedPoint]) -> int:
    word = low = 0
    for value, fixed in zip(values, types, strict=True):
        word |= (value & ((1 << fixed.width) - 1)) << low
        low += fixed.width
    return word


def test_every_cast_is_exact() -> None:
    every = pairs()
    sources, targets = [source for source, _ in every], [to for _, to in every]
    rng = random.Random(5)
    columns = [raw_numbers(*pair, rng) for pair in every]
    rows = list(zip(*columns, strict=True))
    expected = [[to.cast(value, source.fraction) for value, (source, to) in zip(row, every, strict=True)] for row in rows]
    widths = [sum(fixed.width for fixed in types) for types in (sources, targets)]
    dut = Dut("lanes", {}, {"s_axis": widths[0]}, widths[1], source=wrapper(every), uses=("fixed_cast", "axis_free_running"))
    with StreamBench([dut]) as bench:
        beats = [Beat(pack(list(row), sources)) for row in rows]
        answers = bench.run(dut, beats, results=_VALUES, stalls=Stalls(40, 40)).beats
    for row, answer, want in zip(rows, answers, expected, strict=True):
        low = 0
        for value, (source, to), right in zip(row, every, want, strict=True):
            mask = (1 << to.width) - 1
            assert answer.data >> low & mask == right & mask, f"{value} of {source} as {to}, expected {right}"
            low += to.width
