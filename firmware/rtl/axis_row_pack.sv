// SPDX-License-Identifier: Apache-2.0
//
// Packs rows of ROW_WORDS words into beats of BEAT_WORDS words, without gaps.
//
// The row with tlast ends a run: its words are flushed in a last beat (tlast), with zeros above them, and the next run begins
// in a new beat.
//
//   3 words a row, 4 a beat, 2 rows   rows: [a2 a1 a0] [b2 b1 b0] last   beats: [b0 a2 a1 a0] [0 0 b2 b1] last
//
// A row is taken whenever less than a beat is held: one row per clock or one beat per clock, whichever is slower.
`default_nettype none

module axis_row_pack #(
    // bits of a word
    parameter int WORD_WIDTH = 32,
    // words of a row
    parameter int ROW_WORDS = 1,
    // words of a beat, a power of two
    parameter int BEAT_WORDS = 16
) (
    input  logic clk,
    input  logic rst_n,

    input  logic                             s_axis_tvalid,
    output logic                             s_axis_tready,
    input  logic [ ROW_WORDS*WORD_WIDTH-1:0] s_axis_tdata,
    input  logic                             s_axis_tlast,

    output logic                             m_axis_tvalid,
    input  logic                             m_axis_tready,
    output logic [BEAT_WORDS*WORD_WIDTH-1:0] m_axis_tdata,
    output logic                             m_axis_tlast
);

  if (BEAT_WORDS < 1 || (BEAT_WORDS & (BEAT_WORDS - 1)) != 0) begin : g_check_beat_words
    $error("axis_row_pack %m: BEAT_WORDS is %0d, expected a power of two", BEAT_WORDS);
  end
  if (ROW_WORDS < 1) begin : g_check_row_words
    $error("axis_row_pack %m: ROW_WORDS is %0d, expected at least 1", ROW_WORDS);
  end

  // Words are counted in units of UNIT words, the greatest common divisor of a beat and a row, which is the lowest set bit of
  // either because a beat is a power of two. The buffer is filled and drained by whole units only.
  localparam int UNIT = (BEAT_WORDS | ROW_WORDS) & -(BEAT_WORDS | ROW_WORDS);
  localparam int BEAT_UNITS = BEAT_WORDS / UNIT;
  localparam int ROW_UNITS = ROW_WORDS / UNIT;
  localparam int UNITS = BEAT_UNITS - 1 + ROW_UNITS;  // a row is taken when less than a beat is held
  localparam int UNIT_WIDTH = UNIT * WORD_WIDTH;
  localparam int BEAT_WIDTH = BEAT_WORDS * WORD_WIDTH;
  localparam int WIDTH = UNITS * UNIT_WIDTH;
  localparam int FILL_BITS = $clog2(UNITS + 2);
  localparam int AT_BITS = BEAT_UNITS > 1 ? $clog2(BEAT_UNITS) : 1;
  localparam bit BEAT_AT_MOST = UNITS <= BEAT_UNITS;  // no more than a beat is ever held

  logic [    WIDTH-1:0] held_q;  // zero above the filled units
  logic [FILL_BITS-1:0] fill_q;
  logic                 flush_q;  // the words held are the last of a run
  logic                 valid_q;  // they end a run, or are a beat or more
  // The units that the next row finds held: none if those held end a run, for they leave before it is taken, and otherwise those
  // above whole beats, whether or not one leaves now. So no handshake is on the path that selects the row's place.
  logic [  AT_BITS-1:0] at_q;

  wire ends = flush_q && (BEAT_AT_MOST || fill_q <= FILL_BITS'(BEAT_UNITS));
  wire fits = BEAT_AT_MOST || (flush_q ? ends : 32'(fill_q) < 32'(2 * BEAT_UNITS));  // if a beat leaves, less than one is left
  wire give = valid_q && m_axis_tready;
  wire take = s_axis_tvalid && s_axis_tready;

  wire [FILL_BITS-1:0] filled = FILL_BITS'(at_q) + FILL_BITS'(ROW_UNITS);

  logic [WIDTH-1:0] rest;
  if (WIDTH > BEAT_WIDTH) begin : gen_rest
    assign rest = give ? WIDTH'(held_q[WIDTH-1:BEAT_WIDTH]) : held_q;
  end else begin : gen_no_rest
    assign rest = give ? WIDTH'(0) : held_q;
  end

  // The row at its place. If a row has few units, a bit for each place selects them, which drives no more than a row.
  logic [WIDTH-1:0] placed;
  if (ROW_UNITS <= 8) begin : gen_few
    logic [BEAT_UNITS-1:0] place_q;
    always_ff @(posedge clk) begin
      if (take) place_q <= s_axis_tlast ? BEAT_UNITS'(1) : BEAT_UNITS'({place_q, place_q} >> (BEAT_UNITS - ROW_UNITS % BEAT_UNITS));
      if (!rst_n) place_q <= BEAT_UNITS'(1);
    end
    always_comb begin
      placed = '0;
      for (int p = 0; p < BEAT_UNITS; p++) begin
        for (int i = 0; i < ROW_UNITS; i++) begin
          placed[UNIT_WIDTH*(p+i)+:UNIT_WIDTH] |= s_axis_tdata[UNIT_WIDTH*i+:UNIT_WIDTH] & {UNIT_WIDTH{place_q[p]}};
        end
      end
    end
    always_comb if (rst_n) assert (place_q == BEAT_UNITS'(1) << at_q);
  end else begin : gen_many
    assign placed = WIDTH'(s_axis_tdata) << (32'(at_q) * UNIT_WIDTH);
  end

  always_ff @(posedge clk) begin
    if (take) held_q <= rest | placed;
    else if (give) held_q <= rest;
    if (take) begin
      fill_q  <= filled;
      flush_q <= s_axis_tlast;
      valid_q <= s_axis_tlast || filled >= FILL_BITS'(BEAT_UNITS);
      at_q    <= s_axis_tlast ? '0 : (at_q + AT_BITS'(ROW_UNITS)) & AT_BITS'(BEAT_UNITS - 1);
    end else if (give) begin
      fill_q  <= ends ? '0 : fill_q - FILL_BITS'(BEAT_UNITS);
      flush_q <= flush_q && !ends;
      valid_q <= !fits;
    end
    if (!rst_n) begin
      held_q  <= WIDTH'(0);  // reset like a control flop, because a row is ORed into the words held
      fill_q  <= '0;
      flush_q <= 1'b0;
      valid_q <= 1'b0;
      at_q    <= '0;
    end
  end

  assign s_axis_tready = !valid_q || (m_axis_tready && fits);
  assign m_axis_tvalid = valid_q;
  assign m_axis_tdata  = held_q[BEAT_WIDTH-1:0];
  assign m_axis_tlast  = ends;

  always_comb if (rst_n) assert (valid_q == (flush_q || fill_q >= FILL_BITS'(BEAT_UNITS)));

endmodule

`default_nettype wire
