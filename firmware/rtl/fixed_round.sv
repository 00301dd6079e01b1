// SPDX-License-Identifier: Apache-2.0
//
// The last stages of every conversion to fixed point: rounds a sign and magnitude and handles overflow, in two clocks, one
// number per clock while `enable` is set.
//
//   raw = overflow(round(+-magnitude * 2**-POINT))
//
// The modes are ap_fixed's (UG1399), numbered as in hls/fixed.py. `beyond` means that the whole part is 2**WIDTH or more and
// `magnitude` has only its low bits; `infinite` means an infinity. The reference is FixedPoint.from_float (hls/fixed.py).
`default_nettype none

module fixed_round #(
    // bits of the raw number
    parameter int WIDTH = 16,
    // bits of the magnitude right of the point, at least 2
    parameter int POINT = 25,
    // 1: two's complement, 0: unsigned
    parameter bit SIGNED = 1'b1,
    // one of the modes below
    parameter int ROUNDING = 0,
    // one of the modes below
    parameter int OVERFLOW = 0
) (
    input  logic                   clk,
    input  logic                   enable,
    input  logic                   negative,
    input  logic                   infinite,
    input  logic                   beyond,
    input  logic [WIDTH+POINT-1:0] magnitude,
    output logic [      WIDTH-1:0] raw
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

  if (WIDTH < 1 || WIDTH > 62) begin : g_check_width
    $error("fixed_round %m: WIDTH is %0d, expected 1 to 62", WIDTH);
  end
  if (POINT < 2) begin : g_check_point
    $error("fixed_round %m: POINT is %0d, expected at least 2", POINT);
  end
  if (ROUNDING < TRN || ROUNDING > RND_MIN_INF) begin : g_check_rounding
    $error("fixed_round %m: ROUNDING is %0d, expected 0 to 6", ROUNDING);
  end
  if (OVERFLOW != WRAP && OVERFLOW != SAT && OVERFLOW != SAT_ZERO && OVERFLOW != SAT_SYM) begin : g_check_overflow
    $error("fixed_round %m: OVERFLOW is %0d, expected 0 to 3", OVERFLOW);
  end

  localparam logic [WIDTH-1:0] MAX_RAW = SIGNED ? {WIDTH{1'b1}} >> 1 : {WIDTH{1'b1}};
  localparam logic [WIDTH-1:0] MIN_RAW = SIGNED ? ~({WIDTH{1'b1}} >> 1) : '0;
  localparam logic [WIDTH-1:0] SYM_RAW = SIGNED ? -MAX_RAW : '0;
  // the results for a number that is too large and for one that is too small
  localparam logic [WIDTH-1:0] ABOVE = OVERFLOW == SAT_ZERO ? '0 : MAX_RAW;
  localparam logic [WIDTH-1:0] BELOW = OVERFLOW == SAT_ZERO ? '0 : OVERFLOW == SAT_SYM ? SYM_RAW : MIN_RAW;

  // 1: the inputs of rounding. Of the bits below the half bit it matters only whether any is set; they are ORed in groups of six,
  // the inputs of one LUT
  localparam int SIXES = (POINT + 4) / 6;

  logic             negative_q;
  logic             beyond_q;
  logic             infinite_q;
  logic             half_q;
  logic [SIXES-1:0] sticky_q;
  logic [WIDTH-1:0] whole_q;

  wire [6*SIXES-1:0] rest = (6 * SIXES)'(magnitude[POINT-2:0]);

  for (genvar i = 0; i < SIXES; i++) begin : gen_sticky
    always_ff @(posedge clk) if (enable) sticky_q[i] <= rest[6*i+:6] != '0;
  end

  always_ff @(posedge clk) begin
    if (enable) begin
      negative_q <= negative;
      infinite_q <= infinite;
      beyond_q   <= beyond;
      half_q     <= magnitude[POINT-1];
      whole_q    <= magnitude[POINT+:WIDTH];
    end
  end

  // 2: decide how to round, round, negate, handle overflow
  wire sticky = sticky_q != '0;
  wire up;  // the magnitude is incremented

  if (ROUNDING == TRN) begin : gen_trn
    assign up = negative_q && (half_q || sticky);
  end else if (ROUNDING == RND) begin : gen_rnd
    assign up = half_q && (!negative_q || sticky);
  end else if (ROUNDING == RND_CONV) begin : gen_rnd_conv
    assign up = half_q && (sticky || whole_q[0]);
  end else if (ROUNDING == TRN_ZERO) begin : gen_trn_zero
    assign up = 1'b0;
    wire unused = &{1'b0, half_q, sticky};
  end else if (ROUNDING == RND_ZERO) begin : gen_rnd_zero
    assign up = half_q && sticky;
  end else if (ROUNDING == RND_INF) begin : gen_rnd_inf
    assign up = half_q;
    wire unused = &{1'b0, sticky};
  end else begin : gen_rnd_min_inf
    assign up = half_q && (negative_q || sticky);
  end

  wire           carry = negative_q ^ up;  // -(whole + up) equals ~whole + !up
  wire [WIDTH:0] sum = ({1'b0, whole_q} ^ {(WIDTH + 1) {negative_q}}) + (WIDTH + 1)'(carry);
  wire           least = OVERFLOW == SAT_SYM && SIGNED && sum[WIDTH-1:0] == MIN_RAW;
  wire           outside;

  if (OVERFLOW == WRAP) begin : gen_wrap
    assign outside = infinite_q;
    wire unused = &{1'b0, beyond_q, sum[WIDTH], least};
  end else if (SIGNED) begin : gen_saturate_signed
    wire high = sum[WIDTH] || sum[WIDTH-1];
    wire low = sum[WIDTH] && !sum[WIDTH-1];
    assign outside = infinite_q || beyond_q || (negative_q ? low || least : high);
  end else begin : gen_saturate_unsigned
    assign outside = infinite_q || beyond_q || sum[WIDTH];
    wire unused = &{1'b0, least};
  end

  always_ff @(posedge clk) begin
    if (enable) raw <= outside ? (negative_q ? BELOW : ABOVE) : sum[WIDTH-1:0];
  end

endmodule

`default_nettype wire
