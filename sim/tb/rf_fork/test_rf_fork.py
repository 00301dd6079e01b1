# SPDX-License-Identifier: Apache-2.0
"""rf_fork: every consumer takes every beat once, also if one is slower, and one beat passes per clock; reset in mid-row."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.rtl.stream_bench import Beat, Dut, StreamBench

#: two consumers with FIFOs of different depth, whose beats are joined again at the end
_PAIR = """\
module pair (
    input logic clk, rst_n, s_axis_tvalid, output logic s_axis_tready, input logic [7:0] s_axis_tdata, input logic s_axis_tlast,
    output logic m_axis_tvalid, input logic m_axis_tready, output logic [15:0] m_axis_tdata, output logic m_axis_tlast
);
  logic [1:0] valid, ready, out_valid;
  logic [7:0] data;
  logic last, last_a, last_b;
  rf_fork #(.WIDTH(8), .COUNT(2)) u_rf_fork (
      .m_axis_tvalid(valid), .m_axis_tready(ready), .m_axis_tdata(data), .m_axis_tlast(last), .*
  );
  wire give = m_axis_tvalid && m_axis_tready;
  axis_fifo #(.WIDTH(9), .DEPTH(2)) u_a (
      .clk(clk), .rst_n(rst_n), .s_axis_tvalid(valid[0]), .s_axis_tready(ready[0]), .s_axis_tdata({last, data}),
      .m_axis_tvalid(out_valid[0]), .m_axis_tready(give), .m_axis_tdata({last_a, m_axis_tdata[7:0]})
  );
  // this consumer takes a beat in every second or third clock only
  logic [2:0] turn_q;
  always_ff @(posedge clk) turn_q <= rst_n ? turn_q + 3'd3 : '0;
  wire awake = SLOW == 0 || turn_q < 3'd3;
  logic b_ready;
  assign ready[1] = awake && b_ready;
  axis_fifo #(.WIDTH(9), .DEPTH(8)) u_b (
      .clk(clk), .rst_n(rst_n), .s_axis_tvalid(valid[1] && awake), .s_axis_tready(b_ready), .s_axis_tdata({last, data}),
      .m_axis_tvalid(out_valid[1]), .m_axis_tready(give), .m_axis_tdata({last_b, m_axis_tdata[15:8]})
  );
  assign m_axis_tvalid = &out_valid;
  assign m_axis_tlast = last_a && last_b;
endmodule
""".replace("module pair (", "module pair #(parameter int SLOW = 0) (")


@dataclass(frozen=True)
class Case:
    slow: int

    def dut(self) -> Dut:
        return Dut("pair", {"SLOW": self.slow}, {"s_axis": 8}, 16, source=_PAIR, uses=("rf_fork", "axis_fifo"))

    def traffic(self, rows: int, seed: int) -> tuple[list[list[Beat]], list[Beat]]:
        rng = random.Random(seed)
        source = [Beat(rng.getrandbits(8), rng.random() < 0.2) for _ in range(rows * 10)]
        return [source], [Beat(data << 8 | data, last) for data, last in source]


CASES = [Case(0), Case(1)]


def test_both_get_every_beat_once_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=20)


def test_a_beat_passes_every_clock(bench: StreamBench) -> None:
    taken = bench.taken_at(CASES[0], 30)
    assert taken[-1] - taken[0] == len(taken) - 1
