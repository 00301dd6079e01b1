// SPDX-License-Identifier: Apache-2.0
//
// rf_merge: a beat of a and one of b are taken together or not at all, and give one beat, with the tlast of a.
`default_nettype none

module rf_merge_proof (
    input logic clk,
    input logic rst_n,
    input logic mark,
    input logic s_axis_a_tvalid,
    input logic s_axis_a_tdata,
    input logic s_axis_a_tlast,
    input logic s_axis_b_tvalid,
    input logic s_axis_b_tdata,
    input logic s_axis_b_tlast,
    input logic m_axis_tready
);

  logic s_axis_a_tready, s_axis_b_tready, m_axis_tvalid, m_axis_tdata, m_axis_tlast;
  wire  both = s_axis_a_tvalid && s_axis_b_tvalid;

  rf_merge #(.LANES(1), .A_WIDTH(1), .B_WIDTH(1), .Y_WIDTH(1)) u_rf_merge (.*);

  stage_rules #(.MOST(8), .WAIT(10)) u_rules (
      .clk, .rst_n, .mark, .s_valid(both), .s_ready(s_axis_a_tready), .s_last(s_axis_a_tlast), .m_valid(m_axis_tvalid),
      .m_ready(m_axis_tready), .m_data(m_axis_tdata), .m_last(m_axis_tlast), .excused(1'b0), .item(8'd0), .s_item(1'b0),
      .m_item(1'b0)
  );

  always_comb if (rst_n) assert ((s_axis_a_tvalid && s_axis_a_tready) == (s_axis_b_tvalid && s_axis_b_tready));

endmodule

`default_nettype wire
