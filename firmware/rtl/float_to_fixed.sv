// SPDX-License-Identifier: Apache-2.0
//
// Converts an IEEE 754 number to a raw fixed-point number in three clocks, one number per clock while `enable` is set.
//
//   raw = overflow(round(x * 2**SHIFT))     the modes of fixed_round
//
//   FP32: 8 and 23 bits     FP16: 5 and 10 bits     BF16: 8 and 7 bits
//
// NaN gives 0; an infinity gives the saturated result, in WRAP an end of the range; denormals are converted like any number.
// The reference is TensorSpec.to_raw (hls/spec.py).
//
// The mantissa m has the value m * 2**(e - BIAS - MANTISSA_BITS + SHIFT). It is shifted into a number with MANTISSA_BITS + 2
// bits right of the point. A smaller value would only set the sticky bit, which an unshifted m does too, so the shift is clamped
// at 0.
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
    // see fixed_round
    parameter int ROUNDING = 0,
    parameter int OVERFLOW = 0
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

  localparam int BIAS = (1 << (EXPONENT_BITS - 1)) - 1;
  localparam int POINT = MANTISSA_BITS + 2;  // bits right of the point: the mantissa, its hidden bit and one more
  localparam int KEPT = WIDTH + POINT;
  localparam int MAX_SHIFT = KEPT - 1;  // beyond it no bit of the mantissa is in the raw number
  localparam int SHIFT_BITS = $clog2(KEPT);
  localparam int DENORMAL = 1 + SHIFT - BIAS - MANTISSA_BITS + POINT;  // the shift of denormals
  // If even a denormal can overflow, only the bits shifted out show it.
  localparam int ALIGNED = DENORMAL > WIDTH + 1 ? KEPT + MANTISSA_BITS : KEPT;

  wire                       sign;
  wire [  EXPONENT_BITS-1:0] field;
  wire [  MANTISSA_BITS-1:0] fraction;
  assign {sign, field, fraction} = x;

  wire               normal = field != '0;
  wire               special = field == '1;
  wire               zero_fraction = fraction == '0;
  wire signed [10:0] exponent = $signed(11'(field)) + 11'(DENORMAL - 1) + 11'(!normal);
  wire               below = exponent < 0;
  wire               beyond = exponent > 11'(MAX_SHIFT);

  logic                     sign_q;
  logic                     clamp_q;  // the magnitude is 2**WIDTH or more
  logic                     infinite_q;
  logic [  MANTISSA_BITS:0] mantissa_q;
  logic [   SHIFT_BITS-1:0] shift_q;

  always_ff @(posedge clk) begin
    if (enable) begin
      sign_q     <= sign && (!special || zero_fraction);
      infinite_q <= special && zero_fraction;
      clamp_q    <= !special && (normal ? exponent > 11'(WIDTH + 1) : (beyond && !zero_fraction));
      mantissa_q <= (special || beyond) ? '0 : {normal, fraction};
      shift_q    <= below ? '0 : exponent[SHIFT_BITS-1:0];
    end
  end

  wire [ALIGNED-1:0] aligned = ALIGNED'(mantissa_q) << shift_q;
  wire               lost;

  if (ALIGNED > KEPT) begin : gen_lost
    assign lost = aligned[ALIGNED-1:KEPT] != '0;
  end else begin : gen_none_lost
    assign lost = 1'b0;
  end

  fixed_round #(
      .WIDTH   (WIDTH),
      .POINT   (POINT),
      .SIGNED  (SIGNED),
      .ROUNDING(ROUNDING),
      .OVERFLOW(OVERFLOW)
  ) u_fixed_round (
      .clk      (clk),
      .enable   (enable),
      .negative (sign_q),
      .infinite (infinite_q),
      .beyond   (clamp_q || lost),
      .magnitude(aligned[KEPT-1:0]),
      .raw      (raw)
  );

endmodule

`default_nettype wire
