// SPDX-License-Identifier: Apache-2.0
//
// Casts a raw fixed-point number to another type, in two clocks, one number per clock:
//
//   y = overflow(round(x * 2**-SHIFT))     SHIFT = fraction bits of x - fraction bits of y
//
// The modes are ap_fixed's (UG1399), numbered as in hls/fixed.py. Clock 1 rounds, with one adder as wide as the bits that are
// left; clock 2 handles overflow. The reference is FixedPoint.cast (hls/fixed.py).
`default_nettype none

module rf_cast #(
    // bits of the input, and whether it is two's complement
    parameter int IN_WIDTH = 32,
    parameter bit SIGNED_IN = 1'b1,
    // bits to shift right; negative: shift left, which is exact
    parameter int SHIFT = 8,
    // bits of the output, and whether it is two's complement
    parameter int WIDTH = 16,
    parameter bit SIGNED = 1'b1,
    // one of the modes below
    parameter int ROUNDING = 0,
    // one of the modes below
    parameter int OVERFLOW = 0
) (
    input  logic                clk,
    input  logic [IN_WIDTH-1:0] x,
    output logic [   WIDTH-1:0] y
);

  // ap_fixed's modes, written by firmware/kernel/fixed_modes.py
  localparam int TRN = 0;
  localparam int RND = 1;
  localparam int RND_CONV = 2;
  localparam int TRN_ZERO = 3;
  localparam int RND_ZERO = 4;
  localparam int RND_INF = 5;
  localparam int RND_MIN_INF = 6;
  localparam int WRAP = 0;
  localparam int SAT = 1;
  localparam int SAT_ZERO = 2;
  localparam int SAT_SYM = 3;
  // end of the modes

  if (IN_WIDTH < 1 || IN_WIDTH > 128) begin : g_check_in_width
    $error("rf_cast %m: IN_WIDTH is %0d, expected 1 to 128", IN_WIDTH);
  end
  if (WIDTH < 1 || WIDTH > 128) begin : g_check_width
    $error("rf_cast %m: WIDTH is %0d, expected 1 to 128", WIDTH);
  end
  if (SHIFT < -400 || SHIFT > 400) begin : g_check_shift
    $error("rf_cast %m: SHIFT is %0d, expected -400 to 400", SHIFT);
  end
  if (ROUNDING < TRN || ROUNDING > RND_MIN_INF) begin : g_check_rounding
    $error("rf_cast %m: ROUNDING is %0d, expected 0 to 6", ROUNDING);
  end
  if (OVERFLOW != WRAP && OVERFLOW != SAT && OVERFLOW != SAT_ZERO && OVERFLOW != SAT_SYM) begin : g_check_overflow
    $error("rf_cast %m: OVERFLOW is %0d, expected 0 to 3", OVERFLOW);
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
    always_ff @(posedge clk) whole_q <= aligned;
  end else begin : gen_round
    wire half = aligned[RIGHT-1];
    wire sticky;
    wire up;

    if (RIGHT > 1) begin : gen_sticky
      assign sticky = aligned[RIGHT-2:0] != '0;
    end else begin : gen_no_sticky
      assign sticky = 1'b0;
    end

    if (ROUNDING == TRN) begin : gen_trn
      assign up = 1'b0;
      wire unused = &{1'b0, half, sticky};
    end else if (ROUNDING == RND) begin : gen_rnd
      assign up = half;
      wire unused = &{1'b0, sticky};
    end else if (ROUNDING == RND_CONV) begin : gen_rnd_conv
      assign up = half && (sticky || aligned[RIGHT]);
    end else if (ROUNDING == TRN_ZERO) begin : gen_trn_zero
      assign up = negative && (half || sticky);
    end else if (ROUNDING == RND_ZERO) begin : gen_rnd_zero
      assign up = half && (sticky || negative);
    end else if (ROUNDING == RND_INF) begin : gen_rnd_inf
      assign up = half && (sticky || !negative);
    end else begin : gen_rnd_min_inf
      assign up = half && sticky;
    end

    always_ff @(posedge clk) whole_q <= aligned[WHOLE+RIGHT-1:RIGHT] + WHOLE'(up);
  end

  // 2: overflow
  localparam logic [WIDTH-1:0] MAX_RAW = SIGNED ? {WIDTH{1'b1}} >> 1 : {WIDTH{1'b1}};
  localparam logic [WIDTH-1:0] MIN_RAW = SIGNED ? ~({WIDTH{1'b1}} >> 1) : '0;
  localparam logic [WIDTH-1:0] SYM_RAW = SIGNED ? -MAX_RAW : '0;
  // the results for a number that is too large and for one that is too small
  localparam logic [WIDTH-1:0] ABOVE = OVERFLOW == SAT_ZERO ? '0 : MAX_RAW;
  localparam logic [WIDTH-1:0] BELOW = OVERFLOW == SAT_ZERO ? '0 : OVERFLOW == SAT_SYM ? SYM_RAW : MIN_RAW;

  wire below_zero = whole_q[WHOLE-1];

  if (OVERFLOW == WRAP) begin : gen_wrap
    always_ff @(posedge clk) y <= whole_q[WIDTH-1:0];
    if (WHOLE > WIDTH) begin : gen_rest
      wire unused = &{1'b0, below_zero, whole_q[WHOLE-1:WIDTH]};
    end
  end else begin : gen_saturate
    wire outside;
    if (SIGNED) begin : gen_signed
      wire least = OVERFLOW == SAT_SYM && whole_q[WIDTH-1:0] == MIN_RAW;
      assign outside = whole_q[WHOLE-1:WIDTH-1] != {(WHOLE - WIDTH + 1) {below_zero}} || least;
    end else begin : gen_unsigned
      assign outside = whole_q[WHOLE-1:WIDTH] != '0;
    end
    always_ff @(posedge clk) y <= outside ? (below_zero ? BELOW : ABOVE) : whole_q[WIDTH-1:0];
  end

endmodule

`default_nettype wire
