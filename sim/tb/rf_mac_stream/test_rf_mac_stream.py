# SPDX-License-Identifier: Apache-2.0
"""Two layers of rf_mac_stream whose biases and weights are loaded at run time through one chain: exact results, the same
throughput as with constants from files, and both loaded again after a reset."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

from hypersonic.hls.fixed import FixedPoint
from tests.support.rtl.bench_cases import fixed_point
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of, pack

X, W, ACC, HIDDEN, Y = fixed_point(8, 4), fixed_point(6, 4), fixed_point(20, 8), fixed_point(9, 3), fixed_point(12, 5)


class Layer(NamedTuple):
    n_in: int
    n_out: int
    p: int
    q: int
    weights: list[list[int]]  # indexed by input and output
    bias: list[int]

    @property
    def words(self) -> list[int]:
        groups = range(0, self.n_out, self.q), range(0, self.n_in, self.p)
        return [
            pack([self.weights[i + p][j + q] for q in range(self.q) for p in range(self.p)], W.width)
            for j in groups[0]
            for i in groups[1]
        ]

    def load_beats(self, load_width: int) -> list[int]:
        biases = [pack(self.bias[j : j + self.q], ACC.width) for j in range(0, self.n_out, self.q)]
        return _pieces(biases, self.q * ACC.width, load_width) + _pieces(self.words, self.p * self.q * W.width, load_width)

    def results(self, x: list[int], fixed: FixedPoint, to: FixedPoint) -> list[int]:
        sums = [
            self.bias[j] + sum(ACC.cast(x[i] * self.weights[i][j], fixed.fraction + W.fraction) for i in range(self.n_in))
            for j in range(self.n_out)
        ]
        return [to.cast(ACC.confine(total), ACC.fraction) for total in sums]


def _pieces(words: list[int], width: int, load_width: int) -> list[int]:
    parts = -(-width // load_width)
    return [word >> load_width * part & ((1 << load_width) - 1) for word in words for part in range(parts)]


def layer(n_in: int, n_out: int, p: int, q: int) -> Layer:
    rng = random.Random(n_in)
    weights = [[rng.randint(W.min_raw, W.max_raw) for _ in range(n_out)] for _ in range(n_in)]
    return Layer(n_in, n_out, p, q, weights, [rng.randint(-999, 999) for _ in range(n_out)])


FIRST, SECOND = layer(6, 4, 3, 2), layer(4, 3, 2, 1)


def engine(name: str, one: Layer, x: FixedPoint, y: FixedPoint) -> str:
    return f"""\
  logic {name}_w_valid, {name}_w_ready;
  logic [{one.p * one.q * W.width - 1}:0] {name}_w_data;
  logic {name}_bias_valid, {name}_bias_ready;
  logic [LOAD_WIDTH-1:0] {name}_bias_data;
  rf_weights #(.WIDTH({one.p * one.q * W.width}), .DEPTH({len(one.words)}), .LOAD_WIDTH(LOAD_WIDTH)) u_{name}_weights (
      .clk(clk), .rst_n(rst_n), .s_load_tvalid({name}_bias_valid), .s_load_tready({name}_bias_ready),
      .s_load_tdata({name}_bias_data), .m_load_tvalid({name}_next_valid), .m_load_tready({name}_next_ready),
      .m_load_tdata({name}_next_data), .m_axis_tvalid({name}_w_valid), .m_axis_tready({name}_w_ready),
      .m_axis_tdata({name}_w_data)
  );
  rf_mac_stream #(
      .N_IN({one.n_in}), .N_OUT({one.n_out}), .P({one.p}), .Q({one.q}), .X_WIDTH({x.width}), .W_WIDTH({W.width}),
      .PRODUCT_SHIFT({x.fraction + W.fraction - ACC.fraction}), .ACC_WIDTH({ACC.width}),
      .RESULT_SHIFT({ACC.fraction - y.fraction}), .Y_WIDTH({y.width}), .LOAD_WIDTH(LOAD_WIDTH)
  ) u_{name} (
      .clk(clk), .rst_n(rst_n), .s_axis_tvalid({name}_x_valid), .s_axis_tready({name}_x_ready), .s_axis_tdata({name}_x_data),
      .s_axis_tlast({name}_x_last), .m_axis_tvalid({name}_y_valid), .m_axis_tready({name}_y_ready),
      .m_axis_tdata({name}_y_data), .m_axis_tlast({name}_y_last), .s_axis_w_tvalid({name}_w_valid),
      .s_axis_w_tready({name}_w_ready), .s_axis_w_tdata({name}_w_data), .s_load_tvalid({name}_load_valid),
      .s_load_tready({name}_load_ready), .s_load_tdata({name}_load_data), .m_load_tvalid({name}_bias_valid),
      .m_load_tready({name}_bias_ready), .m_load_tdata({name}_bias_data)
  );
"""


_TOP = f"""\
module loaded #(parameter int LOAD_WIDTH = 16) (
    input logic clk, rst_n,
    input logic s_load_tvalid, output logic s_load_tready, input logic [LOAD_WIDTH-1:0] s_load_tdata, input logic s_load_tlast,
    input logic s_axis_tvalid, output logic s_axis_tready, input logic [{FIRST.p * X.width - 1}:0] s_axis_tdata,
    input logic s_axis_tlast,
    output logic m_axis_tvalid, input logic m_axis_tready, output logic [{SECOND.q * Y.width - 1}:0] m_axis_tdata,
    output logic m_axis_tlast
);
  wire a_load_valid = s_load_tvalid;
  wire [LOAD_WIDTH-1:0] a_load_data = s_load_tdata;
  logic a_load_ready, a_next_valid, a_next_ready, b_load_ready, b_next_valid;
  logic [LOAD_WIDTH-1:0] a_next_data, b_next_data;
  assign s_load_tready = a_load_ready;
  wire b_load_valid = a_next_valid;
  wire [LOAD_WIDTH-1:0] b_load_data = a_next_data;
  assign a_next_ready = b_load_ready;
  wire b_next_ready = 1'b1;
  wire a_x_valid = s_axis_tvalid;
  wire a_x_last = s_axis_tlast;
  wire [{FIRST.p * X.width - 1}:0] a_x_data = s_axis_tdata;
  logic a_x_ready, a_y_valid, a_y_last, b_x_ready, b_y_valid, b_y_last;
  assign s_axis_tready = a_x_ready;
  logic [{FIRST.q * HIDDEN.width - 1}:0] a_y_data;
  wire a_y_ready = b_x_ready;
  wire b_x_valid = a_y_valid;
  wire b_x_last = a_y_last;
  wire [{FIRST.q * HIDDEN.width - 1}:0] b_x_data = a_y_data;
  wire b_y_ready = m_axis_tready;
  logic [{SECOND.q * Y.width - 1}:0] b_y_data;
  assign m_axis_tvalid = b_y_valid;
  assign m_axis_tdata = b_y_data;
  assign m_axis_tlast = b_y_last;
{engine("a", FIRST, X, HIDDEN)}{engine("b", SECOND, HIDDEN, Y)}endmodule
"""


@dataclass(frozen=True)
class Case:
    load_width: int

    def dut(self) -> Dut:
        inputs, uses = {"s_load": self.load_width, "s_axis": FIRST.p * X.width}, ("rf_weights", "rf_mac_stream")
        return Dut("loaded", {"LOAD_WIDTH": self.load_width}, inputs, SECOND.q * Y.width, source=_TOP, uses=uses)

    def traffic(self, rows: int, seed: int) -> tuple[list[list[Beat]], list[Beat]]:
        rng = random.Random(seed)
        load = [Beat(data) for one in (FIRST, SECOND) for data in one.load_beats(self.load_width)]
        source: list[Beat] = []
        sink: list[Beat] = []
        for _ in range(rows):
            x = [rng.randint(X.min_raw, X.max_raw) for _ in range(FIRST.n_in)]
            source += beats_of(x, FIRST.p, X.width)
            sink += beats_of(SECOND.results(FIRST.results(x, X, HIDDEN), HIDDEN, Y), SECOND.q, Y.width)
        return [load, source], sink


CASES = [Case(16), Case(7), Case(64)]


def test_integers_are_exact_under_any_stalls_and_with_weights_loaded_again_after_a_reset(
    bench: StreamBench, case: Case
) -> None:
    bench.check(case, rows=20)


def test_a_vector_takes_the_slower_layers_reuse_factor(bench: StreamBench) -> None:
    taken = bench.taken_at(CASES[0], 40)
    assert taken[-1] - taken[SECOND.n_out - 1] == 39 * len(SECOND.words)
