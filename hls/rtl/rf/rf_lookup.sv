// SPDX-License-Identifier: Apache-2.0
//
// Looks up a function in a table, one number per clock, in 7 clocks:
//
//   index = towards_zero(x * SCALE * 2**-SCALE_SHIFT) + OFFSET, clamped to 0 ... TABLE_SIZE - 1
//   y = table[index]
//
// hls4ml looks up sigmoid, tanh, softplus and softsign in this way: SCALE is the table's size, SCALE_SHIFT the fraction bits of
// x plus 4 for a range of 16, and OFFSET half the table. ELU and SELU look up only negative x (POSITIVE_PASS, negative SCALE);
// for x >= 0 they are y = result_t(x * GAIN). A ReLU is this with a table of one 0. The table has raw results.
`default_nettype none

module rf_lookup #(
    parameter int X_WIDTH = 8,  // bits of an input element
    parameter bit X_SIGNED = 1'b1,  // it is two's complement
    parameter int SCALE = 16,  // see above; may be negative
    parameter int SCALE_SHIFT = 8,  // may be negative: shift left
    parameter int OFFSET = 8,
    parameter int TABLE_SIZE = 16,  // numbers in the table
    parameter TABLE_FILE = "",  // $readmemh: TABLE_SIZE words of Y_WIDTH bits
    parameter bit POSITIVE_PASS = 1'b0,  // for x >= 0 the result is x * GAIN instead of a table entry
    parameter int GAIN = 1,  // the other factor, raw
    parameter int RESULT_SHIFT = 0,  // fraction bits of x * GAIN minus those of the result
    parameter int Y_WIDTH = 8,  // bits of a result
    parameter bit Y_SIGNED = 1'b1,
    parameter int ROUNDING = ap_fixed_pkg::TRN,  // of x * GAIN, see fixed_cast
    parameter int OVERFLOW = ap_fixed_pkg::WRAP,
    parameter RAM_STYLE = "auto"  // of the table
) (
    input  logic               clk,
    input  logic [X_WIDTH-1:0] x,
    output logic [Y_WIDTH-1:0] y
);

  if (TABLE_SIZE < 1) begin : g_check_size
    $error("rf_lookup %m: TABLE_SIZE is %0d, expected 1 or more", TABLE_SIZE);
  end
  if (SCALE_SHIFT > 120 || SCALE_SHIFT < -30) begin : g_check_shift
    $error("rf_lookup %m: SCALE_SHIFT is %0d, expected -30 to 120", SCALE_SHIFT);
  end

  localparam int RIGHT = SCALE_SHIFT > 0 ? SCALE_SHIFT : 0;
  localparam int LEFT = SCALE_SHIFT < 0 ? -SCALE_SHIFT : 0;
  // the number of bits of a number, including its sign
  localparam int SCALE_WIDTH = $clog2((SCALE < 0 ? -SCALE : SCALE) + 1) + 1;
  localparam int GAIN_WIDTH = $clog2((GAIN < 0 ? -GAIN : GAIN) + 1) + 1;
  localparam int PRODUCT = X_WIDTH + 1 + SCALE_WIDTH + LEFT;
  localparam int SUM = (PRODUCT > RIGHT + 32 ? PRODUCT : RIGHT + 32) + 1;
  localparam int PASSED = X_WIDTH + 1 + GAIN_WIDTH;
  localparam int INDEX_WIDTH = TABLE_SIZE > 1 ? $clog2(TABLE_SIZE) : 1;
  // added to a negative number, so that truncation rounds it towards zero
  localparam logic [SUM-1:0] TOWARDS_ZERO = (SUM'(1) << RIGHT) - SUM'(1);

  logic signed [X_WIDTH:0] x_q;
  logic signed [PRODUCT-1:0] product_q;
  logic signed [SUM-RIGHT-1:0] place_q;
  logic [INDEX_WIDTH-1:0] index_q;
  logic [Y_WIDTH-1:0] word, word_q;
  wire signed [SUM-1:0] wide = SUM'(product_q);
  wire signed [SUM-1:0] sum = wide + (wide[SUM-1] ? TOWARDS_ZERO : '0) + (SUM'(OFFSET) << RIGHT);

  always_ff @(posedge clk) begin
    x_q <= {X_SIGNED && x[X_WIDTH-1], x};  // 1
    product_q <= (PRODUCT'(x_q) * PRODUCT'(SCALE)) << LEFT;  // 2
    place_q <= (SUM - RIGHT)'(sum >>> RIGHT);  // 3
    if (place_q < 0) index_q <= '0;  // 4
    else if (place_q > (SUM - RIGHT)'(TABLE_SIZE - 1)) index_q <= INDEX_WIDTH'(TABLE_SIZE - 1);
    else index_q <= INDEX_WIDTH'(place_q);
    word_q <= word;  // 6
  end

  rf_rom #(  // 5
      .WIDTH(Y_WIDTH),
      .DEPTH(TABLE_SIZE),
      .FILE (TABLE_FILE),
      .STYLE(RAM_STYLE)
  ) u_table (
      .clk(clk),
      .enable(1'b1),
      .address(index_q),
      .word(word)
  );

  if (POSITIVE_PASS) begin : gen_pass
    logic signed [PASSED-1:0] passed_q;
    logic [Y_WIDTH-1:0] cast_y, cast_5_q, cast_6_q;
    logic [6:2] positive_q;

    always_ff @(posedge clk) begin
      passed_q <= PASSED'(x_q) * PASSED'(GAIN);  // 2, and 4 after the cast
      cast_5_q <= cast_y;
      cast_6_q <= cast_5_q;
      positive_q <= {positive_q[5:2], !x_q[X_WIDTH]};
      y <= positive_q[6] ? cast_6_q : word_q;  // 7
    end

    fixed_cast #(
        .IN_WIDTH (PASSED),
        .SIGNED_IN(1'b1),
        .SHIFT    (RESULT_SHIFT),
        .WIDTH    (Y_WIDTH),
        .SIGNED   (Y_SIGNED),
        .ROUNDING (ROUNDING),
        .OVERFLOW (OVERFLOW)
    ) u_fixed_cast (
        .clk   (clk),
        .enable(1'b1),
        .x     (passed_q),
        .y     (cast_y)
    );
  end else begin : gen_table
    always_ff @(posedge clk) y <= word_q;
  end

endmodule

`default_nettype wire
