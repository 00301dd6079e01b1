// SPDX-License-Identifier: Apache-2.0
//
// axis_join with three producers: their beats are taken together or not at all; valid and its payload stay until ready; and the
// beat is transferred in the clock in which all of them are valid and the consumer is ready.
`default_nettype none

module axis_join_proof (
    input logic        clk,
    input logic        rst_n,
    input logic [ 2:0] s_axis_tvalid,
    input logic [11:0] s_axis_tdata,
    input logic        m_axis_tready
);

  logic [2:0] s_axis_tready;
  logic       m_axis_tvalid;

  axis_join #(.N(3)) u_axis_join (.*);

  for (genvar i = 0; i < 3; i++) begin : gen_in
    wire [3:0] data = s_axis_tdata[4*i+:4];
    stream_rules #(.WIDTH(4), .ASSUME(1'b1)) u_in (.clk, .rst_n, .tvalid(s_axis_tvalid[i]), .tready(s_axis_tready[i]), .tdata(data));
  end
  stream_rules #(.WIDTH(12)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(s_axis_tdata));

  logic       started_q = 1'b0;
  wire  [2:0] taken = s_axis_tvalid & s_axis_tready;
  wire        give = m_axis_tvalid && m_axis_tready;

  always_ff @(posedge clk) started_q <= 1'b1;

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      assert (taken == {3{give}});
      // no deadlock: once all are valid, the beat is transferred as soon as the consumer is ready
      assert (m_axis_tvalid == (&s_axis_tvalid));
      assert (!(&s_axis_tvalid) || !m_axis_tready || (&taken));
    end
    cover (started_q && rst_n && s_axis_tvalid == 3'b101 && m_axis_tready);
    cover (started_q && rst_n && give);
  end

endmodule

`default_nettype wire
