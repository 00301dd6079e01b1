// SPDX-License-Identifier: Apache-2.0
//
// rf_biases with three words of a beat: once all are loaded, a clock after an address its word is there: that of the beat with
// the same number. The solver chooses the word.
`default_nettype none

module rf_biases_proof (
    input logic       clk,
    input logic       rst_n,
    input logic       s_load_tvalid,
    input logic [1:0] s_load_tdata,
    input logic [1:0] address,
    input logic       m_load_tready
);

  logic s_load_tready, m_load_tvalid;
  logic [1:0] m_load_tdata;
  logic started_q = 1'b0;
  logic asked_q;
  logic [1:0] taken_q, word_q;
  (* anyconst *) logic [1:0] own;

  logic [1:0] word;
  logic loaded;

  rf_biases #(.WIDTH(2), .DEPTH(3), .LOAD_WIDTH(2)) u_rf_biases (.*);

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (s_load_tvalid && s_load_tready && taken_q != 2'd3) begin
      taken_q <= taken_q + 1'b1;
      if (taken_q == own) word_q <= s_load_tdata;
    end
    asked_q <= rst_n && loaded && address == own;
    if (!rst_n) begin
      taken_q <= '0;
      asked_q <= 1'b0;
    end
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    assume (own < 2'd3);
    assume (address < 2'd3);
    if (started_q && rst_n) begin
      if (loaded) assert (taken_q == 2'd3);
      if (asked_q) assert (word == word_q);
    end
    cover (started_q && rst_n && asked_q && own == 2'd2 && word_q == 2'd2);
  end

endmodule

`default_nettype wire
