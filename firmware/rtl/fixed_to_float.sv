// SPDX-License-Identifier: Apache-2.0
//
// Converts a raw fixed-point number to an IEEE 754 number in five clocks, one number per clock while `enable` is set.
//
//   y = raw * 2**-SHIFT, rounded once, to nearest even
//
//   FP32: 8 and 23 bits     FP16: 5 and 10 bits     BF16: 8 and 7 bits
//
// Exact up to MANTISSA_BITS + 1 significant bits; as in IEEE 754, results that are too large give infinity and small ones
// denormals.
// The reference is TensorSpec.from_raw (hls/spec.py).
`default_nettype none

module fixed_to_float #(
    // bits of the exponent and of the fraction; with the sign they make the number
    parameter int EXPONENT_BITS = 8,
    parameter int MANTISSA_BITS = 23,
    // bits of the raw number
    parameter int WIDTH = 16,
    // fraction bits plus the scale exponent of this element
    parameter int SHIFT = 10,
    // 1: two's complement, 0: unsigned
    parameter bit SIGNED = 1'b1
) (
    input  logic                                 clk,
    input  logic                                 enable,
    input  logic [                    WIDTH-1:0] raw,
    output logic [EXPONENT_BITS+MANTISSA_BITS:0] y
);

  if (EXPONENT_BITS < 4 || EXPONENT_BITS > 8 || MANTISSA_BITS < 2 || MANTISSA_BITS > 23) begin : g_check_format
    $error("fixed_to_float %m: %0d and %0d bits, expected 4 to 8 and 2 to 23", EXPONENT_BITS, MANTISSA_BITS);
  end
  if (WIDTH < 1 || WIDTH > 62) begin : g_check_width
    $error("fixed_to_float %m: WIDTH is %0d, expected 1 to 62", WIDTH);
  end
  if (SHIFT < -400 || SHIFT > 400) begin : g_check_shift
    $error("fixed_to_float %m: SHIFT is %0d, expected -400 to 400", SHIFT);
  end

  localparam int NORM = (WIDTH > 32) ? 64 : 32;
  localparam int STEPS = (WIDTH > 1) ? $clog2(WIDTH) : 1;  // the leading one is shifted up by at most 2**STEPS - 1
  localparam int LATE = STEPS / 2;  // steps 0 to LATE-1 are in stage 3, the larger ones in stage 2
  localparam int BIAS = (1 << (EXPONENT_BITS - 1)) - 1;
  localparam int TOP = BIAS + WIDTH - 1 - SHIFT;  // biased exponent if the leading one is the top bit
  localparam bit MAY_UNDERFLOW = BIAS - SHIFT < 1;
  localparam bit MAY_OVERFLOW = TOP >= 2 * BIAS;  // TOP is at least the largest exponent, which rounding may still increase

  // 1: magnitude, with its top bit at the top of NORM bits. Whether its TOP_BITS top bits are zero, the first test of stage 2, is
  // found beside the negation: those of -raw are zero if those of raw are ones and a bit below is set.
  localparam int TOP_BITS = 1 << (STEPS - 1);

  logic            sign1_q;
  logic            clear1_q;
  logic [NORM-1:0] norm1_q;

  wire                negative = SIGNED && raw[WIDTH-1];
  wire [   WIDTH-1:0] magnitude = negative ? -raw : raw;
  wire [TOP_BITS-1:0] raw_top = raw[WIDTH-1-:TOP_BITS];
  wire                below_top = WIDTH'(raw << TOP_BITS) != '0;

  always_ff @(posedge clk) begin
    if (enable) begin
      sign1_q  <= negative;
      clear1_q <= negative ? raw_top == '1 && below_top : raw_top == '0;
      norm1_q  <= NORM'(magnitude) << (NORM - WIDTH);
    end
  end

  // 2 and 3: shift the leading one to the top, in steps of powers of two; `zeros` counts the shift
  wire [STEPS-1:0] zeros_late;
  wire [STEPS-1:0] zeros_early;
  wire [ NORM-1:0] norm_late;

  logic             sign2_q;
  logic [ NORM-1:0] norm2_q;
  logic [STEPS-1:0] zeros2_q;
  logic             sign3_q;
  logic [ NORM-1:0] norm3_q;
  logic [STEPS-1:0] zeros3_q;

  for (genvar i = STEPS - 1; i >= 0; i--) begin : gen_step
    localparam int PLACES = 1 << i;
    wire [NORM-1:0] from;
    if (i == STEPS - 1) begin : gen_from
      assign from = norm1_q;
    end else if (i == LATE - 1) begin : gen_from
      assign from = norm2_q;
    end else begin : gen_from
      assign from = gen_step[i+1].moved;
    end
    wire clear = (i == STEPS - 1) ? clear1_q : from[NORM-1-:PLACES] == '0;
    wire [NORM-1:0] moved = clear ? from << PLACES : from;
    assign zeros_early[i] = (i >= LATE) && clear;
    assign zeros_late[i]  = (i < LATE) && clear;
  end
  if (LATE > 0) begin : gen_late
    assign norm_late = gen_step[0].moved;
  end else begin : gen_none_late
    assign norm_late = norm2_q;
  end

  always_ff @(posedge clk) begin
    if (enable) begin
      sign2_q  <= sign1_q;
      norm2_q  <= gen_step[LATE].moved;
      zeros2_q <= zeros_early;
      sign3_q  <= sign2_q;
      norm3_q  <= norm_late;
      zeros3_q <= zeros2_q | zeros_late;
    end
  end

  // 4: exponent; results below the normal range are shifted down
  logic               sign4_q;
  logic [   NORM-1:0] norm4_q;
  logic               sticky4_q;
  logic signed [11:0] exponent4_q;  // biased; 0 for denormals

  wire signed  [11:0] exponent = 12'(TOP) - 12'(zeros3_q);
  wire                zero = !norm3_q[NORM-1];

  if (MAY_UNDERFLOW) begin : gen_underflow
    localparam int FURTHEST = MANTISSA_BITS + 3;  // beyond this shift only the sticky bit is left
    wire signed [11:0] down = 12'sd1 - exponent;
    wire [4:0] places = down <= 0 ? 5'd0 : down > 12'(FURTHEST) ? 5'(FURTHEST) : down[4:0];
    wire [NORM+FURTHEST-1:0] shifted = {norm3_q, {FURTHEST{1'b0}}} >> places;
    always_ff @(posedge clk) begin
      if (enable) begin
        norm4_q     <= shifted[NORM+FURTHEST-1-:NORM];
        sticky4_q   <= shifted[FURTHEST-1:0] != '0;
        exponent4_q <= (zero || down > 0) ? 12'sd0 : exponent;
      end
    end
  end else begin : gen_normal
    always_ff @(posedge clk) begin
      if (enable) begin
        norm4_q     <= norm3_q;
        sticky4_q   <= 1'b0;
        exponent4_q <= zero ? 12'sd0 : exponent;
      end
    end
  end
  always_ff @(posedge clk) if (enable) sign4_q <= sign3_q;

  // 5: round; the hidden bit, and a carry out of the fraction, are added to the exponent
  wire [            MANTISSA_BITS:0] significand = norm4_q[NORM-1-:MANTISSA_BITS+1];
  wire                               half = norm4_q[NORM-MANTISSA_BITS-2];
  wire                               sticky = sticky4_q || norm4_q[NORM-MANTISSA_BITS-3:0] != '0;
  wire                               up = half && (sticky || significand[0]);
  wire [                       11:0] hidden = exponent4_q == '0 ? 12'd0 : exponent4_q - 12'd1;
  wire [           MANTISSA_BITS+11:0] sum = {hidden, {MANTISSA_BITS{1'b0}}} + (MANTISSA_BITS + 12)'(significand) + (MANTISSA_BITS + 12)'(up);
  wire                               infinite = MAY_OVERFLOW && sum[MANTISSA_BITS+:12] > 12'(2 * BIAS);

  always_ff @(posedge clk) begin
    if (enable) y <= {sign4_q, infinite ? {{EXPONENT_BITS{1'b1}}, {MANTISSA_BITS{1'b0}}} : sum[EXPONENT_BITS+MANTISSA_BITS-1:0]};
  end

  wire unused = &{1'b0, sum[MANTISSA_BITS+11:EXPONENT_BITS+MANTISSA_BITS]};

endmodule

`default_nettype wire
