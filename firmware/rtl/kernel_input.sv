// SPDX-License-Identifier: Apache-2.0
//
// From memory to the core: beats become rows of elements as they travel (axis_row_unpack), those raw fixed-point rows
// (axis_wire_to_fixed), and a skid buffer cuts the path to the core.
`default_nettype none

module kernel_input #(
    // bits of a beat
    parameter int DATA_WIDTH = 512,
    // elements of a row, how they travel, and their raw type; see axis_wire_to_fixed
    parameter int N = 18,
    parameter int WORD_WIDTH = 32,
    parameter int EXPONENT_BITS = 8,
    parameter int WORD_FRACTION = 0,
    parameter bit WORD_SIGNED = 1'b1,
    parameter int WIDTH = 16,
    parameter int FRACTION = 10,
    parameter bit SIGNED = 1'b1,
    parameter int ROUNDING = 0,
    parameter int OVERFLOW = 0,
    parameter logic [16*N-1:0] SCALES = '0
) (
    input  logic clk,
    input  logic rst_n,

    input  logic                  s_axis_desc_tvalid,
    output logic                  s_axis_desc_tready,
    input  logic [          31:0] s_axis_desc_rows,

    input  logic                  s_axis_tvalid,
    output logic                  s_axis_tready,
    input  logic [DATA_WIDTH-1:0] s_axis_tdata,

    output logic                  m_axis_tvalid,
    input  logic                  m_axis_tready,
    output logic [   N*WIDTH-1:0] m_axis_tdata,
    output logic                  m_axis_tlast,

    // a row is due and its words have not come; a row waits for the core
    output logic                  starved,
    output logic                  blocked
);

  logic                    row_valid;
  logic                    row_ready;
  logic [N*WORD_WIDTH-1:0] row_data;
  logic                    row_last;

  axis_row_unpack #(
      .WORD_WIDTH(WORD_WIDTH),
      .BEAT_WORDS(DATA_WIDTH / WORD_WIDTH),
      .ROW_WORDS (N),
      .ROWS_WIDTH(32)
  ) u_axis_row_unpack (
      .clk               (clk),
      .rst_n             (rst_n),
      .s_axis_desc_tvalid(s_axis_desc_tvalid),
      .s_axis_desc_tready(s_axis_desc_tready),
      .s_axis_desc_rows  (s_axis_desc_rows),
      .s_axis_tvalid     (s_axis_tvalid),
      .s_axis_tready     (s_axis_tready),
      .s_axis_tdata      (s_axis_tdata),
      .m_axis_tvalid     (row_valid),
      .m_axis_tready     (row_ready),
      .m_axis_tdata      (row_data),
      .m_axis_tlast      (row_last),
      .starved           (starved)
  );

  logic               x_valid;
  logic               x_ready;
  logic [N*WIDTH-1:0] x_data;
  logic               x_last;

  axis_wire_to_fixed #(
      .N            (N),
      .WORD_WIDTH   (WORD_WIDTH),
      .EXPONENT_BITS(EXPONENT_BITS),
      .WORD_FRACTION(WORD_FRACTION),
      .WORD_SIGNED  (WORD_SIGNED),
      .WIDTH        (WIDTH),
      .FRACTION     (FRACTION),
      .SIGNED       (SIGNED),
      .ROUNDING     (ROUNDING),
      .OVERFLOW     (OVERFLOW),
      .SCALES       (SCALES)
  ) u_axis_wire_to_fixed (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(row_valid),
      .s_axis_tready(row_ready),
      .s_axis_tdata (row_data),
      .s_axis_tlast (row_last),
      .m_axis_tvalid(x_valid),
      .m_axis_tready(x_ready),
      .m_axis_tdata (x_data),
      .m_axis_tlast (x_last)
  );

  axis_skid #(
      .WIDTH(1 + N * WIDTH)
  ) u_axis_skid (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(x_valid),
      .s_axis_tready(x_ready),
      .s_axis_tdata ({x_last, x_data}),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata ({m_axis_tlast, m_axis_tdata})
  );

  assign blocked = row_valid && !row_ready;

endmodule

`default_nettype wire
