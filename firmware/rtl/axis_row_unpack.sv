// SPDX-License-Identifier: Apache-2.0
//
// Unpacks beats of BEAT_WORDS words, packed without gaps, into rows of ROW_WORDS words.
//
// Each descriptor is one run: its number of rows, the first of which begins at a beat. The last row of a run has tlast; the rest
// of the run's last beat is dropped, so no word of one run reaches another. Runs follow each other without a pause. A descriptor
// of 0 rows takes no beat and gives no row.
//
//   3 words a row, 4 a beat, 2 rows   beats: [a2 a1 a0 b0] [.. .. b2 b1]   rows: [a2 a1 a0] [b2 b1 b0] last
//
// A beat is taken only when the current row needs it: one beat per clock or one row per clock, whichever is slower, which is
// max(1, ROW_WORDS / BEAT_WORDS) clocks per row.
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

  // Words are counted in units of UNIT words, the greatest common divisor of a beat and a row, which is the lowest set bit of
  // either because a beat is a power of two. The buffer is filled and drained by whole units only.
  localparam int UNIT = (BEAT_WORDS | ROW_WORDS) & -(BEAT_WORDS | ROW_WORDS);
  localparam int BEAT_UNITS = BEAT_WORDS / UNIT;
  localparam int ROW_UNITS = ROW_WORDS / UNIT;
  localparam int UNITS = ROW_UNITS - 1 + BEAT_UNITS;  // a beat is taken when less than a row is held
  localparam int UNIT_WIDTH = UNIT * WORD_WIDTH;
  localparam int ROW_WIDTH = ROW_WORDS * WORD_WIDTH;
  localparam int WIDTH = UNITS * UNIT_WIDTH;
  localparam int FILL_BITS = $clog2(UNITS + 2);

  logic [     WIDTH-1:0] held_q;  // zero above the filled units
  logic [ FILL_BITS-1:0] fill_q;
  logic                  active_q;  // rows of a run are still due
  logic                  last_q;  // the current row is the last of its run
  logic [ROWS_WIDTH-1:0] left_q;  // rows due, including the current one

  wire whole = fill_q >= FILL_BITS'(ROW_UNITS);
  wire give = m_axis_tvalid && m_axis_tready;
  wire finish = give && last_q;
  wire start = s_axis_desc_tvalid && s_axis_desc_tready && s_axis_desc_rows != '0;

  wire [FILL_BITS-1:0] kept = finish ? '0 : give ? fill_q - FILL_BITS'(ROW_UNITS) : fill_q;
  wire                 take = s_axis_tvalid && s_axis_tready;

  logic [WIDTH-1:0] rest;
  if (WIDTH > ROW_WIDTH) begin : gen_rest
    assign rest = finish ? WIDTH'(0) : give ? WIDTH'(held_q[WIDTH-1:ROW_WIDTH]) : held_q;
  end else begin : gen_no_rest
    assign rest = give ? WIDTH'(0) : held_q;
  end

  always_ff @(posedge clk) begin
    if (take) held_q <= rest | (WIDTH'(s_axis_tdata) << (32'(kept) * UNIT_WIDTH));
    else if (give) held_q <= rest;
    fill_q <= kept + (take ? FILL_BITS'(BEAT_UNITS) : '0);
    if (start) begin
      active_q <= 1'b1;
      last_q   <= s_axis_desc_rows == ROWS_WIDTH'(1);
      left_q   <= s_axis_desc_rows;
    end else if (give) begin
      active_q <= !last_q;
      last_q   <= left_q == ROWS_WIDTH'(2);
      left_q   <= left_q - 1'b1;
    end
    if (!rst_n) begin
      held_q   <= WIDTH'(0);  // reset like a control flop, because a beat is ORed into the words held
      fill_q   <= '0;
      active_q <= 1'b0;
    end
  end

  assign s_axis_desc_tready = !active_q || finish;
  assign s_axis_tready      = kept < FILL_BITS'(ROW_UNITS);
  assign m_axis_tvalid      = active_q && whole;
  assign m_axis_tdata       = held_q[ROW_WIDTH-1:0];
  assign m_axis_tlast       = last_q;
  assign starved            = active_q && !whole;

endmodule

`default_nettype wire
