// SPDX-License-Identifier: Apache-2.0
//
// axis_tensor_unpack: rows of A_PIECES pieces of A words, then B_PIECES of B (unpack_rules.sv), of the sizes in proofs.toml. Each
// tensor has its turn (tensor_turns).
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
  ) u_axis_tensor_unpack (.*);

  (* inner = "u_axis_tensor_unpack.held_q" *) wire [HELD_WIDTH-1:0] inner_held;
  (* inner = "u_axis_tensor_unpack.fill_q" *) wire [$clog2(UNITS + 2)-1:0] inner_fill;
  (* inner = "u_axis_tensor_unpack.active_q" *) wire inner_active;
  (* inner = "u_axis_tensor_unpack.last_q" *) wire inner_last;
  (* inner = "u_axis_tensor_unpack.left_q" *) wire [2:0] inner_left;
  (* inner = "u_axis_tensor_unpack.u_tensor_turns.turn_q" *) wire [TENSORS-1:0] inner_turn;
  (* inner = "u_axis_tensor_unpack.u_tensor_turns.left_q" *) wire [PIECE_BITS-1:0] inner_pieces;
  (* inner = "u_axis_tensor_unpack.u_tensor_turns.ends_q" *) wire inner_ends;

  wire [5:0] piece_q;

  unpack_rules #(
      .BEAT_WORDS(BEAT_WORDS),
      .A         (A),
      .A_PIECES  (A_PIECES),
      .B         (B),
      .B_PIECES  (B_PIECES),
      .WORD_WIDTH(WORD_WIDTH),
      .MOST      (MOST),
      .UNIT      (UNIT),
      .UNITS     (UNITS)
  ) u_rules (.*);

  logic started_q = 1'b0;
  wire  of_a = piece_q < 6'(A_PIECES);
  always_ff @(posedge clk) started_q <= 1'b1;

  always_comb begin
    if (started_q && rst_n) begin
      assert (inner_turn == (of_a ? TENSORS'(1) : TENSORS'(2)));
      assert (6'(inner_pieces) == (of_a ? 6'(A_PIECES - 1) : 6'(A_PIECES + B_PIECES - 1)) - piece_q);
      assert (inner_ends == (inner_pieces == '0));
    end
  end

endmodule

`default_nettype wire
