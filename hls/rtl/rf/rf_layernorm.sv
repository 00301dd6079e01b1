// SPDX-License-Identifier: Apache-2.0
//
// Normalises vectors of N, in beats of LANES, as hls4ml's LayerNormalization does (nnet_layernorm.h). All types are accum_t
// except that of the result:
//
//   d[i] = accum_t(accum_t(x[i]) - mean(x))      v = mean(accum_t(d[i] * d[i]))      f = table[v], an inverse square root
//   y[i] = result_t(d[i] * (f * scale[i]) + bias[i])
//
// One beat per clock. A vector is held until its mean is known, and again until f is known.
//
//   x --> accum_t --+--> rf_hold ------> d --+--> rf_hold -------------> * (f * scale) + bias --> y
//                   +--> rf_mean --^         +--> rf_mean, rf_lookup --^
`default_nettype none

module rf_layernorm #(
    parameter int N = 4,  // elements of a vector
    parameter int LANES = 2,  // elements of a beat, a divisor of N
    parameter int X_WIDTH = 8,  // bits of an element
    parameter bit X_SIGNED = 1'b1,  // it is two's complement
    parameter int X_SHIFT = 0,  // fraction bits of x minus those of accum_t
    parameter int ACC_WIDTH = 14,  // bits of accum_t
    parameter bit ACC_SIGNED = 1'b1,
    parameter int ACC_FRACTION = 10,  // its fraction bits; may be negative
    parameter int ACC_ROUNDING = ap_fixed_pkg::TRN,  // see fixed_cast
    parameter int ACC_OVERFLOW = ap_fixed_pkg::WRAP,  // not SAT_ZERO
    parameter int SHARE = 256,  // 1 / N in accum_t, raw
    parameter int TABLE_SIZE = 64,  // words of the table
    parameter int TABLE_SHIFT = 10,  // SCALE_SHIFT of rf_lookup
    parameter TABLE_FILE = "",  // $readmemh: TABLE_SIZE words of FACTOR_WIDTH bits
    parameter int FACTOR_WIDTH = 9,  // bits of an entry, two's complement
    parameter int S_WIDTH = 8,  // bits of a scale, two's complement
    parameter S_FILE = "",  // $readmemh: N / LANES words of LANES*S_WIDTH bits
    parameter int B_WIDTH = 8,  // bits of a bias, two's complement
    parameter B_FILE = "",  // $readmemh: N / LANES words of LANES*B_WIDTH bits
    parameter int PRODUCT_LEFT = 0,  // left shift of the product before the bias is added
    parameter int OFFSET_LEFT = 0,  // left shift of the bias before it is added
    parameter int RESULT_SHIFT = 8,  // fraction bits of that sum minus those of the result
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

  localparam int BEATS = N / LANES;
  // clocks of rf_mean, which its header gives
  localparam int MEAN_CLOCKS = ACC_OVERFLOW != ap_fixed_pkg::WRAP ? 2 * $clog2(LANES) + 7 : $clog2(LANES) + 6;
  localparam int MULTIPLY_CLOCKS = 2;  // of rf_multiply
  localparam int SQUARE_CLOCKS = MULTIPLY_CLOCKS + rf_pkg::CAST_CLOCKS;

  if (LANES < 1 || N % LANES != 0) begin : g_check_lanes
    $error("rf_layernorm %m: LANES is %0d, expected a divisor of N, %0d", LANES, N);
  end
  if (PRODUCT_LEFT < 0 || OFFSET_LEFT < 0) begin : g_check_shift
    $error("rf_layernorm %m: PRODUCT_LEFT or OFFSET_LEFT is below 0, expected 0 or more");
  end

  // ---------------------------------------------------------------- accum_t(x), and its mean
  logic a_tvalid, a_tready, a_tlast, mean_valid;
  logic [LANES*ACC_WIDTH-1:0] a_tdata;
  logic [ACC_WIDTH-1:0] mean;

  rf_output #(
      .LANES    (LANES),
      .IN_WIDTH (X_WIDTH),
      .SIGNED_IN(X_SIGNED),
      .LATENCY  (0),
      .SHIFT    (X_SHIFT),
      .WIDTH    (ACC_WIDTH),
      .SIGNED   (ACC_SIGNED),
      .ROUNDING (ACC_ROUNDING),
      .OVERFLOW (ACC_OVERFLOW)
  ) u_accum (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(s_axis_tready),
      .s_axis_tlast(s_axis_tlast),
      .values(s_axis_tdata),
      .m_axis_tvalid(a_tvalid),
      .m_axis_tready(a_tready),
      .m_axis_tdata(a_tdata),
      .m_axis_tlast(a_tlast)
  );

  rf_mean #(
      .LANES   (LANES),
      .BEATS   (BEATS),
      .WIDTH   (ACC_WIDTH),
      .SIGNED  (ACC_SIGNED),
      .FRACTION(ACC_FRACTION),
      .SHARE   (SHARE),
      .ROUNDING(ACC_ROUNDING),
      .OVERFLOW(ACC_OVERFLOW)
  ) u_mean (
      .clk(clk),
      .rst_n(rst_n),
      .take(a_tvalid && a_tready),
      .x(a_tdata),
      .mean_valid(mean_valid),
      .mean(mean)
  );

  logic held_tvalid, held_tready, held_tlast;
  logic [LANES*ACC_WIDTH-1:0] held_tdata;
  logic [ACC_WIDTH-1:0] held_mean;

  rf_hold #(
      .WIDTH(LANES * ACC_WIDTH),
      .BEATS(BEATS),
      .NUMBER_WIDTH(ACC_WIDTH),
      .LATENCY(MEAN_CLOCKS)
  ) u_held (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(a_tvalid),
      .s_axis_tready(a_tready),
      .s_axis_tdata(a_tdata),
      .s_axis_tlast(a_tlast),
      .number_tvalid(mean_valid),
      .number_tdata(mean),
      .m_axis_tvalid(held_tvalid),
      .m_axis_tready(held_tready),
      .m_axis_tdata(held_tdata),
      .m_axis_tlast(held_tlast),
      .m_number(held_mean)
  );

  // ---------------------------------------------------------------- the distance from the mean
  logic d_tvalid, d_tready, d_tlast;
  logic [LANES*(ACC_WIDTH+2)-1:0] distances;
  logic [LANES*ACC_WIDTH-1:0] d_tdata;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_distance
    wire [ACC_WIDTH-1:0] element = held_tdata[lane*ACC_WIDTH+:ACC_WIDTH];
    logic signed [ACC_WIDTH+1:0] distance_q;
    always_ff @(posedge clk) begin
      distance_q <= {{2{ACC_SIGNED && element[ACC_WIDTH-1]}}, element}
                    - {{2{ACC_SIGNED && held_mean[ACC_WIDTH-1]}}, held_mean};
    end

    assign distances[lane*(ACC_WIDTH+2)+:ACC_WIDTH+2] = distance_q;
  end

  rf_output #(
      .LANES    (LANES),
      .IN_WIDTH (ACC_WIDTH + 2),
      .SIGNED_IN(1'b1),
      .LATENCY  (1),
      .SHIFT    (0),
      .WIDTH    (ACC_WIDTH),
      .SIGNED   (ACC_SIGNED),
      .OVERFLOW (ACC_OVERFLOW)
  ) u_distance (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(held_tvalid),
      .s_axis_tready(held_tready),
      .s_axis_tlast(held_tlast),
      .values(distances),
      .m_axis_tvalid(d_tvalid),
      .m_axis_tready(d_tready),
      .m_axis_tdata(d_tdata),
      .m_axis_tlast(d_tlast)
  );

  // ---------------------------------------------------------------- the mean of its squares, and the factor
  logic [LANES*ACC_WIDTH-1:0] squares;
  logic [ACC_WIDTH-1:0] variance;
  logic [FACTOR_WIDTH-1:0] factor;
  logic variance_valid;
  logic [SQUARE_CLOCKS-1:0] squared_q;
  logic [rf_pkg::LOOKUP_CLOCKS-1:0] looked_up_q;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_square
    localparam int SQUARE = 2 * (ACC_WIDTH + 1);
    wire [ACC_WIDTH-1:0] element = d_tdata[lane*ACC_WIDTH+:ACC_WIDTH];
    wire signed [ACC_WIDTH:0] wide = {ACC_SIGNED && element[ACC_WIDTH-1], element};
    logic signed [SQUARE-1:0] square;

    rf_multiply #(
        .A_WIDTH(ACC_WIDTH + 1),
        .B_WIDTH(ACC_WIDTH + 1)
    ) u_square (
        .clk(clk),
        .a(wide),
        .b(wide),
        .product(square)
    );

    fixed_cast #(
        .IN_WIDTH (SQUARE),
        .SIGNED_IN(1'b1),
        .SHIFT    (ACC_FRACTION),
        .WIDTH    (ACC_WIDTH),
        .SIGNED   (ACC_SIGNED),
        .ROUNDING (ACC_ROUNDING),
        .OVERFLOW (ACC_OVERFLOW)
    ) u_fixed_cast (
        .clk   (clk),
        .enable(1'b1),
        .x     (square),
        .y     (squares[lane*ACC_WIDTH+:ACC_WIDTH])
    );
  end

  always_ff @(posedge clk) begin
    squared_q   <= SQUARE_CLOCKS'({squared_q, d_tvalid && d_tready});
    looked_up_q <= rf_pkg::LOOKUP_CLOCKS'({looked_up_q, variance_valid});
    if (!rst_n) begin
      squared_q   <= '0;
      looked_up_q <= '0;
    end
  end

  rf_mean #(
      .LANES   (LANES),
      .BEATS   (BEATS),
      .WIDTH   (ACC_WIDTH),
      .SIGNED  (ACC_SIGNED),
      .FRACTION(ACC_FRACTION),
      .SHARE   (SHARE),
      .ROUNDING(ACC_ROUNDING),
      .OVERFLOW(ACC_OVERFLOW)
  ) u_variance (
      .clk(clk),
      .rst_n(rst_n),
      .take(squared_q[SQUARE_CLOCKS-1]),
      .x(squares),
      .mean_valid(variance_valid),
      .mean(variance)
  );

  rf_lookup #(
      .X_WIDTH    (ACC_WIDTH),
      .X_SIGNED   (ACC_SIGNED),
      .SCALE      (TABLE_SIZE),
      .SCALE_SHIFT(TABLE_SHIFT),
      .OFFSET     (0),
      .TABLE_SIZE (TABLE_SIZE),
      .TABLE_FILE (TABLE_FILE),
      .Y_WIDTH    (FACTOR_WIDTH)
  ) u_rf_lookup (
      .clk(clk),
      .x  (variance),
      .y  (factor)
  );

  logic h_tvalid, h_tready, h_tlast;
  logic [LANES*ACC_WIDTH-1:0] h_tdata;
  logic [FACTOR_WIDTH-1:0] h_factor;

  rf_hold #(
      .WIDTH(LANES * ACC_WIDTH),
      .BEATS(BEATS),
      .NUMBER_WIDTH(FACTOR_WIDTH),
      .LATENCY(SQUARE_CLOCKS + MEAN_CLOCKS + rf_pkg::LOOKUP_CLOCKS)
  ) u_held_distance (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(d_tvalid),
      .s_axis_tready(d_tready),
      .s_axis_tdata(d_tdata),
      .s_axis_tlast(d_tlast),
      .number_tvalid(looked_up_q[rf_pkg::LOOKUP_CLOCKS-1]),
      .number_tdata(factor),
      .m_axis_tvalid(h_tvalid),
      .m_axis_tready(h_tready),
      .m_axis_tdata(h_tdata),
      .m_axis_tlast(h_tlast),
      .m_number(h_factor)
  );

  // ---------------------------------------------------------------- the result
  localparam int FIRST = FACTOR_WIDTH + S_WIDTH;
  localparam int PRODUCT = ACC_WIDTH + 1 + FIRST;
  localparam int SUM = (PRODUCT + PRODUCT_LEFT > B_WIDTH + OFFSET_LEFT ? PRODUCT + PRODUCT_LEFT : B_WIDTH + OFFSET_LEFT) + 1;
  localparam int INDEX_WIDTH = BEATS > 1 ? $clog2(BEATS) : 1;

  wire take = h_tvalid && h_tready;
  logic [INDEX_WIDTH-1:0] index_q;
  wire [INDEX_WIDTH-1:0] next_index = index_q == INDEX_WIDTH'(BEATS - 1) ? '0 : index_q + 1'b1;
  logic [LANES*S_WIDTH-1:0] scales;
  logic [LANES*B_WIDTH-1:0] biases;
  logic [LANES*SUM-1:0] sums;

  always_ff @(posedge clk) begin
    if (take) index_q <= next_index;
    if (!rst_n) index_q <= '0;
  end

  // the scales of the next beat to be taken
  rf_rom #(
      .WIDTH(LANES * S_WIDTH),
      .DEPTH(BEATS),
      .FILE (S_FILE)
  ) u_scale (
      .clk(clk),
      .enable(1'b1),
      .address(take ? next_index : index_q),
      .word(scales)
  );

  rf_rom #(
      .WIDTH(LANES * B_WIDTH),
      .DEPTH(BEATS),
      .FILE (B_FILE)
  ) u_bias (
      .clk(clk),
      .enable(take),
      .address(index_q),
      .word(biases)
  );

  for (genvar lane = 0; lane < LANES; lane++) begin : g_result
    wire [ACC_WIDTH-1:0] element = h_tdata[lane*ACC_WIDTH+:ACC_WIDTH];
    logic signed [ACC_WIDTH:0] element_q, element_2_q, element_3_q;
    logic signed [FACTOR_WIDTH-1:0] factor_q;
    logic signed [S_WIDTH-1:0] scale_q;
    logic signed [B_WIDTH-1:0] bias_q, bias_2_q, bias_3_q, bias_4_q;
    logic signed [FIRST-1:0] first;
    logic signed [PRODUCT-1:0] product;
    logic signed [SUM-1:0] sum_q;

    always_ff @(posedge clk) begin
      element_q <= {ACC_SIGNED && element[ACC_WIDTH-1], element};  // 1
      element_2_q <= element_q;  // 2
      bias_q <= biases[lane*B_WIDTH+:B_WIDTH];
      element_3_q <= element_2_q;  // 3
      bias_2_q <= bias_q;
      bias_3_q <= bias_2_q;  // 4
      bias_4_q <= bias_3_q;  // 5
      sum_q <= (SUM'(product) << PRODUCT_LEFT) + (SUM'(bias_4_q) << OFFSET_LEFT);  // 6
    end

    // each lane has registers of its own, also of the number that all of them share
    (* keep *)
    always_ff @(posedge clk) begin
      factor_q <= h_factor;  // 1
      scale_q  <= scales[lane*S_WIDTH+:S_WIDTH];
    end

    // the factor, which all lanes share, goes to the smaller of the two products
    rf_multiply #(  // 2 and 3
        .A_WIDTH(FACTOR_WIDTH),
        .B_WIDTH(S_WIDTH)
    ) u_first (
        .clk(clk),
        .a(factor_q),
        .b(scale_q),
        .product(first)
    );

    rf_multiply #(  // 4 and 5
        .A_WIDTH(ACC_WIDTH + 1),
        .B_WIDTH(FIRST)
    ) u_product (
        .clk(clk),
        .a(element_3_q),
        .b(first),
        .product(product)
    );

    assign sums[lane*SUM+:SUM] = sum_q;
  end

  rf_output #(
      .LANES    (LANES),
      .IN_WIDTH (SUM),
      .SIGNED_IN(1'b1),
      .LATENCY  (6),
      .SHIFT    (RESULT_SHIFT),
      .WIDTH    (Y_WIDTH),
      .SIGNED   (Y_SIGNED),
      .ROUNDING (ROUNDING),
      .OVERFLOW (OVERFLOW)
  ) u_result (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(h_tvalid),
      .s_axis_tready(h_tready),
      .s_axis_tlast(h_tlast),
      .values(sums),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

endmodule

`default_nettype wire
