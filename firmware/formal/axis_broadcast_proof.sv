// SPDX-License-Identifier: Apache-2.0
//
// axis_broadcast with three consumers: each takes each beat exactly once, whenever it is ready; valid and its payload stay until
// ready; the next beat may follow as soon as the last consumer has taken this one.
`default_nettype none

module axis_broadcast_proof (
    input logic       clk,
    input logic       rst_n,
    input logic       s_axis_tvalid,
    input logic [3:0] s_axis_tdata,
    input logic [2:0] m_axis_tready
);

  logic       s_axis_tready;
  logic [2:0] m_axis_tvalid;

  axis_broadcast #(.N(3)) u_axis_broadcast (.*);

  stream_rules #(.WIDTH(4), .ASSUME(1'b1)) u_in (.clk, .rst_n, .tvalid(s_axis_tvalid), .tready(s_axis_tready), .tdata(s_axis_tdata));
  for (genvar i = 0; i < 3; i++) begin : gen_out
    stream_rules #(.WIDTH(4)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid[i]), .tready(m_axis_tready[i]), .tdata(s_axis_tdata));
  end

  (* inner = "u_axis_broadcast.taken_q" *) wire [2:0] inner_taken;

  // the consumers that have taken the current beat
  logic       started_q = 1'b0;
  logic [2:0] taken_q;
  wire  [2:0] taken = taken_q | (m_axis_tvalid & m_axis_tready);
  wire        next = s_axis_tvalid && s_axis_tready;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    taken_q   <= next ? '0 : taken;
    if (!rst_n) taken_q <= '0;
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      assert (inner_taken == taken_q);
      assert ((m_axis_tvalid & taken_q) == '0);
      assert (s_axis_tvalid || m_axis_tvalid == '0);
      assert (!next || (&taken));
      // no deadlock: consumers that have not taken the beat are offered it, and once all have taken it, it is gone
      assert (!s_axis_tvalid || (m_axis_tvalid | taken_q) == 3'b111);
      assert (!s_axis_tvalid || !(&taken) || s_axis_tready);
    end
    cover (started_q && rst_n && next && taken_q == 3'b101);
    cover (started_q && rst_n && next && taken_q == 3'b000);
  end

endmodule

`default_nettype wire
