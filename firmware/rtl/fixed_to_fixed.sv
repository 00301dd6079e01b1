// SPDX-License-Identifier: Apache-2.0
//
// Converts a raw fixed-point number to another type in three clocks, one number per clock while `enable` is set.
//
//   raw = overflow(round(x * 2**SHIFT))     the modes of fixed_round; SHIFT = fraction bits out - fraction bits in
//
// The reference is TensorSpec.to_raw and from_raw (hls/spec.py) with an integer datatype.
`default_nettype none

module fixed_to_fixed #(
    // bits of the input, and whether it is two's complement
    parameter int WIDTH_IN = 16,
    parameter bit SIGNED_IN = 1'b1,
    // see above; may be negative
    parameter int SHIFT = 0,
    // bits of the output, and whether it is two's complement
    parameter int WIDTH = 16,
    parameter bit SIGNED = 1'b1,
    // see fixed_round
    parameter int ROUNDING = 0,
    parameter int OVERFLOW = 0
) (
    input  logic                clk,
    input  logic                enable,
    input  logic [WIDTH_IN-1:0] x,
    output logic [   WIDTH-1:0] raw
);

  if (WIDTH_IN < 1 || WIDTH_IN > 62) begin : g_check_width_in
    $error("fixed_to_fixed %m: WIDTH_IN is %0d, expected 1 to 62", WIDTH_IN);
  end
  if (SHIFT < -400 || SHIFT > 400) begin : g_check_shift
    $error("fixed_to_fixed %m: SHIFT is %0d, expected -400 to 400", SHIFT);
  end

  localparam int DOWN = SHIFT < -2 ? -SHIFT : 2;
  localparam int POINT = DOWN > WIDTH_IN + 2 ? WIDTH_IN + 2 : DOWN;  // beyond this shift only the sticky bit is left
  localparam int LEFT = SHIFT + POINT < 0 ? 0 : SHIFT + POINT;
  localparam int KEPT = WIDTH + POINT;
  localparam int ALL = WIDTH_IN + LEFT > KEPT ? WIDTH_IN + LEFT : KEPT;

  wire                negative = SIGNED_IN && x[WIDTH_IN-1];
  logic               negative_q;
  logic [WIDTH_IN-1:0] magnitude_q;

  always_ff @(posedge clk) begin
    if (enable) begin
      negative_q  <= negative;
      magnitude_q <= negative ? -x : x;
    end
  end

  wire [ALL-1:0] aligned = ALL'(magnitude_q) << LEFT;
  wire           lost;

  if (ALL > KEPT) begin : gen_lost
    assign lost = aligned[ALL-1:KEPT] != '0;
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
      .negative (negative_q),
      .infinite (1'b0),
      .beyond   (lost),
      .magnitude(aligned[KEPT-1:0]),
      .raw      (raw)
  );

endmodule

`default_nettype wire
