// SPDX-License-Identifier: Apache-2.0
//
// A module that unpacks the pieces of rows from beats, for proofs: each descriptor gives exactly its rows, piece after piece, the
// last of them marked; every word of a beat is given once, at its position, or never if it is after the last row of a run; no beat
// is taken that the run does not need; and there is no deadlock. The solver marks a word when it is taken; `front_q` words are
// before it. Rows are A_PIECES pieces of A words, then B_PIECES of B (none: one tensor).
`default_nettype none

module unpack_rules #(
    parameter int BEAT_WORDS = 4,
    parameter int A = 3,
    parameter int A_PIECES = 1,
    parameter int B = 1,
    parameter int B_PIECES = 0,
    parameter int WORD_WIDTH = 2,
    // words of the largest piece; the words of a unit, and the units held at most
    parameter int MOST = 3,
    parameter int UNIT = 1,
    parameter int UNITS = 6
) (
    input  logic                              clk,
    input  logic                              rst_n,
    input  logic                              s_axis_desc_tvalid,
    input  logic                              s_axis_desc_tready,
    input  logic [                       2:0] s_axis_desc_rows,
    input  logic                              s_axis_tvalid,
    input  logic                              s_axis_tready,
    input  logic [ BEAT_WORDS*WORD_WIDTH-1:0] s_axis_tdata,
    input  logic                              m_axis_tvalid,
    input  logic                              m_axis_tready,
    input  logic [       MOST*WORD_WIDTH-1:0] m_axis_tdata,
    input  logic                              m_axis_tlast,
    input  logic                              starved,
    input  logic                              mark,
    input  logic [                       3:0] mark_place,
    // the module's registers
    input  logic [UNITS*UNIT*WORD_WIDTH-1:0]  inner_held,
    input  logic [    $clog2(UNITS + 2)-1:0]  inner_fill,
    input  logic                              inner_active,
    input  logic                              inner_last,
    input  logic [                       2:0] inner_left,
    // the index of the current piece in its row
    output logic [                       5:0] piece_q
);

  logic       started_q = 1'b0;
  logic [2:0] due_q;  // rows due
  logic [5:0] words_q;  // words held
  wire        due = due_q != '0;
  wire        start = s_axis_desc_tvalid && s_axis_desc_tready;
  wire        take = s_axis_tvalid && s_axis_tready;
  wire        give = m_axis_tvalid && m_axis_tready;
  wire  [5:0] size = piece_q < 6'(A_PIECES) ? 6'(A) : 6'(B);  // words of the current piece
  wire        row_ends = piece_q == 6'(A_PIECES + B_PIECES - 1);
  wire        finish = give && due_q == 3'd1 && row_ends;
  wire  [5:0] kept = finish ? 6'd0 : give ? words_q - size : words_q;

  stream_rules #(.WIDTH(3), .ASSUME(1'b1)) u_desc (.clk, .rst_n, .tvalid(s_axis_desc_tvalid), .tready(s_axis_desc_tready), .tdata(s_axis_desc_rows));
  stream_rules #(.WIDTH(BEAT_WORDS * WORD_WIDTH), .ASSUME(1'b1)) u_in (.clk, .rst_n, .tvalid(s_axis_tvalid), .tready(s_axis_tready), .tdata(s_axis_tdata));
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

  wire [UNITS*UNIT*WORD_WIDTH-1:0] at_mark = inner_held >> (32'(front_q) * WORD_WIDTH);

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      // as many rows as in the descriptor, and only the last piece is marked last
      if (m_axis_tvalid) begin
        assert (due);
        assert (m_axis_tlast == (due_q == 3'd1 && row_ends));
        assert (words_q >= size);
        if (marked_q && front_q < size) begin
          assert (WORD_WIDTH'(m_axis_tdata >> (32'(front_q) * WORD_WIDTH)) == word_q);
        end
      end
      // a run takes only the beats that it needs
      if (finish) assert (words_q - size < 6'(BEAT_WORDS));
      // no deadlock: a row is offered, or a beat or a descriptor is requested
      assert (m_axis_tvalid || (due ? s_axis_tready : s_axis_desc_tready));
      assert (starved == (due && !m_axis_tvalid));
      // the module's state equals that of the model
      assert (inner_active == due);
      assert (!inner_active || (inner_left == due_q && inner_last == (due_q == 3'd1)));
      assert (6'(inner_fill) * 6'(UNIT) == words_q && words_q < size + 6'(BEAT_WORDS));
      assert (inner_held >> (32'(words_q) * WORD_WIDTH) == '0);
      assert (piece_q < 6'(A_PIECES + B_PIECES) && (due || piece_q == '0));
      if (marked_q) assert (front_q < words_q && WORD_WIDTH'(at_mark) == word_q);
    end
    cover (started_q && rst_n && finish && marked_q && front_q < size && start && s_axis_desc_rows == 3'd2);
    cover (started_q && rst_n && finish && take);
  end

endmodule

`default_nettype wire
