// SPDX-License-Identifier: Apache-2.0
//
// Offers each beat of one stream to N consumers. Each takes it when it is ready, and the next beat follows when all have taken
// this one. The data need no port here, because every consumer reads the producer's.
`default_nettype none

module axis_broadcast #(
    // consumers
    parameter int N = 2
) (
    input  logic         clk,
    input  logic         rst_n,

    input  logic         s_axis_tvalid,
    output logic         s_axis_tready,

    output logic [N-1:0] m_axis_tvalid,
    input  logic [N-1:0] m_axis_tready
);

  if (N < 1) begin : g_check_n
    $error("axis_broadcast %m: N is %0d, expected at least 1", N);
  end

  logic [N-1:0] taken_q;

  wire [N-1:0] taken = taken_q | (m_axis_tvalid & m_axis_tready);

  assign m_axis_tvalid = {N{s_axis_tvalid}} & ~taken_q;
  assign s_axis_tready = &(taken_q | m_axis_tready);

  always_ff @(posedge clk) begin
    taken_q <= (s_axis_tvalid && s_axis_tready) ? '0 : taken;
    if (!rst_n) taken_q <= '0;
  end

endmodule

`default_nettype wire
