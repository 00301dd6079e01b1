// SPDX-License-Identifier: Apache-2.0
//
// Unpacks beats of BEAT_WORDS words, packed without gaps, into rows of ROW_WORDS words.
//
// Each descriptor is one run: its number of rows, the first of which begins at a beat. The last row of a run has tlast; the rest
// of the run's last beat is dropped, so no word of one run reaches another. Runs follow each other without a pause, but for
// one clock after a run of one beat and one row. A descriptor of 0 rows takes no beat and gives no row.
//
//   3 words a row, 4 a beat, 2 rows   beats: [a2 a1 a0 b0] [.. .. b2 b1]   rows: [a2 a1 a0] [b2 b1 b0] last
//
// A beat is taken only when a row needs it: one beat per clock or one row per clock, whichever is slower, which is
// max(1, ROW_WORDS / BEAT_WORDS) clocks per row. A row is one piece of axis_tensor_unpack.
`default_nettype none

module axis_row_unpack #(
    // bits of a word
    parameter int WORD_WIDTH = 32,
    // words of a beat, a power of two
    parameter int BEAT_WORDS = 16,
    // words of a row
    parameter int ROW_WORDS = 18,
    // bits of a descriptor's number of rows
    parameter int ROWS_WIDTH = 32
) (
    input  logic clk,
    input  logic rst_n,

    input  logic                             s_axis_desc_tvalid,
    output logic                             s_axis_desc_tready,
    input  logic [           ROWS_WIDTH-1:0] s_axis_desc_rows,

    input  logic                             s_axis_tvalid,
    output logic                             s_axis_tready,
    input  logic [BEAT_WORDS*WORD_WIDTH-1:0] s_axis_tdata,

    output logic                             m_axis_tvalid,
    input  logic                             m_axis_tready,
    output logic [ ROW_WORDS*WORD_WIDTH-1:0] m_axis_tdata,
    output logic                             m_axis_tlast,

    // a row is due and its words have not arrived
    output logic                             starved
);

  if (BEAT_WORDS < 1 || (BEAT_WORDS & (BEAT_WORDS - 1)) != 0) begin : g_check_beat_words
    $error("axis_row_unpack %m: BEAT_WORDS is %0d, expected a power of two", BEAT_WORDS);
  end
  if (ROW_WORDS < 1) begin : g_check_row_words
    $error("axis_row_unpack %m: ROW_WORDS is %0d, expected at least 1", ROW_WORDS);
  end

  axis_tensor_unpack #(
      .WORD_WIDTH (WORD_WIDTH),
      .BEAT_WORDS (BEAT_WORDS),
      .TENSORS    (1),
      .PIECE_WORDS(32'(ROW_WORDS)),
      .PIECES     (32'd1),
      .MOST_WORDS (ROW_WORDS),
      .ROWS_WIDTH (ROWS_WIDTH)
  ) u_axis_tensor_unpack (
      .clk               (clk),
      .rst_n             (rst_n),
      .s_axis_desc_tvalid(s_axis_desc_tvalid),
      .s_axis_desc_tready(s_axis_desc_tready),
      .s_axis_desc_rows  (s_axis_desc_rows),
      .s_axis_tvalid     (s_axis_tvalid),
      .s_axis_tready     (s_axis_tready),
      .s_axis_tdata      (s_axis_tdata),
      .m_axis_tvalid     (m_axis_tvalid),
      .m_axis_tready     (m_axis_tready),
      .m_axis_tdata      (m_axis_tdata),
      .m_axis_tlast      (m_axis_tlast),
      .starved           (starved)
  );

endmodule

`default_nettype wire
