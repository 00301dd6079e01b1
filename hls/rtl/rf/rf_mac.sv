// SPDX-License-Identifier: Apache-2.0
//
// Matrix times vector with P x Q multipliers: rf_mac_engine with its weights in a memory that is filled from a file and has
// MATRICES * RF words, RF = (N_IN / P) * (N_OUT / Q). A word has Q*P weights, element (q, p) at bit ((q*P)+p)*W_WIDTH; its address is
// matrix * RF + (output group) * (N_IN/P) + (input beat). For UltraRAM, which has no initial contents in UltraScale+ (UG901), use
// rf_mac_stream and rf_weights.
`default_nettype none

module rf_mac #(
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
    parameter WEIGHTS = "",  // $readmemh: MATRICES*RF words of Q*P*W_WIDTH bits
    parameter BIAS = "",  // $readmemh: BIASES*(N_OUT/Q) words of Q*ACC_WIDTH bits
    parameter RAM_STYLE = "auto"  // of the weight memory
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
    output logic                 m_axis_tlast
);

  localparam int WORDS = MATRICES * (N_IN / P) * (N_OUT / Q);
  localparam int BIAS_WORDS = BIASES * (N_OUT / Q);

  logic unused_enable;
  logic [(WORDS > 1 ? $clog2(WORDS) : 1)-1:0] weight_address;
  logic [Q*P*W_WIDTH-1:0] weight_word;
  logic [(BIAS_WORDS > 1 ? $clog2(BIAS_WORDS) : 1)-1:0] bias_address;
  logic [Q*ACC_WIDTH-1:0] bias_word;

  rf_rom #(
      .WIDTH(Q * P * W_WIDTH),
      .DEPTH(WORDS),
      .FILE (WEIGHTS),
      .STYLE(RAM_STYLE)
  ) u_weights (
      .clk(clk),
      .enable(1'b1),
      .address(weight_address),
      .word(weight_word)
  );

  rf_rom #(
      .WIDTH(Q * ACC_WIDTH),
      .DEPTH(BIAS_WORDS),
      .FILE (BIAS),
      .STYLE("auto")
  ) u_bias (
      .clk(clk),
      .enable(1'b1),
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
      .weight_tvalid(1'b1),
      .weight_enable(unused_enable),
      .weight_address(weight_address),
      .weight_word(weight_word),
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

  wire unused = &{1'b0, unused_enable};

endmodule

`default_nettype wire
