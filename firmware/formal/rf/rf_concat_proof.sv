// SPDX-License-Identifier: Apache-2.0
//
// rf_concat: two beats of a, then one of b, each once, in this order.
`default_nettype none

module rf_concat_proof (
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
  logic started_q = 1'b0;
  logic [1:0] turn_q;  // beats taken of a turn
  (* anyconst *) logic [7:0] item;
  wire of_b = turn_q == 2'd2;
  wire valid = of_b ? s_axis_b_tvalid : s_axis_a_tvalid;
  wire ready = of_b ? s_axis_b_tready : s_axis_a_tready;
  wire data = of_b ? s_axis_b_tdata : s_axis_a_tdata;

  rf_concat #(.WIDTH(1), .A_BEATS(2), .B_BEATS(1)) u_rf_concat (.*);

  stage_rules #(
      .IN(3), .OUT(3), .NEED(24'h030201), .ITEMS(3), .FROM(24'h020100), .AT(24'h020100), .MOST(2), .WAIT(2)
  ) u_rules (
      .clk, .rst_n, .mark, .s_valid(valid), .s_ready(ready), .s_last(of_b && s_axis_b_tlast), .m_valid(m_axis_tvalid),
      .m_ready(m_axis_tready), .m_data(m_axis_tdata), .m_last(m_axis_tlast), .excused(1'b0), .item, .s_item(data),
      .m_item(m_axis_tdata)
  );

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (valid && ready) turn_q <= of_b ? 2'd0 : turn_q + 1'b1;
    if (!rst_n) turn_q <= 2'd0;
  end

  always_comb if (started_q && rst_n) assert (!(of_b ? s_axis_a_tready : s_axis_b_tready));

endmodule

`default_nettype wire
