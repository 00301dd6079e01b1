// SPDX-License-Identifier: Apache-2.0
//
// A stage of an rf core, at its ports, for proofs. It works in turns: from IN beats it makes OUT beats. No beat is given before the
// beats that it needs have been taken, every turn is given in whole and in order, an offered beat stays valid and unchanged, tlast
// is in its place, and the stage gives or takes a beat within WAIT clocks. MOST is how many turns can be inside.
//
// The solver marks a turn and one of its ITEMS, a part of a beat that the stage passes on: it must be in its place in the output.
// A stage that computes has none; then only beats and tlast are followed, and the benches compare the numbers.
`default_nettype none

module stage_rules #(
    parameter int IN = 1,
    parameter int OUT = 1,
    // bits of the payload, apart from tlast
    parameter int WIDTH = 1,
    // for each beat of the output, the number of input beats of its turn that must have been taken before, 8 bits each
    parameter logic [OUT*8-1:0] NEED = {OUT{8'(IN)}},
    // bits of an item, and their number; for each the beat of the input that has it, 255 if it is a constant zero; and that of the
    // output, 255 if there is none
    parameter int ITEM_WIDTH = 1,
    parameter int ITEMS = 1,
    parameter logic [ITEMS*8-1:0] FROM = '0,
    parameter logic [ITEMS*8-1:0] AT = '1,
    // tlast of a turn's last output is 0: that of its last input; 1: 1; 2: not followed
    parameter int LAST = 0,
    // a beat counts as soon as it is offered
    parameter bit EARLY = 1'b0,
    // resets come at any time; otherwise only the first
    parameter bit RESETS = 1'b1,
    // ready of the output falls
    parameter bit STALLS = 1'b1,
    parameter int MOST = 8,
    parameter int WAIT = 8
) (
    input logic                  clk,
    input logic                  rst_n,
    // the turn that begins is marked, unless one is already
    input logic                  mark,
    input logic                  s_valid,
    input logic                  s_ready,
    input logic                  s_last,
    input logic                  m_valid,
    input logic                  m_ready,
    input logic [     WIDTH-1:0] m_data,
    input logic                  m_last,
    // the stage waits for something else than these two streams
    input logic                  excused,
    // the marked item, in the beat that is taken and in the one that is given
    input logic [           7:0] item,
    input logic [ITEM_WIDTH-1:0] s_item,
    input logic [ITEM_WIDTH-1:0] m_item
);

  wire [WIDTH:0] result = {m_last, m_data};
  stream_rules #(.WIDTH(WIDTH + 1)) u_out (.clk, .rst_n, .tvalid(m_valid), .tready(m_ready), .tdata(result));

  // counters have no more bits than they need to break a rule: the solver has to find a bound for each that it could reach
  localparam int IN_BITS = $clog2(IN + 1);
  localparam int OUT_BITS = $clog2(OUT + 1);
  localparam int TURN_BITS = $clog2(MOST + 2);
  localparam int IDLE_BITS = $clog2(WAIT + 1);

  logic                        started_q = 1'b0;
  logic                        standing_q;
  logic        [  IN_BITS-1:0] in_q;  // beats taken of the current turn
  logic        [ OUT_BITS-1:0] out_q;
  logic signed [  TURN_BITS:0] turns_q;  // taken in whole, less those that were given in whole
  logic        [IDLE_BITS-1:0] idle_q;
  wire               take = s_valid && s_ready;
  wire               give = m_valid && m_ready;
  wire               in_ends = in_q == IN_BITS'(IN - 1);
  wire               out_ends = out_q == OUT_BITS'(OUT - 1);
  wire               idle = !m_valid && !excused && (turns_q > 0 || (s_valid && !s_ready));
  wire         [7:0] need = 8'(NEED >> {out_q, 3'd0});
  wire         [7:0] from = 8'(FROM >> {item, 3'd0});
  wire         [7:0] at = 8'(AT >> {item, 3'd0});

  // the marked turn, with front_q turns before it
  logic                  marked_q;
  logic [ TURN_BITS-1:0] front_q;
  logic                  last_q;
  logic [ITEM_WIDTH-1:0] item_q;
  wire                   own = marked_q ? turns_q == $signed({1'b0, front_q}) : mark && in_q == '0;

  always_ff @(posedge clk) begin
    started_q  <= 1'b1;
    standing_q <= rst_n && s_valid && !s_ready;
    if (take) in_q <= in_ends ? '0 : in_q + 1'b1;
    if (give) out_q <= out_ends ? '0 : out_q + 1'b1;
    turns_q <= turns_q + (TURN_BITS + 1)'(take && in_ends) - (TURN_BITS + 1)'(give && out_ends);
    idle_q  <= idle ? idle_q + 1'b1 : '0;
    if (marked_q && give && out_ends) begin
      marked_q <= front_q != '0;
      front_q  <= front_q - 1'b1;
    end
    if (take && own) begin
      if (!marked_q) begin
        marked_q <= 1'b1;
        front_q  <= TURN_BITS'(turns_q) - TURN_BITS'(give && out_ends);
      end
      if (8'(in_q) == from) item_q <= s_item;
      if (in_ends) last_q <= s_last;
    end
    if (!rst_n) begin
      in_q     <= '0;
      out_q    <= '0;
      turns_q  <= '0;
      idle_q   <= '0;
      marked_q <= 1'b0;
    end
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (!RESETS && started_q) assume (rst_n);
    if (standing_q && rst_n) assume (s_valid);
    if (LAST == 0 && s_valid && !in_ends) assume (!s_last);
    assume (item < 8'(ITEMS));
    if (started_q && rst_n) begin
      assert (turns_q >= -1 && turns_q <= (TURN_BITS + 1)'(MOST));
      assert (idle_q < IDLE_BITS'(WAIT));
      if (m_valid) begin
        // it has its source
        assert (turns_q > 0 || (turns_q == 0 && 8'(in_q) + 8'(EARLY && s_valid) >= need));
        if (LAST == 0 && !out_ends) assert (!m_last);
        if (LAST == 1) assert (m_last == out_ends);
        if (marked_q && front_q == '0) begin
          if (LAST == 0 && out_ends) assert (m_last == last_q);
          if (8'(out_q) == at) assert (m_item == (from == '1 ? '0 : item_q));
        end
      end
    end
    if (STALLS) cover (started_q && rst_n && marked_q && front_q == '0 && m_valid && !m_ready && out_ends);
    cover (started_q && rst_n && marked_q && front_q == '0 && give && out_ends && (m_last || LAST == 2));
  end

endmodule

`default_nettype wire
