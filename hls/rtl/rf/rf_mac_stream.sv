// SPDX-License-Identifier: Apache-2.0
//
// Matrix times vector with P x Q multipliers: rf_mac_engine with its weights from a stream. It takes a word of Q*P weights for
// each beat it multiplies: the words 0 to MATRICES * RF - 1 of rf_mac's memory, RF = (N_IN / P) * (N_OUT / Q), over and over. Their source
// is a memory loaded at run time (rf_weights), or is outside the chip. Vectors have gaps only where the words do. The biases,
// BIASES*(N_OUT/Q) words of Q*ACC_WIDTH bits, are loaded after a reset through the load chain (rf_load); the first vector waits
// for them.
`default_nettype none

module rf_mac_stream #(
    parameter int N_IN = 16,  // elements of an input vector
    parameter int N_OUT = 8,  // elements of an output vector
    parameter int P = 4,  // inputs taken in one clock, a divisor of N_IN
    parameter int Q = 2,  // outputs computed in parallel, a divisor of N_OUT
    parameter int MATRICES = 1,  // of weights; vector v has weights number v % MATRICES
    parameter int BIASES = 1,  // vectors of biases; vector v has number v % BIASES
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
    parameter int LOAD_WIDTH = 16  // bits of a beat of the load stream
) (
    input  logic                 clk,
    input  logic                 rst_n,
    input  logic                 s_axis_tvalid,
    output logic                 s_axis_tready,
    input  logic [P*X_WIDTH-1:0] s_axis_tdata,
    input  logic                 s_axis_tlast,
    output logic                 m_axis_tvalid,
    input  logic                 m_axis_tready,
    output logic [Q*Y_WIDTH-1:0] m_axis_tdata,
    output logic                 m_axis_tlast,
    input  logic                   s_axis_w_tvalid,
    output logic                   s_axis_w_tready,
    input  logic [Q*P*W_WIDTH-1:0] s_axis_w_tdata,
    input  logic                   s_load_tvalid,
    output logic                   s_load_tready,
    input  logic [ LOAD_WIDTH-1:0] s_load_tdata,
    output logic                   m_load_tvalid,
    input  logic                   m_load_tready,
    output logic [ LOAD_WIDTH-1:0] m_load_tdata
);

  localparam int WORDS = MATRICES * (N_IN / P) * (N_OUT / Q);
  localparam int BIAS_WORDS = BIASES * (N_OUT / Q);

  logic [(WORDS > 1 ? $clog2(WORDS) : 1)-1:0] weight_address;
  logic [Q*P*W_WIDTH-1:0] weight_word_q;

  logic [(BIAS_WORDS > 1 ? $clog2(BIAS_WORDS) : 1)-1:0] bias_address;
  logic [Q*ACC_WIDTH-1:0] bias_word;
  logic biases_loaded;

  always_ff @(posedge clk) weight_word_q <= s_axis_w_tdata;

  rf_biases #(
      .WIDTH     (Q * ACC_WIDTH),
      .DEPTH     (BIAS_WORDS),
      .LOAD_WIDTH(LOAD_WIDTH)
  ) u_bias (
      .clk(clk),
      .rst_n(rst_n),
      .s_load_tvalid(s_load_tvalid),
      .s_load_tready(s_load_tready),
      .s_load_tdata(s_load_tdata),
      .m_load_tvalid(m_load_tvalid),
      .m_load_tready(m_load_tready),
      .m_load_tdata(m_load_tdata),
      .loaded(biases_loaded),
      .address(bias_address),
      .word(bias_word)
  );

  rf_mac_engine #(
      .N_IN            (N_IN),
      .N_OUT           (N_OUT),
      .P               (P),
      .Q               (Q),
      .MATRICES        (MATRICES),
      .BIASES          (BIASES),
      .X_WIDTH         (X_WIDTH),
      .X_SIGNED        (X_SIGNED),
      .W_WIDTH         (W_WIDTH),
      .PRODUCT_SHIFT   (PRODUCT_SHIFT),
      .PRODUCT_ROUNDING(PRODUCT_ROUNDING),
      .ACC_WIDTH       (ACC_WIDTH),
      .ACC_SIGNED      (ACC_SIGNED),
      .RESULT_SHIFT    (RESULT_SHIFT),
      .Y_WIDTH         (Y_WIDTH),
      .Y_SIGNED        (Y_SIGNED),
      .ROUNDING        (ROUNDING),
      .OVERFLOW        (OVERFLOW)
  ) u_rf_mac_engine (
      .clk(clk),
      .rst_n(rst_n),
      .weight_tvalid(s_axis_w_tvalid && biases_loaded),
      .weight_enable(s_axis_w_tready),
      .weight_address(weight_address),
      .weight_word(weight_word_q),
      .bias_address(bias_address),
      .bias_word(bias_word),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(s_axis_tready),
      .s_axis_tdata(s_axis_tdata),
      .s_axis_tlast(s_axis_tlast),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

  wire unused = &{1'b0, weight_address};

endmodule

`default_nettype wire
