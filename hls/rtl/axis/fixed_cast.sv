// SPDX-License-Identifier: Apache-2.0
//
// Casts a raw fixed-point number to another type, in two clocks, one number per clock while `enable` is set:
//
//   y = overflow(round(x * 2**-SHIFT))     SHIFT = fraction bits of x - fraction bits of y
//
// Clock 1 rounds, with one adder as wide as the bits that are left; clock 2 handles overflow. The reference is FixedPoint.cast
// (hls/fixed.py).
`default_nettype none

module fixed_cast #(
    // bits of the input, and whether it is two's complement
    parameter int IN_WIDTH = 32,
    parameter bit SIGNED_IN = 1'b1,
    // bits to shift right; negative: shift left, which is exact
    parameter int SHIFT = 8,
    // bits of the output, and whether it is two's complement
    parameter int WIDTH = 16,
    parameter bit SIGNED = 1'b1,
    // modes of ap_fixed_pkg
    parameter int ROUNDING = ap_fixed_pkg::TRN,
    parameter int OVERFLOW = ap_fixed_pkg::WRAP
) (
    input  logic                clk,
    input  logic                enable,
    input  logic [IN_WIDTH-1:0] x,
    output logic [   WIDTH-1:0] y
);

  if (IN_WIDTH < 1 || IN_WIDTH > 128) begin : g_check_in_width
    $error("fixed_cast %m: IN_WIDTH is %0d, expected 1 to 128", IN_WIDTH);
  end
  if (WIDTH < 1 || WIDTH > 128) begin : g_check_width
    $error("fixed_cast %m: WIDTH is %0d, expected 1 to 128", WIDTH);
  end
  if (SHIFT < -400 || SHIFT > 400) begin : g_check_shift
    $error("fixed_cast %m: SHIFT is %0d, expected -400 to 400", SHIFT);
  end
  if (ROUNDING < ap_fixed_pkg::TRN || ROUNDING > ap_fixed_pkg::RND_MIN_INF) begin : g_check_rounding
    $error("fixed_cast %m: ROUNDING is %0d, expected 0 to 6", ROUNDING);
  end
  if (OVERFLOW < ap_fixed_pkg::WRAP || OVERFLOW > ap_fixed_pkg::SAT_SYM) begin : g_check_overflow
    $error("fixed_cast %m: OVERFLOW is %0d, expected 0 to 3", OVERFLOW);
  end

  // beyond this shift every number is at most a quarter: only its sign and whether it is zero matter
  localparam int RIGHT = SHIFT > IN_WIDTH + 1 ? IN_WIDTH + 1 : SHIFT > 0 ? SHIFT : 0;
  localparam int LEFT = SHIFT < 0 ? -SHIFT : 0;
  // the number with a sign bit and a bit for rounding up, and wide enough to contain a whole result
  localparam int ALL = IN_WIDTH + 2 + LEFT;
  localparam int WHOLE = ALL - RIGHT > WIDTH + 1 ? ALL - RIGHT : WIDTH + 1;

  wire negative = SIGNED_IN && x[IN_WIDTH-1];
  wire [WHOLE+RIGHT-1:0] aligned = {{(WHOLE + RIGHT - IN_WIDTH) {negative}}, x} << LEFT;

  // 1: round
  logic [WHOLE-1:0] whole_q;

  if (RIGHT == 0) begin : gen_exact
    always_ff @(posedge clk) if (enable) whole_q <= aligned;
  end else begin : gen_round
    wire sticky;

    if (RIGHT > 1) begin : gen_sticky
      assign sticky = aligned[RIGHT-2:0] != '0;
    end else begin : gen_no_sticky
      assign sticky = 1'b0;
    end

    wire up = ap_fixed_pkg::rounds_up(ROUNDING, negative, aligned[RIGHT-1], sticky, aligned[RIGHT]);

    always_ff @(posedge clk) if (enable) whole_q <= aligned[WHOLE+RIGHT-1:RIGHT] + WHOLE'(up);
  end

  // 2: overflow
  localparam logic [WIDTH-1:0] ABOVE = WIDTH'(ap_fixed_pkg::above(OVERFLOW, SIGNED, WIDTH));
  localparam logic [WIDTH-1:0] BELOW = WIDTH'(ap_fixed_pkg::below(OVERFLOW, SIGNED, WIDTH));
  localparam logic [WIDTH-1:0] LEAST = WIDTH'(ap_fixed_pkg::below(ap_fixed_pkg::SAT, SIGNED, WIDTH));

  wire below_zero = whole_q[WHOLE-1];

  if (OVERFLOW == ap_fixed_pkg::WRAP) begin : gen_wrap
    always_ff @(posedge clk) if (enable) y <= whole_q[WIDTH-1:0];
    if (WHOLE > WIDTH) begin : gen_rest
      wire unused = &{1'b0, below_zero, whole_q[WHOLE-1:WIDTH]};
    end
  end else begin : gen_saturate
    wire outside;
    if (SIGNED) begin : gen_signed
      wire least = OVERFLOW == ap_fixed_pkg::SAT_SYM && whole_q[WIDTH-1:0] == LEAST;
      assign outside = whole_q[WHOLE-1:WIDTH-1] != {(WHOLE - WIDTH + 1) {below_zero}} || least;
    end else begin : gen_unsigned
      assign outside = whole_q[WHOLE-1:WIDTH] != '0;
    end
    always_ff @(posedge clk) if (enable) y <= outside ? (below_zero ? BELOW : ABOVE) : whole_q[WIDTH-1:0];
  end

endmodule

`default_nettype wire
