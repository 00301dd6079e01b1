// SPDX-License-Identifier: Apache-2.0
//
// axis_row_unpack: rows of one piece (unpack_rules.sv), of the sizes in proofs.toml.
`default_nettype none

module axis_row_unpack_proof #(
    parameter int BEAT_WORDS = 4,
    parameter int ROW_WORDS = 3,
    parameter int WORD_WIDTH = 2
) (
    input logic                             clk,
    input logic                             rst_n,
    input logic                             s_axis_desc_tvalid,
    input logic [                      2:0] s_axis_desc_rows,
    input logic                             s_axis_tvalid,
    input logic [BEAT_WORDS*WORD_WIDTH-1:0] s_axis_tdata,
    input logic                             m_axis_tready,
    input logic                             mark,
    input logic [                      3:0] mark_place
);

  localparam int UNIT = (BEAT_WORDS | ROW_WORDS) & -(BEAT_WORDS | ROW_WORDS);
  localparam int UNITS = (ROW_WORDS + BEAT_WORDS) / UNIT - 1;
  localparam int HELD_WIDTH = UNITS * UNIT * WORD_WIDTH;

  logic                            s_axis_desc_tready;
  logic                            s_axis_tready;
  logic                            m_axis_tvalid;
  logic [ROW_WORDS*WORD_WIDTH-1:0] m_axis_tdata;
  logic                            m_axis_tlast;
  logic                            starved;

  axis_row_unpack #(
      .WORD_WIDTH(WORD_WIDTH),
      .BEAT_WORDS(BEAT_WORDS),
      .ROW_WORDS (ROW_WORDS),
      .ROWS_WIDTH(3)
  ) u_axis_row_unpack (.*);

  (* inner = "u_axis_row_unpack.held_q" *) wire [HELD_WIDTH-1:0] inner_held;
  (* inner = "u_axis_row_unpack.fill_q" *) wire [$clog2(UNITS + 2)-1:0] inner_fill;
  (* inner = "u_axis_row_unpack.active_q" *) wire inner_active;
  (* inner = "u_axis_row_unpack.last_q" *) wire inner_last;
  (* inner = "u_axis_row_unpack.left_q" *) wire [2:0] inner_left;

  unpack_rules #(
      .BEAT_WORDS(BEAT_WORDS),
      .A         (ROW_WORDS),
      .WORD_WIDTH(WORD_WIDTH),
      .MOST      (ROW_WORDS),
      .UNIT      (UNIT),
      .UNITS     (UNITS)
  ) u_rules (
      .*,
      .piece_q()
  );

endmodule

`default_nettype wire
