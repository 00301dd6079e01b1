// SPDX-License-Identifier: Apache-2.0
//
// Applies a function to every element, LANES elements per clock:
//
//   y = result_t(clamp(v))     v = x                                    MODE MAP_SAME
//                              v = x * a + b                            MODE MAP_AFFINE: BatchNorm, hard sigmoid, hard tanh
//                              v = x > 0 ? x : x * a                    MODE MAP_LEAKY: leaky and parametric ReLU
//                              v = x > a ? x : 0                        MODE MAP_THRESHOLD: thresholded ReLU
//                              v = x > a ? HIGHEST : x > b ? MIDDLE : LOWEST     MODE MAP_STEP: binary and ternary tanh
//
// Each element has its own a and b, in memories that repeat every PERIOD beats. The clamp gives further functions: LOW 0 is ReLU,
// LOW 0 and HIGH 6 is ReLU6, and so on. The fraction bits of v are those of x (MAP_SAME, MAP_THRESHOLD); those of x plus
// A_FRACTION (MAP_LEAKY); PRODUCT_LEFT more than the product's, which is OFFSET_LEFT more than b's (MAP_AFFINE); or those of the
// constants (MAP_STEP).
`default_nettype none

module rf_map #(
    parameter int LANES = 2,  // elements of a beat
    parameter int MODE = rf_pkg::MAP_AFFINE,  // what v is, see above
    parameter int X_WIDTH = 8,  // bits of an input element
    parameter bit X_SIGNED = 1'b1,  // it is two's complement
    parameter int A_WIDTH = 8,  // bits of a, two's complement
    parameter int A_FRACTION = 4,  // fraction bits of a, used by MAP_LEAKY only
    parameter int B_WIDTH = 8,  // bits of b, two's complement
    parameter int PRODUCT_LEFT = 0,  // MAP_AFFINE: left shift of the product before b is added
    parameter int OFFSET_LEFT = 0,  // MAP_AFFINE: left shift of b before it is added
    parameter int PERIOD = 1,  // beats after which a and b repeat
    parameter A_FILE = "",  // $readmemh: PERIOD words of LANES*A_WIDTH bits
    parameter B_FILE = "",  // $readmemh: PERIOD words of LANES*B_WIDTH bits
    parameter logic signed [31:0] HIGHEST = 1,  // MAP_STEP
    parameter logic signed [31:0] MIDDLE = 0,
    parameter logic signed [31:0] LOWEST = -1,
    parameter bit CLAMP_LOW = 1'b0,  // v below LOW becomes LOW
    parameter logic signed [63:0] LOW = 0,  // in v's fraction bits
    parameter bit CLAMP_HIGH = 1'b0,  // v above HIGH becomes HIGH
    parameter logic signed [63:0] HIGH = 0,
    parameter int RESULT_SHIFT = 0,  // fraction bits of v minus those of the result
    parameter int Y_WIDTH = 8,  // bits of a result
    parameter bit Y_SIGNED = 1'b1,
    parameter int ROUNDING = ap_fixed_pkg::TRN,  // see fixed_cast
    parameter int OVERFLOW = ap_fixed_pkg::WRAP
) (
    input  logic                     clk,
    input  logic                     rst_n,
    input  logic                     s_axis_tvalid,
    output logic                     s_axis_tready,
    input  logic [LANES*X_WIDTH-1:0] s_axis_tdata,
    input  logic                     s_axis_tlast,
    output logic                     m_axis_tvalid,
    input  logic                     m_axis_tready,
    output logic [LANES*Y_WIDTH-1:0] m_axis_tdata,
    output logic                     m_axis_tlast
);

  if (MODE < rf_pkg::MAP_SAME || MODE > rf_pkg::MAP_STEP) begin : g_check_mode
    $error("rf_map %m: MODE is %0d, expected 0 to 4", MODE);
  end
  if (PRODUCT_LEFT < 0 || OFFSET_LEFT < 0 || A_FRACTION < 0) begin : g_check_shift
    $error("rf_map %m: PRODUCT_LEFT, OFFSET_LEFT or A_FRACTION is below 0, expected 0 or more");
  end

  // MAP_LEAKY multiplies a positive number by one
  localparam int FACTOR = MODE == rf_pkg::MAP_LEAKY && A_FRACTION + 2 > A_WIDTH ? A_FRACTION + 2 : A_WIDTH;
  localparam int PRODUCT = X_WIDTH + 1 + FACTOR;
  localparam int SUM = (PRODUCT + PRODUCT_LEFT > B_WIDTH + OFFSET_LEFT ? PRODUCT + PRODUCT_LEFT : B_WIDTH + OFFSET_LEFT) + 1;
  localparam int V_WIDTH =
      MODE == rf_pkg::MAP_AFFINE ? SUM : MODE == rf_pkg::MAP_LEAKY ? PRODUCT : MODE == rf_pkg::MAP_STEP ? 32 : X_WIDTH + 1;
  localparam bit CLAMP = CLAMP_LOW || CLAMP_HIGH;
  localparam int V_LATENCY = MODE == rf_pkg::MAP_SAME ? 1 : MODE == rf_pkg::MAP_AFFINE ? 4 : MODE == rf_pkg::MAP_LEAKY ? 3 : 2;
  // wide enough to compare v with a bound
  localparam int BOUND = V_WIDTH > 64 ? V_WIDTH : 64;

  wire take = s_axis_tvalid && s_axis_tready;
  logic [LANES*A_WIDTH-1:0] a_word;
  logic [LANES*B_WIDTH-1:0] b_word;

  if (MODE == rf_pkg::MAP_SAME) begin : gen_no_constants
    assign a_word = (LANES * A_WIDTH)'(0);
    assign b_word = (LANES * B_WIDTH)'(0);
    wire unused = &{1'b0, take, a_word, b_word};
  end else begin : gen_constants
    localparam int INDEX_WIDTH = PERIOD > 1 ? $clog2(PERIOD) : 1;
    logic [INDEX_WIDTH-1:0] index_q;

    always_ff @(posedge clk) begin
      if (take) index_q <= index_q == INDEX_WIDTH'(PERIOD - 1) ? '0 : index_q + 1'b1;
      if (!rst_n) index_q <= '0;
    end

    rf_rom #(
        .WIDTH(LANES * A_WIDTH),
        .DEPTH(PERIOD),
        .FILE (A_FILE)
    ) u_a (
        .clk(clk),
        .enable(take),
        .address(index_q),
        .word(a_word)
    );

    if (MODE == rf_pkg::MAP_AFFINE || MODE == rf_pkg::MAP_STEP) begin : gen_b
      rf_rom #(
          .WIDTH(LANES * B_WIDTH),
          .DEPTH(PERIOD),
          .FILE (B_FILE)
      ) u_b (
          .clk(clk),
          .enable(take),
          .address(index_q),
          .word(b_word)
      );
    end else begin : gen_no_b
      assign b_word = (LANES * B_WIDTH)'(0);
      wire unused = &{1'b0, b_word};
    end
  end

  logic [LANES*V_WIDTH-1:0] values;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    wire [X_WIDTH-1:0] x = s_axis_tdata[lane*X_WIDTH+:X_WIDTH];
    wire signed [A_WIDTH-1:0] a = a_word[lane*A_WIDTH+:A_WIDTH];
    wire signed [B_WIDTH-1:0] b = b_word[lane*B_WIDTH+:B_WIDTH];
    logic signed [X_WIDTH:0] x_q;
    logic signed [V_WIDTH-1:0] v;

    always_ff @(posedge clk) x_q <= {X_SIGNED && x[X_WIDTH-1], x};

    if (MODE == rf_pkg::MAP_SAME) begin : gen_same
      assign v = x_q;
      wire unused = &{1'b0, a, b};
    end else if (MODE == rf_pkg::MAP_AFFINE) begin : gen_scale
      logic signed [X_WIDTH:0] x_2_q;
      logic signed [A_WIDTH-1:0] a_2_q;
      logic signed [B_WIDTH-1:0] b_2_q, b_3_q;
      logic signed [PRODUCT-1:0] product_q;
      always_ff @(posedge clk) begin
        x_2_q <= x_q;
        a_2_q <= a;
        b_2_q <= b;
        b_3_q <= b_2_q;
        product_q <= PRODUCT'(x_2_q) * PRODUCT'(a_2_q);
        v <= (V_WIDTH'(product_q) << PRODUCT_LEFT) + (V_WIDTH'(b_3_q) << OFFSET_LEFT);
      end
    end else if (MODE == rf_pkg::MAP_LEAKY) begin : gen_leaky
      logic signed [X_WIDTH:0] x_2_q;
      logic signed [FACTOR-1:0] factor_q;
      always_ff @(posedge clk) begin
        x_2_q <= x_q;
        factor_q <= x_q[X_WIDTH] ? FACTOR'(a) : FACTOR'(1) << A_FRACTION;
        v <= PRODUCT'(x_2_q) * PRODUCT'(factor_q);
      end
      wire unused = &{1'b0, b};
    end else begin : gen_compare
      localparam int CONSTANT = A_WIDTH > B_WIDTH ? A_WIDTH : B_WIDTH;
      localparam int WIDE = CONSTANT > X_WIDTH + 1 ? CONSTANT : X_WIDTH + 1;
      wire above_a = WIDE'(x_q) > WIDE'(a);
      wire above_b = WIDE'(x_q) > WIDE'(b);
      if (MODE == rf_pkg::MAP_THRESHOLD) begin : gen_threshold
        always_ff @(posedge clk) v <= above_a ? x_q : '0;
        wire unused = &{1'b0, above_b};
      end else begin : gen_step
        always_ff @(posedge clk) v <= above_a ? HIGHEST : above_b ? MIDDLE : LOWEST;
      end
    end

    if (CLAMP) begin : gen_clamp
      wire below = CLAMP_LOW && BOUND'(v) < BOUND'(LOW);
      wire above = CLAMP_HIGH && BOUND'(v) > BOUND'(HIGH);
      logic signed [V_WIDTH-1:0] clamped_q;
      always_ff @(posedge clk) clamped_q <= below ? V_WIDTH'(LOW) : above ? V_WIDTH'(HIGH) : v;
      assign values[lane*V_WIDTH+:V_WIDTH] = clamped_q;
    end else begin : gen_no_clamp
      assign values[lane*V_WIDTH+:V_WIDTH] = v;
    end
  end

  rf_output #(
      .LANES    (LANES),
      .IN_WIDTH (V_WIDTH),
      .SIGNED_IN(1'b1),
      .LATENCY  (V_LATENCY + (CLAMP ? 1 : 0)),
      .SHIFT    (RESULT_SHIFT),
      .WIDTH    (Y_WIDTH),
      .SIGNED   (Y_SIGNED),
      .ROUNDING (ROUNDING),
      .OVERFLOW (OVERFLOW)
  ) u_rf_output (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(s_axis_tready),
      .s_axis_tlast(s_axis_tlast),
      .values(values),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

endmodule

`default_nettype wire
