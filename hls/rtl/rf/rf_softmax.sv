// SPDX-License-Identifier: Apache-2.0
//
// Softmax over vectors of N, in beats of LANES, as hls4ml computes it from two tables:
//
//   e[i] = exp_table[top bits of norm_t(max - x[i])]     STABLE, hls4ml's strategy stable
//   e[i] = exp_table[top bits of x[i]]                   otherwise, hls4ml's latency
//   y[i] = result_t(e[i] * inverse_table[top bits of inverse_t(sum of e)])
//
// The number of words in a table is a power of two; exp_table has raw numbers of accum_t. Sums are modulo 2**ACC_WIDTH, or
// saturate (ACC_SATURATE, exact if no e is negative). One beat per clock; a vector is held twice, until its maximum is known
// and until its sum is known.
`default_nettype none

module rf_softmax #(
    parameter int N = 4,  // elements of a vector
    parameter int LANES = 2,  // elements of a beat, a divisor of N
    parameter bit STABLE = 1'b1,  // see above; otherwise the parameters NORM_* are not used
    parameter int X_WIDTH = 8,  // bits of an element
    parameter bit X_SIGNED = 1'b1,  // it is two's complement
    parameter int NORM_SHIFT = 0,  // fraction bits of x minus those of norm_t
    parameter int NORM_WIDTH = 7,  // bits of norm_t
    parameter bit NORM_SIGNED = 1'b0,
    parameter int NORM_ROUNDING = ap_fixed_pkg::TRN,  // see fixed_cast
    parameter int NORM_OVERFLOW = ap_fixed_pkg::WRAP,
    parameter int EXP_SIZE = 16,  // words of the table of exponentials
    parameter EXP_FILE = "",  // $readmemh: words of ACC_WIDTH bits
    parameter int ACC_WIDTH = 16,  // bits of accum_t
    parameter bit ACC_SIGNED = 1'b1,
    parameter bit ACC_SATURATE = 1'b0,
    parameter int INVERSE_SHIFT = 0,  // fraction bits of accum_t minus those of inverse_t
    parameter int INVERSE_WIDTH = 16,  // bits of inverse_t, to which the sum is cast
    parameter bit INVERSE_SIGNED = 1'b1,
    parameter int INVERSE_ROUNDING = ap_fixed_pkg::TRN,
    parameter int INVERSE_OVERFLOW = ap_fixed_pkg::WRAP,
    parameter int INVERSE_SIZE = 16,  // words of the table of inverses
    parameter INVERSE_FILE = "",  // $readmemh: words of FACTOR_WIDTH bits
    parameter int FACTOR_WIDTH = 16,  // bits of an inverse
    parameter bit FACTOR_SIGNED = 1'b1,
    parameter int RESULT_SHIFT = 0,  // fraction bits of accum_t plus those of an inverse, minus those of the result
    parameter int Y_WIDTH = 8,  // bits of a result
    parameter bit Y_SIGNED = 1'b1,
    parameter int ROUNDING = ap_fixed_pkg::TRN,
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

  localparam int LEVELS = $clog2(LANES);
  localparam int BEATS = N / LANES;
  localparam int COUNT_WIDTH = BEATS > 1 ? $clog2(BEATS) : 1;
  localparam int INDEX_WIDTH = N > 1 ? $clog2(N) : 1;
  localparam int EXP_BITS = EXP_SIZE > 1 ? $clog2(EXP_SIZE) : 1;
  localparam int INVERSE_BITS = INVERSE_SIZE > 1 ? $clog2(INVERSE_SIZE) : 1;
  localparam int EXP_FROM = STABLE ? NORM_WIDTH : X_WIDTH;  // bits of the number whose top bits address the table

  if (LANES < 1 || N % LANES != 0) begin : g_check_lanes
    $error("rf_softmax %m: LANES is %0d, expected a divisor of N, %0d", LANES, N);
  end
  if (EXP_SIZE < 2 || EXP_SIZE != 1 << EXP_BITS || EXP_BITS > EXP_FROM) begin : g_check_exp
    $error("rf_softmax %m: EXP_SIZE is %0d, expected a power of two from 2 to 2**%0d", EXP_SIZE, EXP_FROM);
  end
  if (INVERSE_SIZE < 2 || INVERSE_SIZE != 1 << INVERSE_BITS || INVERSE_BITS > INVERSE_WIDTH) begin : g_check_inv
    $error("rf_softmax %m: INVERSE_SIZE is %0d, expected a power of two from 2 to 2**%0d", INVERSE_SIZE, INVERSE_WIDTH);
  end

  // ---------------------------------------------------------------- the maximum, and the held vector
  logic x_tvalid, x_tready, x_tlast;
  logic [LANES*X_WIDTH-1:0] x_tdata;
  logic [X_WIDTH-1:0] x_max;
  logic [INDEX_WIDTH-1:0] x_place;

  if (STABLE) begin : gen_max
    rf_maximum #(
        .N(N),
        .LANES(LANES),
        .X_WIDTH(X_WIDTH),
        .X_SIGNED(X_SIGNED)
    ) u_rf_maximum (
        .clk(clk),
        .rst_n(rst_n),
        .s_axis_tvalid(s_axis_tvalid),
        .s_axis_tready(s_axis_tready),
        .s_axis_tdata(s_axis_tdata),
        .s_axis_tlast(s_axis_tlast),
        .m_axis_tvalid(x_tvalid),
        .m_axis_tready(x_tready),
        .m_axis_tdata(x_tdata),
        .m_axis_tlast(x_tlast),
        .m_max(x_max),
        .m_place(x_place)
    );
  end else begin : gen_no_max
    assign x_tvalid = s_axis_tvalid;
    assign s_axis_tready = x_tready;
    assign x_tdata = s_axis_tdata;
    assign x_tlast = s_axis_tlast;
    assign x_max = '0;
    assign x_place = '0;
  end

  // ---------------------------------------------------------------- exponentials
  logic e_tvalid, e_tready, e_tlast;
  logic [LANES*ACC_WIDTH-1:0] exponentials, e_tdata;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_exp
    wire [X_WIDTH-1:0] x = x_tdata[lane*X_WIDTH+:X_WIDTH];
    wire [EXP_FROM-1:0] address;
    logic [ACC_WIDTH-1:0] word, word_q;

    if (STABLE) begin : gen_norm
      logic [X_WIDTH:0] difference_q;  // zero or more
      wire [X_WIDTH:0] wide_x = {X_SIGNED && x[X_WIDTH-1], x};
      wire [X_WIDTH:0] wide_max = {X_SIGNED && x_max[X_WIDTH-1], x_max};
      always_ff @(posedge clk) difference_q <= wide_max - wide_x;

      fixed_cast #(
          .IN_WIDTH (X_WIDTH + 1),
          .SIGNED_IN(1'b0),
          .SHIFT    (NORM_SHIFT),
          .WIDTH    (NORM_WIDTH),
          .SIGNED   (NORM_SIGNED),
          .ROUNDING (NORM_ROUNDING),
          .OVERFLOW (NORM_OVERFLOW)
      ) u_fixed_cast (
          .clk   (clk),
          .enable(1'b1),
          .x     (difference_q),
          .y     (address)
      );
    end else begin : gen_same
      assign address = x;
    end

    rf_rom #(
        .WIDTH(ACC_WIDTH),
        .DEPTH(EXP_SIZE),
        .FILE (EXP_FILE)
    ) u_exp (
        .clk(clk),
        .enable(1'b1),
        .address(address[EXP_FROM-1-:EXP_BITS]),
        .word(word)
    );

    always_ff @(posedge clk) word_q <= word;
    assign exponentials[lane*ACC_WIDTH+:ACC_WIDTH] = word_q;
    wire unused = &{1'b0, address};  // the low bits
  end

  wire unused = &{1'b0, x_place, x_max};

  axis_free_running #(
      .WIDTH  (LANES * ACC_WIDTH),
      .LATENCY((STABLE ? 1 + rf_pkg::CAST_CLOCKS : 0) + 2)
  ) u_exponentials (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(x_tvalid),
      .s_axis_tready(x_tready),
      .s_axis_tlast(x_tlast),
      .pipeline_tdata(exponentials),
      .m_axis_tvalid(e_tvalid),
      .m_axis_tready(e_tready),
      .m_axis_tdata(e_tdata),
      .m_axis_tlast(e_tlast)
  );

  // ---------------------------------------------------------------- the inverse of their sum, and the held exponentials
  localparam int SUM = ACC_WIDTH + $clog2(N) + 1;
  localparam int TO_INVERSE = LEVELS + 1 + 1 + rf_pkg::CAST_CLOCKS + 2;  // clocks from a vector's last beat to its inverse
  logic [TO_INVERSE-1:0] take_q;  // from bit LEVELS+1 up: last beats only
  logic [LEVELS:0] first_q, last_q;
  logic [COUNT_WIDTH-1:0] count_q;
  wire take = e_tvalid && e_tready;
  wire count_last = count_q == COUNT_WIDTH'(BEATS - 1);

  always_ff @(posedge clk) begin
    if (take) count_q <= count_last ? '0 : count_q + 1'b1;
    take_q <= TO_INVERSE'({take_q, take});
    take_q[LEVELS+1] <= take_q[LEVELS] && last_q[LEVELS];
    if (!rst_n) begin
      count_q <= '0;
      take_q <= '0;
    end
  end
  always_ff @(posedge clk) begin
    first_q <= (LEVELS + 1)'({first_q, count_q == '0});
    last_q <= (LEVELS + 1)'({last_q, count_last});
  end

  for (genvar level = 0; level <= LEVELS; level++) begin : g_level
    localparam int NODES = (LANES + (1 << level) - 1) >> level;
    localparam int BELOW = level == 0 ? LANES : (LANES + (1 << (level - 1)) - 1) >> (level - 1);
    for (genvar n = 0; n < NODES; n++) begin : g_node
      logic [SUM-1:0] sum_q;
      if (level == 0) begin : gen_element
        wire [ACC_WIDTH-1:0] e = e_tdata[n*ACC_WIDTH+:ACC_WIDTH];
        always_ff @(posedge clk) sum_q <= {{(SUM - ACC_WIDTH) {ACC_SIGNED && e[ACC_WIDTH-1]}}, e};
      end else if (2 * n + 1 < BELOW) begin : gen_two
        always_ff @(posedge clk) sum_q <= g_level[level-1].g_node[2*n].sum_q + g_level[level-1].g_node[2*n+1].sum_q;
      end else begin : gen_one
        always_ff @(posedge clk) sum_q <= g_level[level-1].g_node[2*n].sum_q;
      end
    end
  end

  logic [SUM-1:0] total_q;
  logic [ACC_WIDTH-1:0] confined_q;
  logic [INVERSE_WIDTH-1:0] inverse_from;
  logic [FACTOR_WIDTH-1:0] factor, factor_q;
  localparam logic [ACC_WIDTH-1:0] HIGHEST = ACC_SIGNED ? {ACC_WIDTH{1'b1}} >> 1 : {ACC_WIDTH{1'b1}};
  wire too_much = !total_q[SUM-1] && (total_q[SUM-1:ACC_WIDTH] != '0 || (ACC_SIGNED && total_q[ACC_WIDTH-1]));

  always_ff @(posedge clk) begin
    if (take_q[LEVELS]) total_q <= (first_q[LEVELS] ? '0 : total_q) + g_level[LEVELS].g_node[0].sum_q;
    confined_q <= ACC_SATURATE && too_much ? HIGHEST : total_q[ACC_WIDTH-1:0];
    factor_q <= factor;
  end

  fixed_cast #(
      .IN_WIDTH (ACC_WIDTH),
      .SIGNED_IN(ACC_SIGNED),
      .SHIFT    (INVERSE_SHIFT),
      .WIDTH    (INVERSE_WIDTH),
      .SIGNED   (INVERSE_SIGNED),
      .ROUNDING (INVERSE_ROUNDING),
      .OVERFLOW (INVERSE_OVERFLOW)
  ) u_inverse_cast (
      .clk   (clk),
      .enable(1'b1),
      .x     (confined_q),
      .y     (inverse_from)
  );

  rf_rom #(
      .WIDTH(FACTOR_WIDTH),
      .DEPTH(INVERSE_SIZE),
      .FILE (INVERSE_FILE)
  ) u_inverse (
      .clk(clk),
      .enable(1'b1),
      .address(inverse_from[INVERSE_WIDTH-1-:INVERSE_BITS]),
      .word(factor)
  );

  wire unused_low = &{1'b0, inverse_from};

  logic number_tvalid_q;
  always_ff @(posedge clk) number_tvalid_q <= rst_n && take_q[TO_INVERSE-1];

  logic h_tvalid, h_tready, h_tlast;
  logic [LANES*ACC_WIDTH-1:0] h_tdata;
  logic [FACTOR_WIDTH-1:0] h_factor;

  rf_hold #(
      .WIDTH(LANES * ACC_WIDTH),
      .BEATS(BEATS),
      .NUMBER_WIDTH(FACTOR_WIDTH),
      .LATENCY(TO_INVERSE + 1)
  ) u_rf_hold (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(e_tvalid),
      .s_axis_tready(e_tready),
      .s_axis_tdata(e_tdata),
      .s_axis_tlast(e_tlast),
      .number_tvalid(number_tvalid_q),
      .number_tdata(factor_q),
      .m_axis_tvalid(h_tvalid),
      .m_axis_tready(h_tready),
      .m_axis_tdata(h_tdata),
      .m_axis_tlast(h_tlast),
      .m_number(h_factor)
  );

  // ---------------------------------------------------------------- multiply
  localparam int PRODUCT = ACC_WIDTH + FACTOR_WIDTH + 2;
  logic [LANES*PRODUCT-1:0] products;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_multiply
    wire [ACC_WIDTH-1:0] e = h_tdata[lane*ACC_WIDTH+:ACC_WIDTH];
    wire signed [ACC_WIDTH:0] wide_e = {ACC_SIGNED && e[ACC_WIDTH-1], e};
    wire signed [FACTOR_WIDTH:0] wide_factor = {FACTOR_SIGNED && h_factor[FACTOR_WIDTH-1], h_factor};
    logic signed [ACC_WIDTH:0] e_q;
    logic signed [FACTOR_WIDTH:0] by_q;
    logic signed [PRODUCT-1:0] product_q;

    always_ff @(posedge clk) begin
      e_q <= wide_e;
      by_q <= wide_factor;
      product_q <= PRODUCT'(e_q) * PRODUCT'(by_q);
    end

    assign products[lane*PRODUCT+:PRODUCT] = product_q;
  end

  rf_output #(
      .LANES    (LANES),
      .IN_WIDTH (PRODUCT),
      .SIGNED_IN(1'b1),
      .LATENCY  (2),
      .SHIFT    (RESULT_SHIFT),
      .WIDTH    (Y_WIDTH),
      .SIGNED   (Y_SIGNED),
      .ROUNDING (ROUNDING),
      .OVERFLOW (OVERFLOW)
  ) u_rf_output (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(h_tvalid),
      .s_axis_tready(h_tready),
      .s_axis_tlast(h_tlast),
      .values(products),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

endmodule

`default_nettype wire
