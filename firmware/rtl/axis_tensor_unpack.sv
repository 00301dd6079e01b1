// SPDX-License-Identifier: Apache-2.0
//
// Unpacks beats of BEAT_WORDS words, packed without gaps, into rows that leave in pieces: the pieces of tensor 0, all of one
// size, then those of tensor 1, of another size, and so on; then the next row. A piece is in the low bits of m_axis_tdata; the
// bits above it have any value.
//
// Each descriptor is one run: its number of rows, the first of which begins at a beat. The last piece of a run's last row has
// tlast; the rest of the run's last beat is dropped, so no word of one run reaches another. Runs follow each other without a
// pause, but for one clock after a run of one beat and one piece. A descriptor of 0 rows takes no beat and gives nothing.
// axis_row_unpack does the same for whole rows.
//
//   4 words a beat, a row is 2 pieces of 3 words, then 2 of 1   beats: [a3 a2 a1 a0] [b1 b0 a5 a4]
//   1 row                                                       pieces: [a2 a1 a0] [a5 a4 a3] [b0] [b1] last
//
// A beat is taken only when a piece needs it: one beat per clock or one piece per clock, whichever is slower.
//
//   descriptors --> plan -- steps --> rotate, in stages --> FIFO --> words held --> pieces
//   beats ----------'
//
// The plan knows how many words will be held at every step, before the pieces are given. A step takes a beat, completes a piece,
// or both. The beat is rotated to the places of its words, in free-running stages of one 4:1 multiplexer each; then each word is
// written where it belongs. So no logic is between a handshake and a wide multiplexer, and a piece follows its last beat after
// three clocks and the stages.
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
  // any of them because a beat is a power of two. The words held are filled and drained by whole units only.
  localparam int ANY = BEAT_WORDS | any_bits(PIECE_WORDS);
  localparam int UNIT = ANY & -ANY;
  localparam int BEAT_UNITS = BEAT_WORDS / UNIT;
  localparam int MOST_UNITS = MOST_WORDS / UNIT;
  localparam int UNITS = MOST_UNITS - 1 + BEAT_UNITS;  // a beat is taken when less than a piece is held
  localparam int UNIT_WIDTH = UNIT * WORD_WIDTH;
  localparam int BEAT_WIDTH = BEAT_WORDS * WORD_WIDTH;
  localparam int FILL_BITS = $clog2(UNITS + 2);
  localparam int ROTATE_BITS = $clog2(BEAT_UNITS);
  localparam int STAGES = ROTATE_BITS > 2 ? (ROTATE_BITS + 1) / 2 : 1;

  // Plan: a step is taken when its beat is there, if it needs one
  logic                  active_q;  // pieces of a run are still to be planned
  logic                  final_q;  // the row to be planned is the last of its run
  logic [ROWS_WIDTH-1:0] left_q;  // rows to be planned, including the current one
  logic [ FILL_BITS-1:0] kept_q;  // units held when the pieces planned have been given
  logic                  needs_q;  // they are less than a piece: the step takes a beat
  logic                  fills_q;  // with a beat they are a piece: the step completes it

  logic [TENSORS-1:0] turn;  // the tensor of the piece
  logic               ends;  // it is the last of that tensor
  logic               room;
  wire                piece = fills_q;
  wire                able = active_q && (!needs_q || s_axis_tvalid);
  wire                step = able && room;
  wire                last = final_q && turn[TENSORS-1] && ends;
  wire                row = step && piece && turn[TENSORS-1] && ends;  // the last piece of a row is planned

  // The next run is taken ahead, so that the end of a run is not on the path to the queue of descriptors
  logic                  next_q;
  logic [ROWS_WIDTH-1:0] next_rows_q;
  wire                   idle = !active_q || (row && final_q);  // or it ends in this clock

  tensor_turns #(
      .N    (TENSORS),
      .BEATS(PIECES)
  ) u_tensor_turns (
      .clk  (clk),
      .rst_n(rst_n),
      .step (step && piece),
      .turn (turn),
      .ends (ends)
  );

  // Values for the tensor whose turn it is; zero for the others
  logic [TENSORS-1:0] short_with;  // after a beat that completes the piece, less than the next piece is held
  logic [TENSORS-1:0] short_without;  // the same when no beat was needed
  logic [TENSORS-1:0] fills_with;  // then a beat completes the next piece
  logic [TENSORS-1:0] fills_without;
  logic [TENSORS-1:0] fills_after;  // after a beat that does not complete the piece, another one does
  logic [FILL_BITS-1:0] with_beat [TENSORS];  // the units held then
  logic [FILL_BITS-1:0] without[TENSORS];

  for (genvar t = 0; t < TENSORS; t++) begin : gen_tensor
    localparam int PIECE = int'(PIECE_WORDS[32*t+:32]) / UNIT;
    localparam int AFTER = int'(PIECE_WORDS[32*((t+1)%TENSORS)+:32]) / UNIT;
    wire [31:0] held = 32'(kept_q);
    wire [31:0] both = 32'(PIECE + (ends ? AFTER : PIECE));  // this piece and the next
    assign short_with[t]    = turn[t] && held + 32'(BEAT_UNITS) < both;
    assign short_without[t] = turn[t] && held < both;
    assign fills_with[t]    = turn[t] && held + 32'(2 * BEAT_UNITS) >= both;
    assign fills_without[t] = turn[t] && held + 32'(BEAT_UNITS) >= both;
    assign fills_after[t]   = turn[t] && held + 32'(2 * BEAT_UNITS) >= 32'(PIECE);
    assign with_beat[t]     = turn[t] ? kept_q + FILL_BITS'(BEAT_UNITS) - FILL_BITS'(PIECE) : '0;
    assign without[t]       = turn[t] ? kept_q - FILL_BITS'(PIECE) : '0;
  end

  logic [FILL_BITS-1:0] next_with;
  logic [FILL_BITS-1:0] next_without;

  always_comb begin
    next_with    = '0;
    next_without = '0;
    for (int t = 0; t < TENSORS; t++) begin
      next_with    = next_with | with_beat[t];
      next_without = next_without | without[t];
    end
  end

  localparam bit FIRST_FILLS = BEAT_WORDS >= int'(PIECE_WORDS[31:0]);  // a run's first beat completes a piece

  always_ff @(posedge clk) begin
    if (step) begin
      if (piece && last) begin
        kept_q  <= '0;
        needs_q <= 1'b1;
        fills_q <= FIRST_FILLS;
      end else begin
        kept_q  <= !needs_q ? next_without : piece ? next_with : kept_q + FILL_BITS'(BEAT_UNITS);
        needs_q <= !piece || (needs_q ? short_with != '0 : short_without != '0);
        fills_q <= !needs_q ? fills_without != '0 : piece ? fills_with != '0 : fills_after != '0;
      end
    end
    next_q <= next_q ? !idle : s_axis_desc_tvalid && s_axis_desc_rows != '0;
    if (!next_q) next_rows_q <= s_axis_desc_rows;
    if (!active_q || row) begin
      if (!active_q || final_q) begin
        active_q <= next_q;
        final_q  <= next_rows_q == ROWS_WIDTH'(1);
        left_q   <= next_rows_q;
      end else begin
        final_q <= left_q == ROWS_WIDTH'(2);
        left_q  <= left_q - 1'b1;
      end
    end
    if (!rst_n) begin
      next_q   <= 1'b0;
      active_q <= 1'b0;
      kept_q   <= '0;
      needs_q  <= 1'b1;
      fills_q  <= FIRST_FILLS;
    end
  end

  assign s_axis_desc_tready = !next_q;
  assign s_axis_tready      = active_q && needs_q && room;

  // Rotation: unit i of the beat goes to lane (kept + i) % BEAT_UNITS. `into` has the places that a step with a beat writes: a bit
  // for each below the last unit of the largest piece. Those above are always written, because what is above the units held has
  // any value; they share COPIES bits, so that none drives all of them.
  localparam int COPIES = BEAT_UNITS < 4 ? BEAT_UNITS : 4;
  localparam int INTO_WIDTH = MOST_UNITS - 1 + COPIES;

  function automatic logic [INTO_WIDTH-1:0] places(input logic [FILL_BITS-1:0] kept);
    places = '1;
    for (int i = 0; i < MOST_UNITS - 1; i++) places[i] = kept <= FILL_BITS'(i);
  endfunction

  for (genvar s = 0; s < STAGES; s++) begin : gen_stage
    wire  [ FILL_BITS-1:0] kept;
    wire  [     TENSORS:0] flags;
    wire                   loads;  // the step takes a beat
    wire  [BEAT_WIDTH-1:0] beat;
    wire  [           1:0] by;  // in units of 4**s lanes
    logic [     TENSORS:0] flags_q;
    logic [BEAT_WIDTH-1:0] beat_q;

    if (s == 0) begin : gen_from
      assign {kept, loads} = {kept_q, needs_q};
      assign {flags, beat} = {turn, piece, s_axis_tdata};
    end else begin : gen_from
      logic [FILL_BITS-1:0] stage_kept_q;
      logic                 stage_loads_q;
      always_ff @(posedge clk) {stage_kept_q, stage_loads_q} <= {gen_stage[s-1].kept, gen_stage[s-1].loads};
      assign {kept, loads} = {stage_kept_q, stage_loads_q};
      assign {flags, beat} = {gen_stage[s-1].flags_q, gen_stage[s-1].beat_q};
    end

    if (ROTATE_BITS >= 2 * s + 2) begin : gen_by
      assign by = kept[2*s+:2];
    end else if (ROTATE_BITS == 2 * s + 1) begin : gen_by
      assign by = {1'b0, kept[2*s]};
    end else begin : gen_by
      assign by = 2'd0;
    end

    always_ff @(posedge clk) flags_q <= flags;

    for (genvar i = 0; i < BEAT_UNITS; i++) begin : gen_lane
      localparam int STEP = 1 << (2 * s);
      wire [UNIT_WIDTH-1:0] by_0 = beat[UNIT_WIDTH*i+:UNIT_WIDTH];
      wire [UNIT_WIDTH-1:0] by_1 = beat[UNIT_WIDTH*((i+4*BEAT_UNITS-STEP)%BEAT_UNITS)+:UNIT_WIDTH];
      wire [UNIT_WIDTH-1:0] by_2 = beat[UNIT_WIDTH*((i+4*BEAT_UNITS-2*STEP)%BEAT_UNITS)+:UNIT_WIDTH];
      wire [UNIT_WIDTH-1:0] by_3 = beat[UNIT_WIDTH*((i+4*BEAT_UNITS-3*STEP)%BEAT_UNITS)+:UNIT_WIDTH];
      always_ff @(posedge clk) begin
        beat_q[UNIT_WIDTH*i+:UNIT_WIDTH] <= by[1] ? (by[0] ? by_3 : by_2) : (by[0] ? by_1 : by_0);
      end
    end
  end

  logic [INTO_WIDTH-1:0] into_q;
  always_ff @(posedge clk) into_q <= places(gen_stage[STAGES-1].kept) & {INTO_WIDTH{gen_stage[STAGES-1].loads}};

  wire [BEAT_WIDTH+INTO_WIDTH+TENSORS:0] planned = {gen_stage[STAGES-1].beat_q, into_q, gen_stage[STAGES-1].flags_q};

  // Steps in order, with credits for the stages
  logic                  step_valid;
  wire                   step_ready = m_axis_tready || !m_axis_tvalid;
  logic [BEAT_WIDTH-1:0] step_beat;
  logic [INTO_WIDTH-1:0] step_into;
  logic [   TENSORS-1:0] step_turn;
  logic                  step_piece;
  logic                  step_last;

  axis_free_running #(
      .WIDTH  (BEAT_WIDTH + INTO_WIDTH + TENSORS + 1),
      .LATENCY(STAGES)
  ) u_axis_free_running (
      .clk           (clk),
      .rst_n         (rst_n),
      .s_axis_tvalid (able),
      .s_axis_tready (room),
      .s_axis_tlast  (last),
      .pipeline_tdata(planned),
      .m_axis_tvalid (step_valid),
      .m_axis_tready (step_ready),
      .m_axis_tdata  ({step_beat, step_into, step_turn, step_piece}),
      .m_axis_tlast  (step_last)
  );

  // Words held: a step drops the piece that the last one completed, and writes its beat
  logic [TENSORS-1:0]          given_q;  // the tensor of the piece that the last step completed
  logic [UNITS*UNIT_WIDTH-1:0] held_q;
  (* keep *) wire              act = step_valid && step_ready;  // kept, as it drives all enables

  for (genvar p = 0; p < UNITS; p++) begin : gen_place
    wire [UNIT_WIDTH-1:0] lane = step_beat[UNIT_WIDTH*(p%BEAT_UNITS)+:UNIT_WIDTH];
    localparam int INTO = p < MOST_UNITS - 1 ? p : MOST_UNITS - 1 + (p - MOST_UNITS + 1) * COPIES / BEAT_UNITS;
    wire write = step_into[INTO];

    // the unit behind the piece that is dropped, if there is one
    logic [UNIT_WIDTH-1:0] behind;
    logic                  moves;
    always_comb begin
      behind = '0;
      moves  = 1'b0;
      for (int t = 0; t < TENSORS; t++) begin
        if (p + int'(PIECE_WORDS[32*t+:32]) / UNIT < UNITS && given_q[t]) begin
          behind = behind | held_q[UNIT_WIDTH*((p+int'(PIECE_WORDS[32*t+:32])/UNIT)%UNITS)+:UNIT_WIDTH];
          moves  = 1'b1;
        end
      end
    end

    always_ff @(posedge clk) if (act && (write || moves)) held_q[UNIT_WIDTH*p+:UNIT_WIDTH] <= write ? lane : behind;
  end

  // runs whose last piece has not been given, counted a clock late: at most those with a step in flight, and the one that is planned
  localparam int RUN_BITS = $clog2(STAGES + 3) + 2;
  logic                start_q;
  logic [RUN_BITS-1:0] runs_q;

  always_ff @(posedge clk) begin
    if (act) begin
      given_q      <= step_turn & {TENSORS{step_piece}};
      m_axis_tlast <= step_last;
    end
    m_axis_tvalid <= act ? step_piece : m_axis_tvalid && !m_axis_tready;
    start_q       <= s_axis_desc_tvalid && !next_q && s_axis_desc_rows != '0;
    runs_q        <= runs_q + RUN_BITS'(start_q) - RUN_BITS'(m_axis_tvalid && m_axis_tready && m_axis_tlast);
    if (!rst_n) begin
      m_axis_tvalid <= 1'b0;
      given_q       <= '0;
      start_q       <= 1'b0;
      runs_q        <= '0;
    end
  end

  assign m_axis_tdata = held_q[MOST_WORDS*WORD_WIDTH-1:0];
  assign starved      = runs_q != '0 && !m_axis_tvalid;

endmodule

`default_nettype wire
