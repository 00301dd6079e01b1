# SPDX-License-Identifier: Apache-2.0
"""rf_multiply against Python integers: every product of small numbers, and the ends and pieces of wide numbers."""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

from tests.support.rtl.stream_bench import Beat, Dut, StreamBench

#: the multiplier, which has no handshake, as a stream of {b, a} in and products out
_STREAM = """\
module multiply #(parameter int A_WIDTH = 8, parameter int B_WIDTH = 8, parameter int CONSTANT = 0) (
    input logic clk, rst_n, s_axis_tvalid, output logic s_axis_tready, input logic [A_WIDTH+B_WIDTH-1:0] s_axis_tdata,
    input logic s_axis_tlast, output logic m_axis_tvalid, input logic m_axis_tready,
    output logic [A_WIDTH+B_WIDTH-1:0] m_axis_tdata, output logic m_axis_tlast
);
  logic signed [A_WIDTH+B_WIDTH-1:0] product;
  rf_multiply #(.A_WIDTH(A_WIDTH), .B_WIDTH(B_WIDTH), .CONSTANT(128'(CONSTANT))) u_rf_multiply (
      .clk(clk), .a(s_axis_tdata[A_WIDTH-1:0]), .b(s_axis_tdata[A_WIDTH+:B_WIDTH]), .product(product)
  );
  axis_free_running #(.WIDTH(A_WIDTH + B_WIDTH), .LATENCY(2)) u_axis_free_running (.pipeline_tdata(product), .*);
endmodule
"""


class Case(NamedTuple):
    """One instance. constant: b if it is always the same, otherwise 0."""

    a_width: int
    b_width: int
    constant: int = 0

    def dut(self) -> Dut:
        bits = self.a_width + self.b_width
        parameters = {"A_WIDTH": self.a_width, "B_WIDTH": self.b_width, "CONSTANT": self.constant}
        return Dut("multiply", parameters, {"s_axis": bits}, bits, source=_STREAM, uses=("rf_multiply", "axis_free_running"))

    def factors(self, rng: random.Random) -> list[tuple[int, int]]:
        """All of small types; otherwise those at the ends, at the ends of the pieces, and random ones."""
        if self.a_width + self.b_width <= 10:
            return list(itertools.product(numbers(self.a_width), numbers(self.b_width)))
        wide = list(itertools.product(some(self.a_width, rng), some(self.b_width, rng)))
        return rng.sample(wide, min(len(wide), 400))

    def traffic(self, _rows: int, seed: int) -> tuple[list[list[Beat]], list[Beat]]:
        rng = random.Random(seed)
        pairs = self.factors(rng)
        rng.shuffle(pairs)
        a_mask, mask = (1 << self.a_width) - 1, (1 << self.a_width + self.b_width) - 1
        fixed = self.constant
        source = [Beat((b << self.a_width | a & a_mask) & mask, rng.random() < 0.2) for a, b in pairs]
        return [source], [Beat(a * (fixed or b) & mask, beat.last) for (a, b), beat in zip(pairs, source, strict=True)]


def numbers(width: int) -> range:
    """Every number of so many bits."""
    return range(-(1 << width - 1), 1 << width - 1)


def some(width: int, rng: random.Random) -> list[int]:
    """Numbers of so many bits: near the ends of the range and of pieces of 17 bits, and random ones."""
    bounds = [0, *(sign << at for at in (*range(17, width, 17), width - 1) for sign in (1, -1))]
    near = sorted({bound + step for bound in bounds for step in (-1, 0, 1)})
    every = numbers(width)
    return [number for number in near if number in every] + [rng.randint(every.start, every.stop - 1) for _ in range(30)]


CASES = [
    Case(1, 1), Case(1, 9), Case(5, 5), Case(18, 18), Case(19, 18), Case(18, 19), Case(25, 25), Case(25, 32), Case(41, 16),
    Case(35, 36), Case(63, 69), Case(25, 12, 1365), Case(25, 32, -99999), Case(24, 20, 1 << 18),
]  # fmt: skip


def test_products_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case)


def test_a_product_is_made_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 1)
    assert taken[-1] - taken[0] == len(taken) - 1
