// SPDX-License-Identifier: Apache-2.0
//
// rf_mean: one mean for each vector of two beats, after all of it, within its latency. It cannot be stalled.
`default_nettype none

module rf_mean_proof (
    input logic       clk,
    input logic       rst_n,
    input logic       mark,
    input logic       take,
    input logic [1:0] x
);

  logic mean_valid;
  logic [1:0] mean;

  rf_mean #(.LANES(1), .BEATS(2), .WIDTH(2), .FRACTION(0), .SHARE(1), .OVERFLOW(ap_fixed_pkg::SAT)) u_rf_mean (.*);

  stage_rules #(.IN(2), .WIDTH(2), .LAST(2), .STALLS(1'b0), .MOST(5), .WAIT(8)) u_rules (
      .clk, .rst_n, .mark, .s_valid(take), .s_ready(1'b1), .s_last(1'b0), .m_valid(mean_valid), .m_ready(1'b1), .m_data(mean),
      .m_last(1'b0), .excused(1'b0), .item(8'd0), .s_item(1'b0), .m_item(1'b0)
  );

endmodule

`default_nettype wire
