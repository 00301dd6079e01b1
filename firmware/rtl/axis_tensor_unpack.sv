// SPDX-License-Identifier: Apache-2.0
//
// Unpacks beats of BEAT_WORDS words, packed without gaps, into rows that leave in pieces: the pieces of tensor 0, all of one
// size, then those of tensor 1, of another size, and so on; then the next row. A piece is in the low bits of m_axis_tdata; the
// bits above it have any value.
//
// Each descriptor is one run: its number of rows, the first of which begins at a beat. The last piece of a run's last row has
// tlast; the rest of the run's last beat is dropped, so no word of one run reaches another. Runs follow each other without a
// pause. A descriptor of 0 rows takes no beat and gives nothing. axis_row_unpack does the same for whole rows.
//
//   4 words a beat, a row is 2 pieces of 3 words, then 2 of 1   beats: [a3 a2 a1 a0] [b1 b0 a5 a4]
//   1 row                                                       pieces: [a2 a1 a0] [a5 a4 a3] [b0] [b1] last
//
// A beat is taken only when the current piece needs it: one beat per clock or one piece per clock, whichever is slower.
`default_nettype none

module axis_tensor_unpack #(
    // bits of a word
    parameter int WORD_WIDTH = 32,
    // words of a beat, a power of two
    parameter int BEAT_WORDS = 16,
    parameter int TENSORS = 2,
    // 32 bits for each tensor, tensor 0 in the low bits: words of a piece, and pieces of a row
    parameter logic [32*TENSORS-1:0] PIECE_WORDS = {TENSORS{32'd1}},
    parameter logic [32*TENSORS-1:0] PIECES = {TENSORS{32'd2}},
    // words of the largest piece
    parameter int MOST_WORDS = 1,
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
    output logic [MOST_WORDS*WORD_WIDTH-1:0] m_axis_tdata,
    output logic                             m_axis_tlast,

    // a piece is due and its words have not arrived
    output logic                             starved
);

  function automatic int any_bits(input logic [32*TENSORS-1:0] numbers);
    any_bits = 0;
    for (int t = 0; t < TENSORS; t++) any_bits = any_bits | 32'(numbers[32*t+:32]);
  endfunction

  if (BEAT_WORDS < 1 || (BEAT_WORDS & (BEAT_WORDS - 1)) != 0) begin : g_check_beat_words
    $error("axis_tensor_unpack %m: BEAT_WORDS is %0d, expected a power of two", BEAT_WORDS);
  end
  for (genvar t = 0; t < TENSORS; t++) begin : gen_check
    if (PIECE_WORDS[32*t+:32] == '0 || PIECE_WORDS[32*t+:32] > 32'(MOST_WORDS)) begin : g_check_piece_words
      $error("axis_tensor_unpack %m: PIECE_WORDS of tensor %0d is %0d, expected 1 to MOST_WORDS, %0d", t,
             PIECE_WORDS[32*t+:32], MOST_WORDS);
    end
  end

  // Words are counted in units of UNIT words, the greatest common divisor of a beat and all pieces, which is the lowest bit set in
  // any of them because a beat is a power of two. The buffer is filled and drained by whole units only.
  localparam int ANY = BEAT_WORDS | any_bits(PIECE_WORDS);
  localparam int UNIT = ANY & -ANY;
  localparam int BEAT_UNITS = BEAT_WORDS / UNIT;
  localparam int UNITS = MOST_WORDS / UNIT - 1 + BEAT_UNITS;  // a beat is taken when less than a piece is held
  localparam int UNIT_WIDTH = UNIT * WORD_WIDTH;
  localparam int WIDTH = UNITS * UNIT_WIDTH;
  localparam int FILL_BITS = $clog2(UNITS + 2);

  logic [     WIDTH-1:0] held_q;  // zero above the filled units
  logic [ FILL_BITS-1:0] fill_q;
  logic                  active_q;  // rows of a run are still due
  logic                  last_q;  // the current row is the last of its run
  logic [ROWS_WIDTH-1:0] left_q;  // rows due, including the current one

  logic [   TENSORS-1:0] turn;
  logic                  ends;
  logic                  give;

  tensor_turns #(
      .N    (TENSORS),
      .BEATS(PIECES)
  ) u_tensor_turns (
      .clk  (clk),
      .rst_n(rst_n),
      .step (give),
      .turn (turn),
      .ends (ends)
  );

  // Values for the tensor whose turn it is; zero or false for the others
  logic [TENSORS-1:0] is_whole;
  logic [TENSORS-1:0] is_short;  // the next piece will need a beat
  logic [FILL_BITS-1:0] less [TENSORS];
  logic [WIDTH-1:0] behind [TENSORS];

  for (genvar t = 0; t < TENSORS; t++) begin : gen_tensor
    localparam int PIECE = int'(PIECE_WORDS[32*t+:32]) / UNIT;
    localparam int NEXT = int'(PIECE_WORDS[32*((t+1)%TENSORS)+:32]) / UNIT;
    assign is_whole[t] = turn[t] && fill_q >= FILL_BITS'(PIECE);
    assign is_short[t] = turn[t] && 32'(fill_q) < (ends ? 32'(PIECE + NEXT) : 32'(2 * PIECE));
    assign less[t] = turn[t] ? fill_q - FILL_BITS'(PIECE) : '0;
    assign behind[t] = turn[t] ? held_q >> (PIECE * UNIT_WIDTH) : '0;
  end

  logic [FILL_BITS-1:0] given_fill;  // the fill after a piece has been given
  logic [    WIDTH-1:0] given_held;

  always_comb begin
    given_fill = '0;
    given_held = '0;
    for (int t = 0; t < TENSORS; t++) begin
      given_fill = given_fill | less[t];
      given_held = given_held | behind[t];
    end
  end

  wire whole = is_whole != '0;
  wire row_ends = turn[TENSORS-1] && ends;
  wire finish = give && m_axis_tlast;
  wire start = s_axis_desc_tvalid && s_axis_desc_tready && s_axis_desc_rows != '0;
  wire take = s_axis_tvalid && s_axis_tready;

  wire [FILL_BITS-1:0] kept = finish ? '0 : give ? given_fill : fill_q;
  wire [    WIDTH-1:0] rest = finish ? '0 : give ? given_held : held_q;

  assign give = m_axis_tvalid && m_axis_tready;

  always_ff @(posedge clk) begin
    if (take) held_q <= rest | (WIDTH'(s_axis_tdata) << (32'(kept) * UNIT_WIDTH));
    else if (give) held_q <= rest;
    fill_q <= kept + (take ? FILL_BITS'(BEAT_UNITS) : '0);
    if (start) begin
      active_q <= 1'b1;
      last_q   <= s_axis_desc_rows == ROWS_WIDTH'(1);
      left_q   <= s_axis_desc_rows;
    end else if (give && row_ends) begin
      active_q <= !last_q;
      last_q   <= left_q == ROWS_WIDTH'(2);
      left_q   <= left_q - 1'b1;
    end
    if (!rst_n) begin
      held_q   <= '0;  // reset like a control flop, because a beat is ORed into the words held
      fill_q   <= '0;
      active_q <= 1'b0;
    end
  end

  assign s_axis_desc_tready = !active_q || finish;
  assign s_axis_tready      = give ? m_axis_tlast || is_short != '0 : !whole;
  assign m_axis_tvalid      = active_q && whole;
  assign m_axis_tdata       = held_q[MOST_WORDS*WORD_WIDTH-1:0];
  assign m_axis_tlast       = last_q && row_ends;
  assign starved            = active_q && !whole;

endmodule

`default_nettype wire
