// SPDX-License-Identifier: Apache-2.0
//
// A residual block as it is planned: x -> fork -> convolution (3, 1) -> FIFO -> sum with x, which waits in a FIFO of its own. Images
// of 2 x 4 pixels. The weights are zero, so that every pixel leaves as it came. It never stops, with FIFOs as deep as planned.
`default_nettype none

module rf_residual_proof #(
    parameter int DEPTH_A = 4,  // behind the convolution
    parameter int DEPTH_B = 32  // of x
) (
    input logic clk,
    input logic rst_n,
    input logic mark,
    input logic s_axis_tvalid,
    input logic s_axis_tdata,
    input logic s_axis_tlast,
    input logic m_axis_tready
);

  logic s_axis_tready, m_axis_tvalid, m_axis_tdata, m_axis_tlast;
  logic [1:0] x_tvalid, x_tready;
  logic x_tdata, x_tlast;
  logic w_tvalid, w_tready, w_tlast;
  logic [2:0] w_tdata;
  logic c_tvalid, c_tready, c_tdata, c_tlast;
  logic a_tvalid, a_tready, a_tdata, a_tlast;
  logic b_tvalid, b_tready, b_tdata, b_tlast;
  (* anyconst *) logic [7:0] item;

  rf_fork #(.WIDTH(1), .COUNT(2)) u_rf_fork (
      .clk, .rst_n, .s_axis_tvalid, .s_axis_tready, .s_axis_tdata, .s_axis_tlast, .m_axis_tvalid(x_tvalid),
      .m_axis_tready(x_tready), .m_axis_tdata(x_tdata), .m_axis_tlast(x_tlast)
  );

  rf_window #(
      .H(2), .W(4), .C(1), .LANES(1), .WIDTH(1), .K_H(3), .K_W(1), .PAD_TOP(1), .PAD_LEFT(0), .OUT_H(2), .OUT_W(4), .LINES(4)
  ) u_rf_window (
      .clk, .rst_n, .s_axis_tvalid(x_tvalid[0]), .s_axis_tready(x_tready[0]), .s_axis_tdata(x_tdata), .s_axis_tlast(x_tlast),
      .m_axis_tvalid(w_tvalid), .m_axis_tready(w_tready), .m_axis_tdata(w_tdata), .m_axis_tlast(w_tlast)
  );

  rf_mac #(
      .N_IN(3), .N_OUT(1), .P(3), .Q(1), .X_WIDTH(1), .W_WIDTH(1), .ACC_WIDTH(2), .RESULT_SHIFT(0), .Y_WIDTH(1)
  ) u_rf_mac (
      .clk, .rst_n, .s_axis_tvalid(w_tvalid), .s_axis_tready(w_tready), .s_axis_tdata(w_tdata), .s_axis_tlast(w_tlast),
      .m_axis_tvalid(c_tvalid), .m_axis_tready(c_tready), .m_axis_tdata(c_tdata), .m_axis_tlast(c_tlast)
  );

  axis_fifo #(.WIDTH(2), .DEPTH(DEPTH_A)) u_fifo_a (
      .clk, .rst_n, .s_axis_tvalid(c_tvalid), .s_axis_tready(c_tready), .s_axis_tdata({c_tlast, c_tdata}),
      .m_axis_tvalid(a_tvalid), .m_axis_tready(a_tready), .m_axis_tdata({a_tlast, a_tdata})
  );

  axis_fifo #(.WIDTH(2), .DEPTH(DEPTH_B)) u_fifo_b (
      .clk, .rst_n, .s_axis_tvalid(x_tvalid[1]), .s_axis_tready(x_tready[1]), .s_axis_tdata({x_tlast, x_tdata}),
      .m_axis_tvalid(b_tvalid), .m_axis_tready(b_tready), .m_axis_tdata({b_tlast, b_tdata})
  );

  rf_merge #(.LANES(1), .A_WIDTH(1), .B_WIDTH(1), .Y_WIDTH(1)) u_rf_merge (
      .clk, .rst_n, .s_axis_a_tvalid(a_tvalid), .s_axis_a_tready(a_tready), .s_axis_a_tdata(a_tdata), .s_axis_a_tlast(a_tlast),
      .s_axis_b_tvalid(b_tvalid), .s_axis_b_tready(b_tready), .s_axis_b_tdata(b_tdata), .s_axis_b_tlast(b_tlast),
      .m_axis_tvalid, .m_axis_tready, .m_axis_tdata, .m_axis_tlast
  );

  stage_rules #(
      .IN(8), .OUT(8), .NEED(64'h08_08_08_08_08_07_06_05), .ITEMS(8), .FROM(64'h07_06_05_04_03_02_01_00),
      .AT(64'h07_06_05_04_03_02_01_00), .LAST(1), .MOST(16), .WAIT(22)
  ) u_rules (
      .clk, .rst_n, .mark, .s_valid(s_axis_tvalid), .s_ready(s_axis_tready), .s_last(s_axis_tlast), .m_valid(m_axis_tvalid),
      .m_ready(m_axis_tready), .m_data(m_axis_tdata), .m_last(m_axis_tlast), .excused(1'b0), .item, .s_item(s_axis_tdata),
      .m_item(m_axis_tdata)
  );

endmodule

`default_nettype wire
