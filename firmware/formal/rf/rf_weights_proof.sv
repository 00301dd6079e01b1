// SPDX-License-Identifier: Apache-2.0
//
// rf_weights with three words of a beat: once all are loaded, the words leave in order, over and over. The solver chooses one.
`default_nettype none

module rf_weights_proof (
    input logic       clk,
    input logic       rst_n,
    input logic       s_load_tvalid,
    input logic [1:0] s_load_tdata,
    input logic       m_axis_tready,
    input logic       m_load_tready
);

  logic s_load_tready, m_load_tvalid;
  logic [1:0] m_load_tdata;
  logic started_q = 1'b0;
  logic again_q;
  logic [1:0] taken_q, word_q;
  (* anyconst *) logic [1:0] own;

  logic m_axis_tvalid;
  logic [1:0] m_axis_tdata;
  logic [1:0] given_q;  // beats of a round
  logic [3:0] idle_q;

  rf_weights #(.WIDTH(2), .DEPTH(3), .LOAD_WIDTH(2)) u_rf_weights (.*);

  stream_rules #(.WIDTH(2)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(m_axis_tdata));

  always_ff @(posedge clk) begin
    if (m_axis_tvalid && m_axis_tready) given_q <= given_q == 2'd2 ? '0 : given_q + 1'b1;
    idle_q <= rst_n && taken_q == 2'd3 && !m_axis_tvalid ? idle_q + 1'b1 : '0;
    if (!rst_n) given_q <= '0;
  end

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (s_load_tvalid && s_load_tready && taken_q != 2'd3) begin
      taken_q <= taken_q + 1'b1;
      if (taken_q == own) word_q <= s_load_tdata;
    end
    if (m_axis_tvalid && m_axis_tready && given_q == 2'd2) again_q <= 1'b1;
    if (!rst_n) begin
      taken_q <= '0;
      again_q <= 1'b0;
    end
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    assume (own < 2'd3);
    if (started_q && rst_n) begin
      assert (idle_q < 4'd10);
      if (m_axis_tvalid) assert (taken_q == 2'd3);
      if (m_axis_tvalid && given_q == own) assert (m_axis_tdata == word_q);
    end
    cover (started_q && rst_n && m_axis_tvalid && again_q && own == 2'd2 && word_q == 2'd2);
  end

endmodule

`default_nettype wire
