// SPDX-License-Identifier: Apache-2.0
//
// axis_tensor_unpack, for rows of A_PIECES pieces of A words, then B_PIECES of B (none: one tensor), of the sizes in proofs.toml: each
// descriptor gives exactly its rows, piece after piece, the last of them marked; every word of a beat is given once, at its position,
// or never if it is after the last row of a run; no beat is taken that the run does not need; and there is no deadlock.
//
// The plan and the words held are connected by axis_free_running, which gives each step once, in order (its own proof). It is
// cut out here. What the plan is proved to put in is assumed of what comes out (`rules`).
`default_nettype none

module axis_tensor_unpack_proof #(
    parameter int BEAT_WORDS = 4,
    parameter int A = 3,
    parameter int A_PIECES = 2,
    parameter int B = 1,
    parameter int B_PIECES = 0,
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

  localparam int TENSORS = B_PIECES == 0 ? 1 : 2;
  localparam int MOST = B_PIECES != 0 && B > A ? B : A;
  localparam int ANY = BEAT_WORDS | A | (B_PIECES == 0 ? 0 : B);
  localparam int UNIT = ANY & -ANY;
  localparam int UNITS = (MOST + BEAT_WORDS) / UNIT - 1;
  localparam int MOST_UNITS = MOST / UNIT;
  localparam int ANY_PIECES = A_PIECES | B_PIECES;
  localparam int PIECE_BITS = ANY_PIECES > 1 ? $clog2(ANY_PIECES) + 1 : 1;
  localparam int FILL_BITS = $clog2(UNITS + 2);
  localparam int COPIES = BEAT_WORDS / UNIT < 4 ? BEAT_WORDS / UNIT : 4;
  localparam int INTO_WIDTH = MOST_UNITS - 1 + COPIES;
  localparam int BEAT_WIDTH = BEAT_WORDS * WORD_WIDTH;
  localparam int ROTATE_BITS = $clog2(BEAT_WORDS / UNIT);
  localparam int STAGES = ROTATE_BITS > 2 ? (ROTATE_BITS + 1) / 2 : 1;
  localparam int RUN_BITS = $clog2(STAGES + 3) + 2;

  logic                            s_axis_desc_tready;
  logic                            s_axis_tready;
  logic                            m_axis_tvalid;
  logic [MOST*WORD_WIDTH-1:0] m_axis_tdata;
  logic                            m_axis_tlast;
  logic                            starved;

  axis_tensor_unpack #(
      .WORD_WIDTH (WORD_WIDTH),
      .BEAT_WORDS (BEAT_WORDS),
      .TENSORS    (TENSORS),
      .PIECE_WORDS(B_PIECES == 0 ? {32'd0, 32'(A)} : {32'(B), 32'(A)}),
      .PIECES     ({32'(B_PIECES), 32'(A_PIECES)}),
      .MOST_WORDS (MOST),
      .ROWS_WIDTH (3)
  ) u_axis_tensor_unpack (.*);

  stream_rules #(.WIDTH(3), .ASSUME(1'b1)) u_desc (.clk, .rst_n, .tvalid(s_axis_desc_tvalid), .tready(s_axis_desc_tready), .tdata(s_axis_desc_rows));
  (* inner = "u_axis_tensor_unpack.next_q" *) wire inner_next;
  (* inner = "u_axis_tensor_unpack.next_rows_q" *) wire [2:0] inner_next_rows;
  (* inner = "u_axis_tensor_unpack.idle" *) wire inner_idle;
  stream_rules #(.WIDTH(BEAT_WIDTH), .ASSUME(1'b1)) u_in (.clk, .rst_n, .tvalid(s_axis_tvalid), .tready(s_axis_tready), .tdata(s_axis_tdata));
  wire [MOST*WORD_WIDTH:0] given = {m_axis_tlast, m_axis_tdata};
  stream_rules #(.WIDTH(MOST * WORD_WIDTH + 1)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(given));

  (* inner = "u_axis_tensor_unpack.able" *) wire inner_able;
  (* inner = "u_axis_tensor_unpack.room" *) wire inner_room;
  (* inner = "u_axis_tensor_unpack.piece" *) wire inner_piece;
  (* inner = "u_axis_tensor_unpack.last" *) wire inner_last;
  (* inner = "u_axis_tensor_unpack.final_q" *) wire inner_final;
  (* inner = "u_axis_tensor_unpack.active_q" *) wire inner_active;
  (* inner = "u_axis_tensor_unpack.needs_q" *) wire inner_needs;
  (* inner = "u_axis_tensor_unpack.kept_q" *) wire [FILL_BITS-1:0] inner_kept;
  (* inner = "u_axis_tensor_unpack.left_q" *) wire [2:0] inner_left;
  (* inner = "u_axis_tensor_unpack.planned" *) wire [BEAT_WIDTH+INTO_WIDTH+TENSORS:0] inner_planned;
  (* inner = "u_axis_tensor_unpack.step_valid" *) wire step_valid;
  (* inner = "u_axis_tensor_unpack.step_ready" *) wire step_ready;
  (* inner = "u_axis_tensor_unpack.step_beat" *) wire [BEAT_WIDTH-1:0] step_beat;
  (* inner = "u_axis_tensor_unpack.step_into" *) wire [INTO_WIDTH-1:0] step_into;
  (* inner = "u_axis_tensor_unpack.step_turn" *) wire [TENSORS-1:0] step_turn;
  (* inner = "u_axis_tensor_unpack.step_piece" *) wire step_piece;
  (* inner = "u_axis_tensor_unpack.step_last" *) wire step_last;
  (* inner = "u_axis_tensor_unpack.given_q" *) wire [TENSORS-1:0] inner_given;
  (* inner = "u_axis_tensor_unpack.u_tensor_turns.turn_q" *) wire [TENSORS-1:0] inner_turn;
  (* inner = "u_axis_tensor_unpack.u_tensor_turns.left_q" *) wire [PIECE_BITS-1:0] inner_pieces;
  (* inner = "u_axis_tensor_unpack.u_tensor_turns.ends_q" *) wire inner_ends;
  (* inner = "u_axis_tensor_unpack.held_q" *) wire [UNITS*UNIT*WORD_WIDTH-1:0] inner_held;
  (* inner = "u_axis_tensor_unpack.start_q" *) wire inner_start;
  (* inner = "u_axis_tensor_unpack.runs_q" *) wire [RUN_BITS-1:0] inner_runs;

  logic started_q = 1'b0;
  always_ff @(posedge clk) started_q <= 1'b1;

  // The words of a piece of the row, its tensor, and whether it is the row's last
  function automatic logic [5:0] size(input logic [5:0] index);
    size = index < 6'(A_PIECES) ? 6'(A) : 6'(B);
  endfunction
  function automatic logic [TENSORS-1:0] tensor(input logic [5:0] index);
    tensor = index < 6'(A_PIECES) ? TENSORS'(1) : TENSORS'(2);
  endfunction
  function automatic logic row_ends(input logic [5:0] index);
    row_ends = index == 6'(A_PIECES + B_PIECES - 1);
  endfunction

  // A step towards a piece, given the words held before it: it takes a beat if they are fewer than those of the piece
  function automatic logic rules(input logic [5:0] index, input logic [5:0] words, input logic [INTO_WIDTH-1:0] into,
                                 input logic [TENSORS-1:0] turn, input logic piece, input logic last);
    rules = turn == tensor(index) && into == places(words, words < size(index)) && (!last || row_ends(index));
    rules = rules && piece == (words + (words < size(index) ? 6'(BEAT_WORDS) : 6'd0) >= size(index));
  endfunction
  // The places that it writes, those above the last of the largest piece in COPIES bits
  function automatic logic [INTO_WIDTH-1:0] places(input logic [5:0] words, input logic load);
    for (int p = 0; p < INTO_WIDTH; p++) places[p] = load && (p >= MOST_UNITS - 1 || 6'(p * UNIT) >= words);
  endfunction

  // 1. The plan
  logic [2:0] next_q;  // rows of the next run, 0: none has been taken
  logic [2:0] due_q;  // rows to be planned
  logic [5:0] piece_q;  // the index of the current piece in its row
  logic [5:0] words_q;  // words held before the next step
  wire        step = inner_able && inner_room;
  wire        load = s_axis_tvalid && s_axis_tready;
  wire        ends = step && inner_piece && due_q == 3'd1 && row_ends(piece_q);
  wire        start = next_q != '0 && (due_q == '0 || ends);
  wire  [5:0] total = words_q + (load ? 6'(BEAT_WORDS) : 6'd0);

  // the step as it must come out of the stages
  logic [STAGES-1:0][BEAT_WIDTH+INTO_WIDTH+TENSORS:0] due_word_q;
  logic [STAGES-1:0]                                  due_valid_q;
  wire  [2*BEAT_WIDTH-1:0]                            doubled = {s_axis_tdata, s_axis_tdata} << ((32'(words_q) % BEAT_WORDS) * WORD_WIDTH);
  wire  [INTO_WIDTH-1:0]                              into = places(words_q, inner_needs);

  always_ff @(posedge clk) begin
    if (next_q == '0 && s_axis_desc_tvalid) next_q <= s_axis_desc_rows;
    else if (start) next_q <= '0;
    if (start) due_q <= next_q;
    else if (step && inner_piece && row_ends(piece_q)) due_q <= due_q - 1'b1;
    if (step && inner_piece) piece_q <= row_ends(piece_q) ? '0 : piece_q + 1'b1;
    if (step) words_q <= ends ? '0 : inner_piece ? total - size(piece_q) : total;
    due_word_q[0]  <= {doubled[2*BEAT_WIDTH-1-:BEAT_WIDTH], into, tensor(piece_q), inner_piece};
    due_valid_q[0] <= rst_n && step;
    for (int s = 1; s < STAGES; s++) begin
      due_word_q[s]  <= due_word_q[s-1];
      due_valid_q[s] <= rst_n && due_valid_q[s-1];
    end
    if (!rst_n) begin
      next_q  <= '0;
      due_q   <= '0;
      piece_q <= '0;
      words_q <= '0;
    end
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      // as many pieces as in the descriptor, and only the last is marked last; a beat only for a piece that is due
      if (inner_able) begin
        assert (due_q != '0 && inner_last == (due_q == 3'd1 && row_ends(piece_q)));
        assert (rules(piece_q, words_q, into, inner_turn, inner_piece, inner_last));
      end
      if (step) assert (load == inner_needs);
      if (load) assert (step && words_q < size(piece_q));
      if (ends && load) assert (total - size(piece_q) < 6'(BEAT_WORDS));
      if (due_valid_q[STAGES-1]) begin
        assert (inner_planned[INTO_WIDTH+TENSORS:0] == due_word_q[STAGES-1][INTO_WIDTH+TENSORS:0]);
        if (inner_planned[INTO_WIDTH+TENSORS]) assert (inner_planned == due_word_q[STAGES-1]);
      end
      // no deadlock while there is room for steps: a step is taken, or a beat or a descriptor is requested
      if (inner_room) assert (due_q == '0 ? start || s_axis_desc_tready : inner_able || s_axis_tready);
      // the module's state equals that of the model
      assert (s_axis_desc_tready == (next_q == '0) && inner_next == (next_q != '0) && (!inner_next || inner_next_rows == next_q));
      assert ((inner_next && inner_idle) == start);
      assert (inner_active == (due_q != '0));
      assert (!inner_active || (inner_left == due_q && inner_final == (due_q == 3'd1)));
      assert (6'(inner_kept) * 6'(UNIT) == words_q && words_q < size(piece_q) + 6'(BEAT_WORDS));
      assert (inner_needs == (words_q < size(piece_q)));
      assert (inner_piece == (words_q + 6'(BEAT_WORDS) >= size(piece_q)));
      assert (due_q != '0 || (words_q == '0 && piece_q == '0));
      assert (piece_q < 6'(A_PIECES + B_PIECES) && inner_turn == tensor(piece_q));
      assert (6'(inner_pieces) == (piece_q < 6'(A_PIECES) ? 6'(A_PIECES - 1) : 6'(A_PIECES + B_PIECES - 1)) - piece_q);
      assert (inner_ends == (inner_pieces == '0));
    end
    cover (started_q && rst_n && ends && load && start && next_q == 3'd2);
  end

  // 2. The words held. The solver marks a word when its beat is written; `front_q` words are before it
  logic [5:0] index_q;  // the index of the piece to which the next step belongs
  logic [5:0] held_q;  // words after the last step, those of the piece that it completed included
  logic [5:0] given_q;  // the words of that piece, 0: it completed none
  logic       last_q;  // the last of its run
  wire        act = step_valid && step_ready;
  wire        give = m_axis_tvalid && m_axis_tready;
  wire  [5:0] kept = last_q && given_q != '0 ? 6'd0 : held_q - given_q;

  logic                  marked_q;
  logic [           5:0] front_q;
  logic [WORD_WIDTH-1:0] word_q;
  wire  [           5:0] place = {2'b00, mark_place};

  wire        step_load = step_into[INTO_WIDTH-1];
  wire [BEAT_WIDTH+INTO_WIDTH+TENSORS+1:0] offered = {step_beat, step_into, step_turn, step_piece, step_last};
  stream_rules #(.WIDTH(BEAT_WIDTH + INTO_WIDTH + TENSORS + 2), .ASSUME(1'b1)) u_steps (.clk, .rst_n, .tvalid(step_valid), .tready(step_ready), .tdata(offered));

  always_ff @(posedge clk) begin
    if (act) begin
      held_q  <= kept + (step_load ? 6'(BEAT_WORDS) : 6'd0);
      given_q <= step_piece ? size(index_q) : 6'd0;
      last_q  <= step_last;
      if (step_piece) index_q <= row_ends(index_q) ? '0 : index_q + 1'b1;
      if (step_load && mark && !marked_q && place < 6'(BEAT_WORDS)) begin
        marked_q <= 1'b1;
        front_q  <= kept + place;
        word_q   <= WORD_WIDTH'(step_beat >> ((32'(kept + place) % BEAT_WORDS) * WORD_WIDTH));
      end else if (given_q != '0) begin
        marked_q <= marked_q && !last_q && front_q >= given_q;
        front_q  <= front_q - given_q;
      end
    end
    if (!rst_n) begin
      index_q  <= '0;
      held_q   <= '0;
      given_q  <= '0;
      marked_q <= 1'b0;
    end
  end

  wire [UNITS*UNIT*WORD_WIDTH-1:0] at_mark = inner_held >> (32'(front_q) * WORD_WIDTH);
  wire [5:0] previous = index_q == '0 ? 6'(A_PIECES + B_PIECES - 1) : index_q - 1'b1;

  always_comb begin
    if (started_q && rst_n) begin
      if (step_valid) assume (rules(index_q, kept, step_into, step_turn, step_piece, step_last));
      // a piece is offered when its last step has been taken, once, with its words in their places
      if (m_axis_tvalid) begin
        assert (given_q != '0 && m_axis_tlast == last_q);
        if (marked_q && front_q < given_q) begin
          assert (WORD_WIDTH'(m_axis_tdata >> (32'(front_q) * WORD_WIDTH)) == word_q);
        end
      end
      // no deadlock: a piece is offered, or a step is taken
      assert (m_axis_tvalid || step_ready);
      assert (!give || step_ready);
      // the module's state equals that of the model
      assert (index_q < 6'(A_PIECES + B_PIECES));
      assert (given_q == '0 ? inner_given == '0 : inner_given == tensor(previous) && given_q == size(previous));
      assert (held_q >= given_q && held_q < 6'(MOST + BEAT_WORDS) && 32'(held_q) % UNIT == 0);
      assert (kept < size(index_q) + 6'(BEAT_WORDS));
      assert (given_q != '0 || held_q < size(index_q));
      if (marked_q) assert (front_q < held_q && WORD_WIDTH'(at_mark) == word_q);
    end
    cover (started_q && rst_n && give && marked_q && front_q < given_q && m_axis_tlast && act);
    cover (started_q && rst_n && give && act && step_load);
  end

  // 3. starved: a run is not given whole, and no piece is offered
  logic                begun_q;
  logic [RUN_BITS-1:0] runs_q;

  always_ff @(posedge clk) begin
    begun_q <= rst_n && s_axis_desc_tvalid && s_axis_desc_tready && s_axis_desc_rows != '0;
    runs_q  <= rst_n ? runs_q + RUN_BITS'(begun_q) - RUN_BITS'(give && m_axis_tlast) : '0;
  end

  always_comb begin
    if (started_q && rst_n) begin
      assert (inner_start == begun_q && inner_runs == runs_q);
      assert (starved == (runs_q != '0 && !m_axis_tvalid));
    end
  end

endmodule

`default_nettype wire
