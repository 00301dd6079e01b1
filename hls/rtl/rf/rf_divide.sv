// SPDX-License-Identifier: Apache-2.0
//
// Divides a number by a small count and rounds towards zero, as C does; latency four clocks, one number per clock. The magnitude
// is multiplied by the reciprocal, ceil(2**POINT / count), which has enough bits to make every quotient of WIDTH bits exact.
`default_nettype none

module rf_divide #(
    parameter int WIDTH = 16,  // bits of the number
    parameter bit SIGNED = 1'b1,  // it is two's complement
    parameter int COUNTS = 4,  // the greatest count
    parameter int CONSTANT = 0  // the count if it is always the same; 0: the port gives it
) (
    input  logic                         clk,
    input  logic [            WIDTH-1:0] x,
    input  logic [$clog2(COUNTS + 1)-1:0] count,
    output logic [            WIDTH-1:0] y
);

  localparam int POINT = WIDTH + $clog2(CONSTANT > 0 ? CONSTANT : COUNTS);

  if (WIDTH < 1 || POINT > 126) begin : g_check_width
    $error("rf_divide %m: WIDTH is %0d, expected 1 or more, and 126 at most with the bits of the count", WIDTH);
  end
  if (COUNTS < 1 || CONSTANT < 0) begin : g_check_counts
    $error("rf_divide %m: COUNTS is %0d and CONSTANT %0d, expected 1 or more and 0 or more", COUNTS, CONSTANT);
  end

  localparam logic [127:0] ONE = 128'd1 << POINT;
  localparam logic [127:0] RECIPROCAL = CONSTANT > 0 ? (ONE + 128'(CONSTANT) - 128'd1) / 128'(CONSTANT) : '0;

  // 1: sign and magnitude
  logic [WIDTH-1:0] magnitude_q;
  logic [POINT:0] reciprocal;
  logic [2:0] negative_q;
  wire negative = SIGNED && x[WIDTH-1];

  always_ff @(posedge clk) begin
    magnitude_q <= negative ? -x : x;
    negative_q <= {negative_q[1:0], negative};
  end

  if (CONSTANT > 0) begin : gen_constant
    assign reciprocal = RECIPROCAL[POINT:0];
    wire unused = &{1'b0, count};
  end else begin : gen_table
    localparam int DEPTH = 1 << $clog2(COUNTS + 1);
    logic [POINT:0] reciprocals[DEPTH];

    for (genvar d = 0; d < DEPTH; d++) begin : g_reciprocal
      localparam logic [127:0] OF_COUNT = d == 0 ? 128'd0 : (ONE + 128'(d) - 128'd1) / 128'(d == 0 ? 1 : d);
      initial reciprocals[d] = OF_COUNT[POINT:0];
    end
    always_ff @(posedge clk) reciprocal <= reciprocals[count];
  end

  // 2 and 3: multiply
  logic signed [WIDTH+POINT+2:0] product;

  rf_multiply #(
      .A_WIDTH (WIDTH + 1),
      .B_WIDTH (POINT + 2),
      .CONSTANT(RECIPROCAL)
  ) u_product (
      .clk(clk),
      .a({1'b0, magnitude_q}),
      .b({1'b0, reciprocal}),
      .product(product)
  );

  // 4: restore the sign
  wire [WIDTH-1:0] quotient = product[POINT+:WIDTH];

  always_ff @(posedge clk) y <= negative_q[2] ? -quotient : quotient;

  wire unused_product = &{1'b0, product};

endmodule

`default_nettype wire
