// SPDX-License-Identifier: Apache-2.0
//
// The product of two numbers in two's complement; latency two clocks, one product per clock. Numbers of more than 18 bits are cut
// into pieces of 17 bits without a sign, and a last one with the sign. Clock 1 multiplies the pieces, each by each, so that there
// is one multiplier between two registers; clock 2 adds the products.
`default_nettype none

module rf_multiply #(
    parameter int A_WIDTH = 24,  // bits of a
    parameter int B_WIDTH = 16,  // bits of b
    parameter logic [127:0] CONSTANT = 0  // b if it is always the same; 0: the port gives it
) (
    input  logic                              clk,
    input  logic signed [        A_WIDTH-1:0] a,
    input  logic signed [        B_WIDTH-1:0] b,
    output logic signed [A_WIDTH+B_WIDTH-1:0] product
);

  localparam int PIECE = 17;
  localparam int WIDTH = A_WIDTH + B_WIDTH;
  localparam int A_PIECES = A_WIDTH > PIECE + 1 ? (A_WIDTH + PIECE - 2) / PIECE : 1;
  localparam int B_PIECES = B_WIDTH > PIECE + 1 ? (B_WIDTH + PIECE - 2) / PIECE : 1;
  // of a piece with its sign: the same for all, so that a tool sees that a * b and b * a are the same product in a square
  localparam int A_PART = A_PIECES > 1 ? PIECE + 1 : A_WIDTH;
  localparam int B_PART = B_PIECES > 1 ? PIECE + 1 : B_WIDTH;

  if (A_WIDTH < 1 || B_WIDTH < 1) begin : g_check_width
    $error("rf_multiply %m: A_WIDTH is %0d and B_WIDTH %0d, expected 1 or more", A_WIDTH, B_WIDTH);
  end

  wire [B_WIDTH-1:0] factor = CONSTANT != 0 ? B_WIDTH'(CONSTANT) : b;

  // ---------------------------------------------------------------- 1: the products of the pieces
  logic [A_PIECES*B_PIECES-1:0][WIDTH-1:0] parts;  // each in its place

  for (genvar i = 0; i < A_PIECES; i++) begin : g_a
    localparam bit A_TOP = i == A_PIECES - 1;
    localparam int A_BITS = A_TOP ? A_WIDTH - i * PIECE : PIECE;
    wire [A_BITS-1:0] a_bits = a[i*PIECE+:A_BITS];
    wire signed [A_PART-1:0] a_part = A_PART'($signed({A_TOP && a_bits[A_BITS-1], a_bits}));

    for (genvar j = 0; j < B_PIECES; j++) begin : g_b
      localparam bit B_TOP = j == B_PIECES - 1;
      localparam int B_BITS = B_TOP ? B_WIDTH - j * PIECE : PIECE;
      localparam int AT = i * B_PIECES + j;
      wire [B_BITS-1:0] b_bits = factor[j*PIECE+:B_BITS];
      wire signed [B_PART-1:0] b_part = B_PART'($signed({B_TOP && b_bits[B_BITS-1], b_bits}));
      logic signed [A_PART+B_PART-1:0] part_q;
      wire signed [WIDTH-1:0] part = WIDTH'(part_q);
      always_ff @(posedge clk) part_q <= (A_PART + B_PART)'(a_part) * (A_PART + B_PART)'(b_part);
      assign parts[AT] = part << ((i + j) * PIECE);
    end
  end

  // ---------------------------------------------------------------- 2: their sum
  logic [WIDTH-1:0] sum;

  always_comb begin
    sum = '0;
    for (int at = 0; at < A_PIECES * B_PIECES; at++) sum = sum + parts[at];
  end
  always_ff @(posedge clk) product <= sum;

  wire unused = &{1'b0, b};  // a constant instead

endmodule

`default_nettype wire
