# SPDX-License-Identifier: Apache-2.0
"""rf_divide against Python integers: every quotient of small numbers, and the hardest ones of wide numbers."""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.support.rtl.stream_bench import Beat, Dut, StreamBench

#: the divider, which has no handshake, as a stream of {count, x} in and quotients out
_STREAM = """\
module divide #(
    parameter int WIDTH = 8, parameter bit SIGNED = 1'b1, parameter int COUNTS = 4, parameter int CONSTANT = 0,
    localparam int COUNT_WIDTH = $clog2(COUNTS + 1)
) (
    input logic clk, rst_n, s_axis_tvalid, output logic s_axis_tready, input logic [COUNT_WIDTH+WIDTH-1:0] s_axis_tdata,
    input logic s_axis_tlast, output logic m_axis_tvalid, input logic m_axis_tready, output logic [WIDTH-1:0] m_axis_tdata,
    output logic m_axis_tlast
);
  logic [WIDTH-1:0] y;
  rf_divide #(.WIDTH(WIDTH), .SIGNED(SIGNED), .COUNTS(COUNTS), .CONSTANT(CONSTANT)) u_rf_divide (
      .clk(clk), .x(s_axis_tdata[WIDTH-1:0]), .count(s_axis_tdata[WIDTH+:COUNT_WIDTH]), .y(y)
  );
  axis_free_running #(.WIDTH(WIDTH), .LATENCY(4)) u_axis_free_running (.pipeline_tdata(y), .*);
endmodule
"""


class Case(NamedTuple):
    """One instance. constant: the count if it is always the same, otherwise 0."""

    width: int
    signed: bool
    counts: int
    constant: int = 0

    def dut(self) -> Dut:
        parameters = {"WIDTH": self.width, "SIGNED": int(self.signed), "COUNTS": self.counts, "CONSTANT": self.constant}
        bits = self.width + self.counts.bit_length()
        return Dut("divide", parameters, {"s_axis": bits}, self.width, source=_STREAM, uses=("rf_divide", "axis_free_running"))

    def divisions(self, rng: random.Random) -> list[tuple[int, int]]:
        """(x, count): all of a small type; otherwise ends, multiples of the count and their neighbours, and random ones."""
        counts = [self.constant] if self.constant else range(1, self.counts + 1)
        low = -(1 << self.width - 1) if self.signed else 0
        high = low + (1 << self.width) - 1
        if self.width <= 8:
            return [(x, count) for x in range(low, high + 1) for count in counts]
        found: list[tuple[int, int]] = []
        for count in counts:
            near = [count * rng.randint(low // count + 1, high // count - 1) + step for _ in range(30) for step in (-1, 0, 1)]
            top = high // count * count
            some = [low, low + 1, high, high - 1, top, top - 1, -1, 0, 1, *near, *(rng.randint(low, high) for _ in range(30))]
            found += [(x, count) for x in some if low <= x <= high]
        return found

    def traffic(self, _rows: int, seed: int) -> tuple[list[list[Beat]], list[Beat]]:
        rng = random.Random(seed)
        mask = (1 << self.width) - 1
        pairs = self.divisions(rng)
        rng.shuffle(pairs)
        source = [Beat((0 if self.constant else count) << self.width | x & mask, rng.random() < 0.2) for x, count in pairs]
        quotients = [abs(x) // count * (1 if x >= 0 else -1) & mask for x, count in pairs]
        return [source], [Beat(quotient, beat.last) for quotient, beat in zip(quotients, source, strict=True)]


CASES = [
    Case(8, True, 9), Case(7, False, 16), Case(1, False, 2), Case(8, True, 5, 5), Case(6, False, 1, 1), Case(20, True, 9),
    Case(31, False, 64), Case(40, True, 49, 49), Case(62, True, 25),
]  # fmt: skip


def test_quotients_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case)


def test_a_number_is_divided_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 1)
    assert taken[-1] - taken[0] == len(taken) - 1
