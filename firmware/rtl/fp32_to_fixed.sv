// SPDX-License-Identifier: Apache-2.0
//
// One FP32 number to one raw fixed-point number, three clocks, one a clock while `enable` is set.
//
//   raw = overflow(round(x * 2**SHIFT))     round: towards minus infinity | nearest, ties up | nearest, ties to even
//
// NaN gives 0 and the infinities the ends of the range, whatever OVERFLOW is; denormals count like any number. The
// reference is TensorSpec.to_raw (hls/spec.py).
//
// The mantissa m (24 bits) stands for m * 2**(e - 150 + SHIFT). It is shifted into a number with 25 bits right of the
// point; anything smaller than that moves only the sticky bit, as m itself does there, so the shift is clamped at 0.
`default_nettype none

module fp32_to_fixed #(
    // bits of the raw number
    parameter int WIDTH = 16,
    // fraction bits plus the scale exponent of this element
    parameter int SHIFT = 10,
    // 1: two's complement, 0: unsigned
    parameter bit SIGNED = 1'b1,
    // 0: TRN, 1: RND, 2: RND_CONV
    parameter int ROUNDING = 0,
    // 0: WRAP, 1: SAT
    parameter int OVERFLOW = 0
) (
    input  logic             clk,
    input  logic             enable,
    input  logic [     31:0] x,
    output logic [WIDTH-1:0] raw
);

  if (WIDTH < 1 || WIDTH > 62) begin : g_check_width
    $error("fp32_to_fixed %m: WIDTH is %0d, expected 1 to 62", WIDTH);
  end
  if (SHIFT < -400 || SHIFT > 400) begin : g_check_shift
    $error("fp32_to_fixed %m: SHIFT is %0d, expected -400 to 400", SHIFT);
  end
  if (ROUNDING < 0 || ROUNDING > 2) begin : g_check_rounding
    $error("fp32_to_fixed %m: ROUNDING is %0d, expected 0 to 2", ROUNDING);
  end
  if (OVERFLOW < 0 || OVERFLOW > 1) begin : g_check_overflow
    $error("fp32_to_fixed %m: OVERFLOW is %0d, expected 0 or 1", OVERFLOW);
  end

  localparam int POINT = 25;  // bits right of the point: the mantissa and one
  localparam int KEPT = WIDTH + POINT;
  localparam int MAX_SHIFT = KEPT - 1;  // beyond it the mantissa leaves the raw number altogether
  localparam int SHIFT_BITS = $clog2(KEPT);
  // Above 100 even a denormal can overflow, and only the bits shifted out tell.
  localparam int ALIGNED = (SHIFT > 100) ? KEPT + 23 : KEPT;
  localparam logic [WIDTH-1:0] MAX_RAW = SIGNED ? {WIDTH{1'b1}} >> 1 : {WIDTH{1'b1}};
  localparam logic [WIDTH-1:0] MIN_RAW = SIGNED ? ~({WIDTH{1'b1}} >> 1) : '0;

  // 1: decode
  wire               normal = x[30:23] != 8'd0;
  wire               special = x[30:23] == 8'd255;
  wire               zero_fraction = x[22:0] == 23'd0;
  wire signed [10:0] exponent = $signed({3'b0, x[30:23]}) + 11'(SHIFT - 150 + POINT) + 11'(!normal);
  wire               below = exponent < 0;
  wire               beyond = exponent > 11'(MAX_SHIFT);

  logic                  sign1_q;
  logic                  clamp1_q;  // the magnitude is 2**WIDTH or more
  logic                  infinite1_q;
  logic [          23:0] mantissa1_q;
  logic [SHIFT_BITS-1:0] shift1_q;

  always_ff @(posedge clk) begin
    if (enable) begin
      sign1_q     <= x[31] && (!special || zero_fraction);
      infinite1_q <= special && zero_fraction;
      clamp1_q    <= !special && (normal ? exponent > 11'(WIDTH + 1) : (beyond && !zero_fraction));
      mantissa1_q <= (special || beyond) ? 24'd0 : {normal, x[22:0]};
      shift1_q    <= below ? '0 : exponent[SHIFT_BITS-1:0];
    end
  end

  // 2: align, decide on rounding
  wire [ALIGNED-1:0] aligned = ALIGNED'(mantissa1_q) << shift1_q;
  wire [  WIDTH-1:0] whole = aligned[POINT+:WIDTH];
  wire               half = aligned[POINT-1];
  wire               sticky = aligned[POINT-2:0] != '0;
  wire               lost;
  wire               up;  // the magnitude grows by one

  if (ALIGNED > KEPT) begin : gen_lost
    assign lost = aligned[ALIGNED-1:KEPT] != '0;
  end else begin : gen_none_lost
    assign lost = 1'b0;
  end
  if (ROUNDING == 0) begin : gen_trn
    assign up = sign1_q && (half || sticky);
  end else if (ROUNDING == 1) begin : gen_rnd
    assign up = half && (!sign1_q || sticky);
  end else begin : gen_rnd_conv
    assign up = half && (sticky || whole[0]);
  end

  logic             sign2_q;
  logic             clamp2_q;
  logic             infinite2_q;
  logic             carry2_q;
  logic [WIDTH-1:0] whole2_q;

  always_ff @(posedge clk) begin
    if (enable) begin
      sign2_q     <= sign1_q;
      infinite2_q <= infinite1_q;
      clamp2_q    <= clamp1_q || lost;
      carry2_q    <= sign1_q ^ up;  // -(whole + up) is ~whole + !up
      whole2_q    <= whole;
    end
  end

  // 3: round, negate, saturate
  wire [WIDTH:0] sum = ({1'b0, whole2_q} ^ {(WIDTH + 1) {sign2_q}}) + (WIDTH + 1)'(carry2_q);
  wire           outside;

  if (OVERFLOW == 0) begin : gen_wrap
    assign outside = infinite2_q;
    wire unused = &{1'b0, clamp2_q, sum[WIDTH]};
  end else if (SIGNED) begin : gen_sat_signed
    assign outside = infinite2_q || clamp2_q || (sign2_q ? sum[WIDTH] && !sum[WIDTH-1] : sum[WIDTH] || sum[WIDTH-1]);
  end else begin : gen_sat_unsigned
    assign outside = infinite2_q || clamp2_q || sum[WIDTH];
  end

  always_ff @(posedge clk) begin
    if (enable) raw <= outside ? (sign2_q ? MIN_RAW : MAX_RAW) : sum[WIDTH-1:0];
  end

endmodule

`default_nettype wire
