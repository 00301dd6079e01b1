// SPDX-License-Identifier: Apache-2.0
//
// axis_row_pack: every word of a row is given once, at its position; a run ends with a beat marked last, with zeros after the run's
// words; every beat has a word of a run; and there is no deadlock. The solver marks a word when it is taken; `front_q` words are
// before it.
//
// The sizes are in proofs.toml.
`default_nettype none

module axis_row_pack_proof #(
    parameter int BEAT_WORDS = 4,
    parameter int ROW_WORDS = 3,
    parameter int WORD_WIDTH = 2
) (
    input logic                            clk,
    input logic                            rst_n,
    input logic                            s_axis_tvalid,
    input logic [ROW_WORDS*WORD_WIDTH-1:0] s_axis_tdata,
    input logic                            s_axis_tlast,
    input logic                            m_axis_tready,
    input logic                            mark,
    input logic [                     3:0] mark_place
);

  localparam int UNIT = (BEAT_WORDS | ROW_WORDS) & -(BEAT_WORDS | ROW_WORDS);
  localparam int UNITS = (ROW_WORDS + BEAT_WORDS) / UNIT - 1;
  localparam int HELD_WIDTH = UNITS * UNIT * WORD_WIDTH;

  logic                             s_axis_tready;
  logic                             m_axis_tvalid;
  logic [BEAT_WORDS*WORD_WIDTH-1:0] m_axis_tdata;
  logic                             m_axis_tlast;

  axis_row_pack #(
      .WORD_WIDTH(WORD_WIDTH),
      .ROW_WORDS (ROW_WORDS),
      .BEAT_WORDS(BEAT_WORDS)
  ) u_axis_row_pack (.*);

  wire [ROW_WORDS*WORD_WIDTH:0] row = {s_axis_tlast, s_axis_tdata};
  stream_rules #(.WIDTH(ROW_WORDS * WORD_WIDTH + 1), .ASSUME(1'b1)) u_in (.clk, .rst_n, .tvalid(s_axis_tvalid), .tready(s_axis_tready), .tdata(row));
  wire [BEAT_WORDS*WORD_WIDTH:0] beat = {m_axis_tlast, m_axis_tdata};
  stream_rules #(.WIDTH(BEAT_WORDS * WORD_WIDTH + 1)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(beat));

  (* inner = "u_axis_row_pack.held_q" *) wire [HELD_WIDTH-1:0] inner_held;
  (* inner = "u_axis_row_pack.fill_q" *) wire [$clog2(UNITS + 2)-1:0] inner_fill;
  (* inner = "u_axis_row_pack.flush_q" *) wire inner_flush;

  localparam int AT_BITS = BEAT_WORDS > UNIT ? $clog2(BEAT_WORDS / UNIT) : 1;
  (* inner = "u_axis_row_pack.at_q" *) wire [AT_BITS-1:0] inner_at;

  logic       started_q = 1'b0;
  logic [5:0] words_q;  // words held
  logic       ending_q;  // they are the last of a run
  wire        take = s_axis_tvalid && s_axis_tready;
  wire        give = m_axis_tvalid && m_axis_tready;
  wire  [5:0] given = words_q < 6'(BEAT_WORDS) ? words_q : 6'(BEAT_WORDS);
  wire  [5:0] kept = give ? words_q - given : words_q;

  logic                  marked_q;
  logic [           5:0] front_q;
  logic [WORD_WIDTH-1:0] word_q;
  wire  [           5:0] place = {2'b00, mark_place};

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    words_q   <= kept + (take ? 6'(ROW_WORDS) : 6'd0);
    if (take) ending_q <= s_axis_tlast;
    else if (give && kept == '0) ending_q <= 1'b0;
    if (take && mark && !marked_q && place < 6'(ROW_WORDS)) begin
      marked_q <= 1'b1;
      front_q  <= kept + place;
      word_q   <= WORD_WIDTH'(s_axis_tdata >> (32'(place) * WORD_WIDTH));
    end else if (marked_q && give) begin
      front_q  <= front_q - given;
      marked_q <= front_q >= given;
    end
    if (!rst_n) begin
      words_q  <= '0;
      ending_q <= 1'b0;
      marked_q <= 1'b0;
    end
  end

  wire [HELD_WIDTH-1:0] at_mark = inner_held >> (32'(front_q) * WORD_WIDTH);

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      if (m_axis_tvalid) begin
        // a full beat, or the rest of a run with zeros after it
        assert (words_q != '0 && (words_q >= 6'(BEAT_WORDS) || ending_q));
        assert (m_axis_tlast == (ending_q && words_q <= 6'(BEAT_WORDS)));
        assert (m_axis_tdata >> (32'(words_q) * WORD_WIDTH) == '0 || words_q >= 6'(BEAT_WORDS));
        if (marked_q && front_q < 6'(BEAT_WORDS)) begin
          assert (WORD_WIDTH'(m_axis_tdata >> (32'(front_q) * WORD_WIDTH)) == word_q);
        end
      end
      // no row of the next run is added to the last words of this one
      if (take && ending_q) assert (kept == '0);
      // no deadlock: a beat is offered or a row is requested
      assert (m_axis_tvalid || s_axis_tready);
      // the module's state equals that of the model
      assert (inner_flush == ending_q);
      assert (!ending_q || words_q != '0);
      assert (6'(inner_fill) * 6'(UNIT) == words_q && words_q < 6'(ROW_WORDS + BEAT_WORDS));
      assert (6'(inner_at) * 6'(UNIT) == (ending_q ? 6'd0 : words_q % 6'(BEAT_WORDS)));
      assert (inner_held >> (32'(words_q) * WORD_WIDTH) == '0);
      if (marked_q) assert (front_q < words_q && WORD_WIDTH'(at_mark) == word_q);
    end
    cover (started_q && rst_n && give && m_axis_tlast && take);
    cover (started_q && rst_n && give && marked_q && front_q == 6'(BEAT_WORDS - 1) && !m_axis_tlast);
  end

endmodule

`default_nettype wire
