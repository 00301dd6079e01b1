// SPDX-License-Identifier: Apache-2.0
//
// Depthwise convolution over the windows that rf_window gives. K_W beats of K_H * LANES elements give one beat of LANES
// results; each channel has its own weights:
//
//   y[c] = result_t(bias[c] + sum over (kh, kw) of accum_t(x[kh][kw][c] * w[kh][kw][c]))
//
// It has LANES * K_H multipliers and takes a beat every clock. Types, rounding and the pipeline are those of rf_mac. A word of
// the weight memory has K_H*LANES weights in the order of a beat's elements; its address is (beat of channels) * K_W + kw.
`default_nettype none

module rf_depthwise #(
    parameter int LANES = 2,  // channels of a beat
    parameter int CHANNEL_BEATS = 2,  // beats of a pixel
    parameter int K_H = 3,  // rows of the kernel
    parameter int K_W = 3,  // columns
    parameter int X_WIDTH = 8,  // bits of an input
    parameter bit X_SIGNED = 1'b1,  // inputs are two's complement
    parameter int W_WIDTH = 8,  // bits of a weight, two's complement
    parameter int PRODUCT_SHIFT = 0,  // fraction bits of a product minus those of the accumulator; negative: shift left
    parameter int PRODUCT_ROUNDING = ap_fixed_pkg::TRN,  // rounding of a product to the accumulator: 0 TRN, 1 RND
    parameter int ACC_WIDTH = 24,  // bits of the accumulator and of a bias
    parameter bit ACC_SIGNED = 1'b1,  // the accumulator is two's complement when it is cast
    parameter int RESULT_SHIFT = 8,  // fraction bits of the accumulator minus those of the result
    parameter int Y_WIDTH = 8,  // bits of a result
    parameter bit Y_SIGNED = 1'b1,  // results are two's complement
    parameter int ROUNDING = ap_fixed_pkg::TRN,  // of the result, see fixed_cast
    parameter int OVERFLOW = ap_fixed_pkg::WRAP,
    parameter WEIGHTS = "",  // $readmemh: CHANNEL_BEATS*K_W words of K_H*LANES*W_WIDTH bits
    parameter BIAS = "",  // $readmemh: CHANNEL_BEATS words of LANES*ACC_WIDTH bits
    parameter RAM_STYLE = "auto"  // of the weight memory
) (
    input  logic                         clk,
    input  logic                         rst_n,
    input  logic                         s_axis_tvalid,
    output logic                         s_axis_tready,
    input  logic [K_H*LANES*X_WIDTH-1:0] s_axis_tdata,
    input  logic                         s_axis_tlast,
    output logic                         m_axis_tvalid,
    input  logic                         m_axis_tready,
    output logic [    LANES*Y_WIDTH-1:0] m_axis_tdata,
    output logic                         m_axis_tlast
);

  if (X_WIDTH < 1 || W_WIDTH < 1 || X_WIDTH + W_WIDTH > 128) begin : g_check_widths
    $error("rf_depthwise %m: X_WIDTH %0d and W_WIDTH %0d, expected 1 or more and 128 together", X_WIDTH, W_WIDTH);
  end
  if (PRODUCT_ROUNDING != ap_fixed_pkg::TRN && PRODUCT_ROUNDING != ap_fixed_pkg::RND) begin : g_check_product_rounding
    $error("rf_depthwise %m: PRODUCT_ROUNDING is %0d, expected 0 or 1", PRODUCT_ROUNDING);
  end
  if (LANES < 1 || CHANNEL_BEATS < 1 || K_H < 1 || K_W < 1) begin : g_check_size
    $error("rf_depthwise %m: a size is 0 or less, expected every one to be 1 or more");
  end

  localparam int WORDS = CHANNEL_BEATS * K_W;
  localparam int KW = K_W > 1 ? $clog2(K_W) : 1;
  localparam int CW = CHANNEL_BEATS > 1 ? $clog2(CHANNEL_BEATS) : 1;
  localparam int AW = WORDS > 1 ? $clog2(WORDS) : 1;

  // widths from a product to the accumulator
  localparam int PRODUCT = X_WIDTH + W_WIDTH;
  localparam int RIGHT = PRODUCT_SHIFT > PRODUCT ? PRODUCT : PRODUCT_SHIFT > 0 ? PRODUCT_SHIFT : 0;
  localparam int LEFT = PRODUCT_SHIFT < 0 ? -PRODUCT_SHIFT : 0;
  localparam bit ROUND = RIGHT > 0 && PRODUCT_ROUNDING == ap_fixed_pkg::RND;
  localparam int CUT = PRODUCT + 1 - RIGHT - (ROUND ? 0 : RIGHT < PRODUCT ? 1 : 0);
  localparam int LEVELS = $clog2(K_H);
  localparam int KEPT = ACC_WIDTH > LEFT ? ACC_WIDTH - LEFT : 1;
  localparam int SUM = CUT + LEVELS < KEPT ? CUT + LEVELS : KEPT;
  localparam int TO_SUM = 4 + LEVELS;  // clock edges from taking a beat to its sum

  logic [KW-1:0] kw_q;
  logic [AW-1:0] address_q;
  logic place_tready;
  wire kw_last = kw_q == KW'(K_W - 1);
  wire take = s_axis_tvalid && s_axis_tready;

  assign s_axis_tready = !kw_last || place_tready;

  always_ff @(posedge clk) begin
    if (take) begin
      kw_q <= kw_last ? '0 : kw_q + 1'b1;
      address_q <= address_q == AW'(WORDS - 1) ? '0 : address_q + 1'b1;
    end
    if (!rst_n) begin
      kw_q <= '0;
      address_q <= '0;
    end
  end

  // ---------------------------------------------------------------- inputs, weights, biases
  logic [K_H*LANES*X_WIDTH-1:0] x_1_q, x_2_q;
  logic [K_H*LANES*W_WIDTH-1:0] word_q, weights_q;
  logic [LANES*ACC_WIDTH-1:0] bias_q;
  logic [TO_SUM-1:0] take_q, first_q;
  logic [TO_SUM-2:0] last_q;
  logic [CW-1:0] bias_cb_q;  // the beat of channels, counted a second time at the accumulator
  wire bias_cb_last = bias_cb_q == CW'(CHANNEL_BEATS - 1);

  rf_rom #(
      .WIDTH(K_H * LANES * W_WIDTH),
      .DEPTH(WORDS),
      .FILE (WEIGHTS),
      .STYLE(RAM_STYLE)
  ) u_weights (
      .clk(clk),
      .enable(1'b1),
      .address(address_q),
      .word(word_q)
  );

  rf_rom #(
      .WIDTH(LANES * ACC_WIDTH),
      .DEPTH(CHANNEL_BEATS),
      .FILE (BIAS)
  ) u_bias (
      .clk(clk),
      .enable(1'b1),
      .address(bias_cb_q),
      .word(bias_q)
  );

  always_ff @(posedge clk) begin
    x_1_q <= s_axis_tdata;
    x_2_q <= x_1_q;
    weights_q <= word_q;
    first_q <= TO_SUM'({first_q, kw_q == '0});
    last_q <= (TO_SUM - 1)'({last_q, kw_last});
  end

  always_ff @(posedge clk) begin
    take_q <= TO_SUM'({take_q, take});
    if (take_q[TO_SUM-2] && last_q[TO_SUM-2]) bias_cb_q <= bias_cb_last ? '0 : bias_cb_q + 1'b1;
    if (!rst_n) begin
      take_q <= '0;
      bias_cb_q <= '0;
    end
  end

  // ---------------------------------------------------------------- multiply, add, accumulate, cast
  logic [LANES*ACC_WIDTH-1:0] values;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    for (genvar kh = 0; kh < K_H; kh++) begin : g_row
      wire [X_WIDTH-1:0] x = x_2_q[(kh*LANES+lane)*X_WIDTH+:X_WIDTH];
      wire signed [X_WIDTH:0] wide_x = {X_SIGNED && x[X_WIDTH-1], x};
      wire signed [W_WIDTH-1:0] w = weights_q[(kh*LANES+lane)*W_WIDTH+:W_WIDTH];
      logic signed [PRODUCT-1:0] product_q;
      always_ff @(posedge clk) product_q <= PRODUCT'(wide_x) * PRODUCT'(w);
    end

    for (genvar level = 0; level <= LEVELS; level++) begin : g_level
      localparam int NODES = (K_H + (1 << level) - 1) >> level;
      localparam int BELOW = level == 0 ? K_H : (K_H + (1 << (level - 1)) - 1) >> (level - 1);
      localparam int WIDTH = CUT + level < SUM ? CUT + level : SUM;
      for (genvar n = 0; n < NODES; n++) begin : g_node
        logic signed [WIDTH-1:0] sum_q;
        if (level == 0 && ROUND) begin : gen_round
          wire signed [PRODUCT:0] product = (PRODUCT + 1)'(g_row[n].product_q);
          always_ff @(posedge clk) sum_q <= WIDTH'(product >>> RIGHT) + WIDTH'($signed({1'b0, product[RIGHT-1]}));
        end else if (level == 0) begin : gen_truncate
          always_ff @(posedge clk) sum_q <= WIDTH'(g_row[n].product_q >>> RIGHT);
        end else if (2 * n + 1 < BELOW) begin : gen_add
          wire signed [WIDTH-1:0] other = WIDTH'(g_level[level-1].g_node[2*n+1].sum_q);
          always_ff @(posedge clk) sum_q <= WIDTH'(g_level[level-1].g_node[2*n].sum_q) + other;
        end else begin : gen_pass
          always_ff @(posedge clk) sum_q <= WIDTH'(g_level[level-1].g_node[2*n].sum_q);
        end
      end
    end

    logic [ACC_WIDTH-1:0] accumulator_q;
    wire [ACC_WIDTH-1:0] start = bias_q[lane*ACC_WIDTH+:ACC_WIDTH];
    wire [ACC_WIDTH-1:0] summand = ACC_WIDTH'($signed(g_level[LEVELS].g_node[0].sum_q)) << LEFT;

    always_ff @(posedge clk) begin
      if (take_q[TO_SUM-1]) accumulator_q <= (first_q[TO_SUM-1] ? start : accumulator_q) + summand;
    end

    assign values[lane*ACC_WIDTH+:ACC_WIDTH] = accumulator_q;
  end

  rf_output #(
      .LANES    (LANES),
      .IN_WIDTH (ACC_WIDTH),
      .SIGNED_IN(ACC_SIGNED),
      .LATENCY  (TO_SUM + 1),
      .SHIFT    (RESULT_SHIFT),
      .WIDTH    (Y_WIDTH),
      .SIGNED   (Y_SIGNED),
      .ROUNDING (ROUNDING),
      .OVERFLOW (OVERFLOW)
  ) u_rf_output (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_tvalid && kw_last),
      .s_axis_tready(place_tready),
      .s_axis_tlast(s_axis_tlast),
      .values(values),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

endmodule

`default_nettype wire
