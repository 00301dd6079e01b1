# SPDX-License-Identifier: Apache-2.0
"""fixed_to_fixed against the exact cast of ap_fixed: many pairs of types at once, bit for bit, and small types exhaustively."""

from __future__ import annotations

import itertools
import json
import os
import random
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import Timer

from hypersonic.firmware.kernel.files import rtl_sources
from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, FixedPoint, Overflow, Rounding
from hypersonic.sim.cocotb_run import run_bench

_LATENCY = 3
_PAIRS = "HYPERSONIC_BENCH_PAIRS"
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


def wrapper(every: list[Pair]) -> str:
    """A module with all casts in parallel, each with its own input."""
    lanes, x_low, y_low = [], 0, 0
    for i, (source, to) in enumerate(every):
        lanes.append(
            f"  fixed_to_fixed #(.WIDTH_IN({source.width}), .SIGNED_IN(1'b{int(source.signed)}), "
            f".SHIFT({to.fraction - source.fraction}), .WIDTH({to.width}), .SIGNED(1'b{int(to.signed)}), "
            f".ROUNDING({ROUNDING_CODES[to.rounding]}), .OVERFLOW({OVERFLOW_CODES[to.overflow]})) u_{i} "
            f"(.clk(clk), .enable(enable), .x(x[{x_low}+:{source.width}]), .raw(raw[{y_low}+:{to.width}]));"
        )
        x_low, y_low = x_low + source.width, y_low + to.width
    ports = f"input logic clk, input logic enable, input logic [{x_low - 1}:0] x, output logic [{y_low - 1}:0] raw"
    return "\n".join([f"module lanes ({ports});", *lanes, "endmodule", ""])


def pack(values: list[int], types: list[FixedPoint]) -> int:
    word = low = 0
    for value, fixed in zip(values, types, strict=True):
        word |= (value & ((1 << fixed.width) - 1)) << low
        low += fixed.width
    return word


def exact(raw: int, source: FixedPoint, to: FixedPoint) -> int:
    return to.cast(raw, source.fraction)


@cocotb.test()
async def every_cast_is_exact(dut: Any) -> None:
    every = [(FixedPoint.parse(a), FixedPoint.parse(b)) for a, b in json.loads(os.environ[_PAIRS])]
    sources, targets = [source for source, _ in every], [to for _, to in every]
    rng = random.Random(5)
    raw = np.array([raw_numbers(source, rng) for source in sources], dtype=object)
    expected = [pack([exact(value, *pair) for value, pair in zip(row, every, strict=True)], targets) for row in raw.T]
    answers: list[int] = []
    shown = 0
    while len(answers) < _VALUES:
        enable = rng.random() < 0.9
        dut.clk.value = 0
        dut.enable.value = int(enable)
        dut.x.value = pack(list(raw[:, min(shown, _VALUES - 1)]), sources)
        await Timer(1, "ns")
        dut.clk.value = 1
        await Timer(1, "ns")
        shown += enable
        if enable and shown >= _LATENCY:
            answers.append(int(dut.raw.value))
    wrong = [row for row in range(_VALUES) if answers[row] != expected[row]]
    assert not wrong, "\n".join(_difference(answers[row], expected[row], list(raw[:, row]), every) for row in wrong[:10])


def _difference(got: int, expected: int, raw: list[int], every: list[Pair]) -> str:
    texts, low = [], 0
    for value, (source, to) in zip(raw, every, strict=True):
        mask = (1 << to.width) - 1
        if (got ^ expected) >> low & mask:
            texts.append(f"{value} of {source} as {to} gave {got >> low & mask:x}, expected {expected >> low & mask:x}")
        low += to.width
    return "; ".join(texts)


def test_fixed_to_fixed(tmp_path: Path) -> None:
    every = pairs()
    top = tmp_path / "lanes.sv"
    top.write_text(wrapper(every))
    environment = {_PAIRS: json.dumps([(str(source), str(to)) for source, to in every])}
    run_bench(tmp_path / "build", "lanes", [*rtl_sources("fixed_to_fixed"), top], __name__, environment=environment)
