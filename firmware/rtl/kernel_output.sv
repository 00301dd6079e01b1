// SPDX-License-Identifier: Apache-2.0
//
// From the core to memory: a skid buffer cuts the path from the core, raw fixed-point rows become rows of
// elements as they travel (axis_fixed_to_wire), rows become beats (axis_row_pack).
`default_nettype none

module kernel_output #(
    // bits of a beat
    parameter int DATA_WIDTH = 512,
    // elements of a row, how they travel, and their raw type; see axis_fixed_to_wire
    parameter int N = 1,
    parameter int WORD_WIDTH = 32,
    parameter int EXPONENT_BITS = 8,
    parameter int WORD_FRACTION = 0,
    parameter bit WORD_SIGNED = 1'b1,
    parameter int ROUNDING = 0,
    parameter int OVERFLOW = 0,
    parameter int WIDTH = 16,
    parameter int FRACTION = 10,
    parameter bit SIGNED = 1'b1,
    parameter logic [16*N-1:0] SCALES = '0
) (
    input  logic clk,
    input  logic rst_n,

    input  logic                  s_axis_tvalid,
    output logic                  s_axis_tready,
    input  logic [   N*WIDTH-1:0] s_axis_tdata,
    input  logic                  s_axis_tlast,

    output logic                  m_axis_tvalid,
    input  logic                  m_axis_tready,
    output logic [DATA_WIDTH-1:0] m_axis_tdata,
    output logic                  m_axis_tlast
);

  logic               y_valid;
  logic               y_ready;
  logic [N*WIDTH-1:0] y_data;
  logic               y_last;

  axis_skid #(
      .WIDTH(1 + N * WIDTH)
  ) u_axis_skid (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(s_axis_tready),
      .s_axis_tdata ({s_axis_tlast, s_axis_tdata}),
      .m_axis_tvalid(y_valid),
      .m_axis_tready(y_ready),
      .m_axis_tdata ({y_last, y_data})
  );

  logic                    result_valid;
  logic                    result_ready;
  logic [N*WORD_WIDTH-1:0] result_data;
  logic                    result_last;

  axis_fixed_to_wire #(
      .N            (N),
      .WORD_WIDTH   (WORD_WIDTH),
      .EXPONENT_BITS(EXPONENT_BITS),
      .WORD_FRACTION(WORD_FRACTION),
      .WORD_SIGNED  (WORD_SIGNED),
      .ROUNDING     (ROUNDING),
      .OVERFLOW     (OVERFLOW),
      .WIDTH        (WIDTH),
      .FRACTION     (FRACTION),
      .SIGNED       (SIGNED),
      .SCALES       (SCALES)
  ) u_axis_fixed_to_wire (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(y_valid),
      .s_axis_tready(y_ready),
      .s_axis_tdata (y_data),
      .s_axis_tlast (y_last),
      .m_axis_tvalid(result_valid),
      .m_axis_tready(result_ready),
      .m_axis_tdata (result_data),
      .m_axis_tlast (result_last)
  );

  axis_row_pack #(
      .WORD_WIDTH(WORD_WIDTH),
      .ROW_WORDS (N),
      .BEAT_WORDS(DATA_WIDTH / WORD_WIDTH)
  ) u_axis_row_pack (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(result_valid),
      .s_axis_tready(result_ready),
      .s_axis_tdata (result_data),
      .s_axis_tlast (result_last),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata (m_axis_tdata),
      .m_axis_tlast (m_axis_tlast)
  );

endmodule

`default_nettype wire
