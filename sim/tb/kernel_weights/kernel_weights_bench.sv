// SPDX-License-Identifier: Apache-2.0
// kernel_weights with a stream that is read once and one that is read over and over, and separate ports for each.
`default_nettype none

module kernel_weights_bench (
    input  logic        clk,
    input  logic        rst_n,
    input  logic        s_axis_run_tvalid,
    output logic        s_axis_run_tready,
    input  logic [63:0] s_axis_run_x,
    input  logic [63:0] s_axis_run_y,
    input  logic [31:0] s_axis_run_rows,
    input  logic [63:0] s_axis_run_w,
    output logic        m_axis_run_tvalid,
    input  logic        m_axis_run_tready,
    output logic [63:0] m_axis_run_x,
    output logic [63:0] m_axis_run_y,
    output logic [31:0] m_axis_run_rows,
    input  logic        s_axis_done_tvalid,
    output logic        s_axis_done_tready,
    output logic        m_axis_done_tvalid,
    input  logic        m_axis_done_tready,
    input  logic        w0_arrived,
    input  logic        w1_arrived,
    output logic        m_desc0_tvalid,
    input  logic        m_desc0_tready,
    output logic [63:0] m_desc0_address,
    output logic [31:0] m_desc0_beats,
    input  logic        s_w0_tvalid,
    output logic        s_w0_tready,
    output logic        m_w0_tvalid,
    input  logic        m_w0_tready,
    output logic        m_desc1_tvalid,
    input  logic        m_desc1_tready,
    output logic [63:0] m_desc1_address,
    output logic [31:0] m_desc1_beats,
    input  logic        s_w1_tvalid,
    output logic        s_w1_tready,
    output logic        m_w1_tvalid,
    input  logic        m_w1_tready,
    output logic        core_rst_n
);

  kernel_weights #(
      .STREAMS      (2),
      .FIRST        ({32'd64, 32'd0}),
      .BEATS        ({32'd3, 32'd21}),
      .REPEATS      (2'b10),
      .PIECE_BEATS  (4),
      .ONCE_AHEAD   (8),
      .REPEATS_AHEAD(8),
      .RESET_CLOCKS (4)
  ) u_kernel_weights (
      .m_axis_desc_tvalid ({m_desc1_tvalid, m_desc0_tvalid}),
      .m_axis_desc_tready ({m_desc1_tready, m_desc0_tready}),
      .m_axis_desc_address({m_desc1_address, m_desc0_address}),
      .m_axis_desc_beats  ({m_desc1_beats, m_desc0_beats}),
      .arrived            ({w1_arrived, w0_arrived}),
      .s_axis_w_tvalid    ({s_w1_tvalid, s_w0_tvalid}),
      .s_axis_w_tready    ({s_w1_tready, s_w0_tready}),
      .m_axis_w_tvalid    ({m_w1_tvalid, m_w0_tvalid}),
      .m_axis_w_tready    ({m_w1_tready, m_w0_tready}),
      .*
  );

endmodule

`default_nettype wire
