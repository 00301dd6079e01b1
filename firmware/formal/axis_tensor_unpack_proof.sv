// SPDX-License-Identifier: Apache-2.0
//
// axis_tensor_unpack: each descriptor gives exactly its rows, each in the pieces of its tensors, in order, the last of them marked;
// every word of a beat is given once, at its position, or never if it is after the last row of a run; no beat is taken that the run
// does not need; and there is no deadlock. The solver marks a word when it is taken; `front_q` words are before it. Rows are
// A_PIECES pieces of A words, then B_PIECES of B (none: one tensor).
//
// The .sby sets the sizes. It also connects registers of the module, for the invariants of the induction.
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
  localparam int HELD_WIDTH = UNITS * UNIT * WORD_WIDTH;
  localparam int ANY_PIECES = A_PIECES | B_PIECES;
  localparam int PIECE_BITS = ANY_PIECES > 1 ? $clog2(ANY_PIECES) + 1 : 1;

  logic                       s_axis_desc_tready;
  logic                       s_axis_tready;
  logic                       m_axis_tvalid;
  logic [MOST*WORD_WIDTH-1:0] m_axis_tdata;
  logic                       m_axis_tlast;
  logic                       starved;

  axis_tensor_unpack #(
      .WORD_WIDTH (WORD_WIDTH),
      .BEAT_WORDS (BEAT_WORDS),
      .TENSORS    (TENSORS),
      .PIECE_WORDS(B_PIECES == 0 ? {32'd0, 32'(A)} : {32'(B), 32'(A)}),
      .PIECES     ({32'(B_PIECES), 32'(A_PIECES)}),
      .MOST_WORDS (MOST),
      .ROWS_WIDTH (3)
  ) u_axis_tensor_unpack (
      .clk,
      .rst_n,
      .s_axis_desc_tvalid,
      .s_axis_desc_tready,
      .s_axis_desc_rows,
      .s_axis_tvalid,
      .s_axis_tready,
      .s_axis_tdata,
      .m_axis_tvalid,
      .m_axis_tready,
      .m_axis_tdata,
      .m_axis_tlast,
      .starved
  );

  stream_rules #(.WIDTH(3), .ASSUME(1'b1)) u_desc (.clk, .rst_n, .tvalid(s_axis_desc_tvalid), .tready(s_axis_desc_tready), .tdata(s_axis_desc_rows));
  stream_rules #(.WIDTH(BEAT_WORDS * WORD_WIDTH), .ASSUME(1'b1)) u_in (.clk, .rst_n, .tvalid(s_axis_tvalid), .tready(s_axis_tready), .tdata(s_axis_tdata));

  // Registers of u_axis_tensor_unpack, which the .sby connects
  (* keep *) wire [       HELD_WIDTH-1:0] inner_held;
  (* keep *) wire [$clog2(UNITS + 2)-1:0] inner_fill;
  (* keep *) wire                         inner_active;
  (* keep *) wire                         inner_last;
  (* keep *) wire [                  2:0] inner_left;
  (* keep *) wire [          TENSORS-1:0] inner_turn;
  (* keep *) wire [       PIECE_BITS-1:0] inner_pieces;
  (* keep *) wire                         inner_ends;

  logic       started_q = 1'b0;
  logic [2:0] due_q;  // rows due
  logic [5:0] words_q;  // words held
  logic [5:0] piece_q;  // the index of the current piece in its row
  wire        start = s_axis_desc_tvalid && s_axis_desc_tready;
  wire        take = s_axis_tvalid && s_axis_tready;
  wire        give = m_axis_tvalid && m_axis_tready;
  wire        of_a = piece_q < 6'(A_PIECES);
  wire  [5:0] size = of_a ? 6'(A) : 6'(B);  // words of the current piece
  wire        row_ends = piece_q == 6'(A_PIECES + B_PIECES - 1);
  wire        finish = give && due_q == 3'd1 && row_ends;
  wire  [5:0] kept = finish ? 6'd0 : give ? words_q - size : words_q;

  // the bits above a piece may change, because a beat may be added to the words held while the piece waits
  wire [MOST*WORD_WIDTH-1:0] piece = m_axis_tdata & ~({MOST * WORD_WIDTH{1'b1}} << (32'(size) * WORD_WIDTH));
  wire [MOST*WORD_WIDTH:0] given = {m_axis_tlast, piece};
  stream_rules #(.WIDTH(MOST * WORD_WIDTH + 1)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(given));

  logic                  marked_q;
  logic [           5:0] front_q;
  logic [WORD_WIDTH-1:0] word_q;
  wire  [           5:0] place = {2'b00, mark_place};

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (start) due_q <= s_axis_desc_rows;
    else if (give && row_ends) due_q <= due_q - 1'b1;
    if (give) piece_q <= row_ends ? '0 : piece_q + 1'b1;
    words_q <= kept + (take ? 6'(BEAT_WORDS) : 6'd0);
    if (take && mark && !marked_q && place < 6'(BEAT_WORDS)) begin
      marked_q <= 1'b1;
      front_q  <= kept + place;
      word_q   <= WORD_WIDTH'(s_axis_tdata >> (32'(place) * WORD_WIDTH));
    end else if (marked_q && give) begin
      front_q  <= front_q - size;
      marked_q <= front_q >= size && !finish;
    end
    if (!rst_n) begin
      due_q    <= '0;
      words_q  <= '0;
      piece_q  <= '0;
      marked_q <= 1'b0;
    end
  end

  wire [HELD_WIDTH-1:0] at_mark = inner_held >> (32'(front_q) * WORD_WIDTH);

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      // as many rows as in the descriptor, and only the last piece is marked last
      if (m_axis_tvalid) begin
        assert (due_q != '0);
        assert (m_axis_tlast == (due_q == 3'd1 && row_ends));
        assert (words_q >= size);
        if (marked_q && front_q < size) begin
          assert (WORD_WIDTH'(m_axis_tdata >> (32'(front_q) * WORD_WIDTH)) == word_q);
        end
      end
      // a run takes only the beats that it needs
      if (finish) assert (words_q - size < 6'(BEAT_WORDS));
      // no deadlock: a row is offered, or a beat or a descriptor is requested
      assert (m_axis_tvalid || (due_q != '0 ? s_axis_tready : s_axis_desc_tready));
      assert (starved == (due_q != '0 && !m_axis_tvalid));
      // the module's state equals that of the model
      assert (inner_active == (due_q != '0));
      assert (!inner_active || (inner_left == due_q && inner_last == (due_q == 3'd1)));
      assert (6'(inner_fill) * 6'(UNIT) == words_q && words_q < size + 6'(BEAT_WORDS));
      assert (inner_held >> (32'(words_q) * WORD_WIDTH) == '0);
      assert (piece_q < 6'(A_PIECES + B_PIECES) && (due_q != '0 || piece_q == '0));
      assert (inner_turn == (of_a ? TENSORS'(1) : TENSORS'(2)));
      assert (6'(inner_pieces) == (of_a ? 6'(A_PIECES - 1) : 6'(A_PIECES + B_PIECES - 1)) - piece_q);
      assert (inner_ends == (inner_pieces == '0));
      if (marked_q) assert (front_q < words_q && WORD_WIDTH'(at_mark) == word_q);
    end
    cover (started_q && rst_n && finish && marked_q && front_q < size && start && s_axis_desc_rows == 3'd2);
    cover (started_q && rst_n && finish && take);
  end

endmodule

`default_nettype wire
