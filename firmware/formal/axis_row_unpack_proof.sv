// SPDX-License-Identifier: Apache-2.0
//
// axis_row_unpack: each descriptor gives exactly its rows, the last of them marked; every word of a beat is given once, at its
// position, or never if it is after the last row of a run; no beat is taken that the run does not need; and there is no deadlock.
// The solver marks a word when it is taken; `front_q` words are before it.
//
// The .sby sets the sizes. It also connects registers of the module, for the invariants of the induction.
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
  ) u_axis_row_unpack (
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
  wire [ROW_WORDS*WORD_WIDTH:0] row = {m_axis_tlast, m_axis_tdata};
  stream_rules #(.WIDTH(ROW_WORDS * WORD_WIDTH + 1)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(row));

  // Registers of u_axis_row_unpack, which the .sby connects
  (* keep *) wire [       HELD_WIDTH-1:0] inner_held;
  (* keep *) wire [$clog2(UNITS + 2)-1:0] inner_fill;
  (* keep *) wire                         inner_active;
  (* keep *) wire                         inner_last;
  (* keep *) wire [                  2:0] inner_left;

  logic       started_q = 1'b0;
  logic [2:0] due_q;  // rows due
  logic [5:0] words_q;  // words held
  wire        start = s_axis_desc_tvalid && s_axis_desc_tready;
  wire        take = s_axis_tvalid && s_axis_tready;
  wire        give = m_axis_tvalid && m_axis_tready;
  wire        finish = give && due_q == 3'd1;
  wire  [5:0] kept = finish ? 6'd0 : give ? words_q - 6'(ROW_WORDS) : words_q;

  logic                  marked_q;
  logic [           5:0] front_q;
  logic [WORD_WIDTH-1:0] word_q;
  wire  [           5:0] place = {2'b00, mark_place};

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (start) due_q <= s_axis_desc_rows;
    else if (give) due_q <= due_q - 1'b1;
    words_q <= kept + (take ? 6'(BEAT_WORDS) : 6'd0);
    if (take && mark && !marked_q && place < 6'(BEAT_WORDS)) begin
      marked_q <= 1'b1;
      front_q  <= kept + place;
      word_q   <= WORD_WIDTH'(s_axis_tdata >> (32'(place) * WORD_WIDTH));
    end else if (marked_q && give) begin
      front_q  <= front_q - 6'(ROW_WORDS);
      marked_q <= front_q >= 6'(ROW_WORDS) && !finish;
    end
    if (!rst_n) begin
      due_q    <= '0;
      words_q  <= '0;
      marked_q <= 1'b0;
    end
  end

  wire [HELD_WIDTH-1:0] at_mark = inner_held >> (32'(front_q) * WORD_WIDTH);

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      // as many rows as in the descriptor, and only the last is marked last
      if (m_axis_tvalid) begin
        assert (due_q != '0);
        assert (m_axis_tlast == (due_q == 3'd1));
        assert (words_q >= 6'(ROW_WORDS));
        if (marked_q && front_q < 6'(ROW_WORDS)) begin
          assert (WORD_WIDTH'(m_axis_tdata >> (32'(front_q) * WORD_WIDTH)) == word_q);
        end
      end
      // a run takes only the beats that it needs
      if (finish) assert (words_q - 6'(ROW_WORDS) < 6'(BEAT_WORDS));
      // no deadlock: a row is offered, or a beat or a descriptor is requested
      assert (m_axis_tvalid || (due_q != '0 ? s_axis_tready : s_axis_desc_tready));
      assert (starved == (due_q != '0 && !m_axis_tvalid));
      // the module's state equals that of the model
      assert (inner_active == (due_q != '0));
      assert (!inner_active || (inner_left == due_q && inner_last == (due_q == 3'd1)));
      assert (6'(inner_fill) * 6'(UNIT) == words_q && words_q < 6'(ROW_WORDS + BEAT_WORDS));
      assert (inner_held >> (32'(words_q) * WORD_WIDTH) == '0);
      if (marked_q) assert (front_q < words_q && WORD_WIDTH'(at_mark) == word_q);
    end
    cover (started_q && rst_n && finish && marked_q && front_q < 6'(ROW_WORDS) && start && s_axis_desc_rows == 3'd2);
    cover (started_q && rst_n && finish && take);
  end

endmodule

`default_nettype wire
