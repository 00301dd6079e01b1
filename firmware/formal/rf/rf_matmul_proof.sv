// SPDX-License-Identifier: Apache-2.0
//
// rf_matmul: a matrix of two beats is multiplied with two vectors of two beats, and each vector gives one beat. A result waits for
// its vector and for the matrix.
`default_nettype none

module rf_matmul_proof (
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

  rf_matmul #(
      .N_IN(2), .N_OUT(1), .P(1), .Q(1), .VECTORS(2), .X_WIDTH(1), .W_WIDTH(1), .ACC_WIDTH(2), .RESULT_SHIFT(0), .Y_WIDTH(1)
  ) u_rf_matmul (.*);

  stage_rules #(.IN(2), .MOST(16), .WAIT(16)) u_vectors (
      .clk, .rst_n, .mark, .s_valid(s_axis_a_tvalid), .s_ready(s_axis_a_tready), .s_last(s_axis_a_tlast),
      .m_valid(m_axis_tvalid), .m_ready(m_axis_tready), .m_data(m_axis_tdata), .m_last(m_axis_tlast),
      .excused(s_axis_b_tready && !s_axis_b_tvalid), .item(8'd0), .s_item(1'b0), .m_item(1'b0)
  );

  stage_rules #(.IN(2), .OUT(2), .LAST(2), .MOST(8), .WAIT(16)) u_matrices (
      .clk, .rst_n, .mark, .s_valid(s_axis_b_tvalid), .s_ready(s_axis_b_tready), .s_last(s_axis_b_tlast),
      .m_valid(m_axis_tvalid), .m_ready(m_axis_tready), .m_data(m_axis_tdata), .m_last(m_axis_tlast),
      .excused(s_axis_a_tready && !s_axis_a_tvalid), .item(8'd0), .s_item(1'b0), .m_item(1'b0)
  );

endmodule

`default_nettype wire
