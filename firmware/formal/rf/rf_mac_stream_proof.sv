// SPDX-License-Identifier: Apache-2.0
//
// rf_mac_stream: a vector of two beats and two words of weights give one beat, once the bias, two beats of the load stream, is there.
`default_nettype none

module rf_mac_stream_proof (
    input logic clk,
    input logic rst_n,
    input logic mark,
    input logic s_axis_tvalid,
    input logic s_axis_tdata,
    input logic s_axis_tlast,
    input logic s_axis_w_tvalid,
    input logic s_axis_w_tdata,
    input logic s_load_tvalid,
    input logic s_load_tdata,
    input logic m_axis_tready,
    input logic m_load_tready
);

  logic s_axis_tready, s_axis_w_tready, s_load_tready, m_axis_tvalid, m_axis_tdata, m_axis_tlast, m_load_tvalid, m_load_tdata;
  logic started_q = 1'b0;
  logic [1:0] loads_q;  // beats of the bias
  wire loaded = loads_q == 2'd2;

  rf_mac_stream #(
      .N_IN(2), .N_OUT(1), .P(1), .Q(1), .X_WIDTH(1), .W_WIDTH(1), .ACC_WIDTH(2), .RESULT_SHIFT(0), .Y_WIDTH(1), .LOAD_WIDTH(1)
  ) u_rf_mac_stream (.*);

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (s_load_tvalid && s_load_tready && !loaded) loads_q <= loads_q + 1'b1;
    if (!rst_n) loads_q <= '0;
  end

  stage_rules #(.IN(2), .MOST(16), .WAIT(16)) u_vectors (
      .clk, .rst_n, .mark, .s_valid(s_axis_tvalid), .s_ready(s_axis_tready), .s_last(s_axis_tlast), .m_valid(m_axis_tvalid),
      .m_ready(m_axis_tready), .m_data(m_axis_tdata), .m_last(m_axis_tlast), .excused(!loaded || !s_axis_w_tvalid), .item(8'd0),
      .s_item(1'b0), .m_item(1'b0)
  );

  stage_rules #(.IN(2), .LAST(2), .MOST(16), .WAIT(16)) u_weights (
      .clk, .rst_n, .mark, .s_valid(s_axis_w_tvalid), .s_ready(s_axis_w_tready), .s_last(1'b0), .m_valid(m_axis_tvalid),
      .m_ready(m_axis_tready), .m_data(m_axis_tdata), .m_last(m_axis_tlast),
      .excused(!loaded || (s_axis_tready && !s_axis_tvalid)), .item(8'd0), .s_item(1'b0), .m_item(1'b0)
  );

  always_comb if (started_q && rst_n && m_axis_tvalid) assert (loaded);

endmodule

`default_nettype wire
