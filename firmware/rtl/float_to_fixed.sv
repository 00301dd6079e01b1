// SPDX-License-Identifier: Apache-2.0
//
// Converts an IEEE 754 number to a raw fixed-point number in three clocks, one number per clock while `enable` is set.
//
//   raw = overflow(round(x * 2**SHIFT))     the modes of ap_fixed_pkg
//
//   FP32: 8 and 23 bits     FP16: 5 and 10 bits     BF16: 8 and 7 bits
//
// NaN gives 0; an infinity gives the saturated result, in WRAP an end of the range; denormals are converted like any number.
// The reference is TensorSpec.to_raw (hls/spec.py).
//
// The mantissa m has the value m * 2**(e - BIAS - MANTISSA_BITS + SHIFT). It is shifted into a number with MANTISSA_BITS + 2
// bits right of the point, by up to three places in the first clock and by a multiple of four in the second. A value that is too
// small for this only sets the sticky bit: it becomes 1, unshifted. The shifted number is a sign and a magnitude; it becomes two's
// complement in the adder that rounds it.
`default_nettype none

module float_to_fixed #(
    // bits of the exponent and of the fraction; with the sign they make the number
    parameter int EXPONENT_BITS = 8,
    parameter int MANTISSA_BITS = 23,
    // bits of the raw number
    parameter int WIDTH = 16,
    // fraction bits plus the scale exponent of this element
    parameter int SHIFT = 10,
    // 1: two's complement, 0: unsigned
    parameter bit SIGNED = 1'b1,
    // modes of ap_fixed_pkg
    parameter int ROUNDING = ap_fixed_pkg::TRN,
    parameter int OVERFLOW = ap_fixed_pkg::WRAP
) (
    input  logic                                 clk,
    input  logic                                 enable,
    input  logic [EXPONENT_BITS+MANTISSA_BITS:0] x,
    output logic [                    WIDTH-1:0] raw
);

  if (EXPONENT_BITS < 4 || EXPONENT_BITS > 8 || MANTISSA_BITS < 2 || MANTISSA_BITS > 23) begin : g_check_format
    $error("float_to_fixed %m: %0d and %0d bits, expected 4 to 8 and 2 to 23", EXPONENT_BITS, MANTISSA_BITS);
  end
  if (SHIFT < -400 || SHIFT > 400) begin : g_check_shift
    $error("float_to_fixed %m: SHIFT is %0d, expected -400 to 400", SHIFT);
  end
  if (WIDTH < 1 || WIDTH > 62) begin : g_check_width
    $error("float_to_fixed %m: WIDTH is %0d, expected 1 to 62", WIDTH);
  end
  if (ROUNDING < ap_fixed_pkg::TRN || ROUNDING > ap_fixed_pkg::RND_MIN_INF) begin : g_check_rounding
    $error("float_to_fixed %m: ROUNDING is %0d, expected 0 to 6", ROUNDING);
  end
  if (OVERFLOW < ap_fixed_pkg::WRAP || OVERFLOW > ap_fixed_pkg::SAT_SYM) begin : g_check_overflow
    $error("float_to_fixed %m: OVERFLOW is %0d, expected 0 to 3", OVERFLOW);
  end

  localparam int BIAS = (1 << (EXPONENT_BITS - 1)) - 1;
  localparam int POINT = MANTISSA_BITS + 2;  // bits right of the point: the mantissa, its hidden bit and one more
  localparam int KEPT = WIDTH + POINT;
  localparam int MAX_SHIFT = KEPT - 1;  // beyond it no bit of the mantissa is in the raw number
  localparam int SHIFT_BITS = $clog2(KEPT);
  localparam int DENORMAL = 1 + SHIFT - BIAS - MANTISSA_BITS + POINT;  // the shift of denormals
  // If even a denormal can overflow, only the bits shifted out show it.
  localparam int ALIGNED = DENORMAL > WIDTH + 1 ? KEPT + MANTISSA_BITS : KEPT;
  localparam int NEAR = MANTISSA_BITS + 4 < ALIGNED ? MANTISSA_BITS + 4 : ALIGNED;  // the mantissa, shifted by up to three places

  wire                       sign;
  wire [  EXPONENT_BITS-1:0] field;
  wire [  MANTISSA_BITS-1:0] fraction;
  assign {sign, field, fraction} = x;

  wire               normal = field != '0;
  wire               special = field == '1;
  wire               zero_fraction = fraction == '0;

  // The shift is field + DENORMAL - 1, and that of field 1 for denormals. Each test compares the field itself with a constant.
  wire signed [          10:0] biased = $signed(11'(field));
  wire        [SHIFT_BITS-1:0] shift = normal ? SHIFT_BITS'(field) + SHIFT_BITS'(DENORMAL - 1) : SHIFT_BITS'(DENORMAL);
  wire                         below = biased < 11'(1 - DENORMAL);
  wire                         beyond = DENORMAL > MAX_SHIFT || biased > 11'(MAX_SHIFT + 1 - DENORMAL);
  wire                         tiny = below && !special && (normal || !zero_fraction);
  wire                         above = biased > 11'(WIDTH + 2 - DENORMAL);

  // 1: decode, and shift by the two low bits
  logic                     sign_q;
  logic                     clamp_q;  // the magnitude is 2**WIDTH or more
  logic                     infinite_q;
  logic [         NEAR-1:0] mantissa_q;
  logic [   SHIFT_BITS-3:0] fours_q;

  always_ff @(posedge clk) begin
    if (enable) begin
      sign_q     <= sign && (!special || zero_fraction);
      infinite_q <= special && zero_fraction;
      clamp_q    <= !special && (normal ? above : (beyond && !zero_fraction));
      mantissa_q <= (special || beyond || below) ? NEAR'(tiny) : NEAR'({3'd0, normal, fraction} << shift[1:0]);
      fours_q    <= below ? '0 : shift[SHIFT_BITS-1:2];
    end
  end

  // 2: shift by the other bits. Of the bits below the half bit it matters only whether any is set; they are ORed in groups of six,
  // the inputs of one LUT
  localparam int SIXES = (POINT + 4) / 6;

  wire [ALIGNED-1:0] aligned = ALIGNED'(mantissa_q) << {fours_q, 2'b00};
  wire [6*SIXES-1:0] rest = (6 * SIXES)'(aligned[POINT-2:0]);
  wire               lost;

  if (ALIGNED > KEPT) begin : gen_lost
    assign lost = aligned[ALIGNED-1:KEPT] != '0;
  end else begin : gen_none_lost
    assign lost = 1'b0;
  end

  logic             negative_q;
  logic             beyond_q;
  logic             endless_q;
  logic             half_q;
  logic [SIXES-1:0] sticky_q;
  logic [WIDTH-1:0] whole_q;

  for (genvar i = 0; i < SIXES; i++) begin : gen_sticky
    always_ff @(posedge clk) if (enable) sticky_q[i] <= rest[6*i+:6] != '0;
  end

  always_ff @(posedge clk) begin
    if (enable) begin
      negative_q <= sign_q;
      endless_q  <= infinite_q;
      beyond_q   <= clamp_q || lost;
      half_q     <= aligned[POINT-1];
      whole_q    <= aligned[POINT+:WIDTH];
    end
  end

  // 3: round, negate, handle overflow. In two's complement, a negative number without bits below the point is ~whole + 1; with
  // such bits it is ~whole, and the bits below its point are one minus those of the magnitude.
  localparam logic [WIDTH-1:0] ABOVE = WIDTH'(ap_fixed_pkg::above(OVERFLOW, SIGNED, WIDTH));
  localparam logic [WIDTH-1:0] BELOW = WIDTH'(ap_fixed_pkg::below(OVERFLOW, SIGNED, WIDTH));
  localparam logic [WIDTH-1:0] LEAST = WIDTH'(ap_fixed_pkg::below(ap_fixed_pkg::SAT, SIGNED, WIDTH));

  wire sticky = sticky_q != '0;
  wire up = ap_fixed_pkg::rounds_up(
      ROUNDING, negative_q, half_q ^ (negative_q && sticky), sticky, whole_q[0] ^ negative_q);
  wire           carry = up || (negative_q && !half_q && !sticky);
  wire [WIDTH:0] sum = ({1'b0, whole_q} ^ {(WIDTH + 1) {negative_q}}) + (WIDTH + 1)'(carry);
  wire           least = OVERFLOW == ap_fixed_pkg::SAT_SYM && SIGNED && sum[WIDTH-1:0] == LEAST;
  wire           outside;

  if (OVERFLOW == ap_fixed_pkg::WRAP) begin : gen_wrap
    assign outside = endless_q;
    wire unused = &{1'b0, beyond_q, sum[WIDTH], least};
  end else if (SIGNED) begin : gen_saturate_signed
    wire high = sum[WIDTH] || sum[WIDTH-1];
    wire low = sum[WIDTH] && !sum[WIDTH-1];
    assign outside = endless_q || beyond_q || (negative_q ? low || least : high);
  end else begin : gen_saturate_unsigned
    assign outside = endless_q || beyond_q || sum[WIDTH];
    wire unused = &{1'b0, least};
  end

  always_ff @(posedge clk) begin
    if (enable) raw <= outside ? (negative_q ? BELOW : ABOVE) : sum[WIDTH-1:0];
  end

endmodule

`default_nettype wire
