// SPDX-License-Identifier: Apache-2.0
//
// Vectors of a times matrices of b, neither of them constant, with P x Q multipliers (rf_mac_engine):
//
//   y[i][v][j] = result_t(sum over c of a[i][v][c] * b[i][c][j])
//
// Each matrix is multiplied with VECTORS vectors. A vector of a is N_IN / P beats of P elements, one of the result N_OUT / Q
// beats of Q. A matrix is RF = (N_IN / P) * (N_OUT / Q) beats of Q*P elements, in the order of rf_mac's words. It is kept while
// its vectors pass, and the next one is received meanwhile:
//
//   s_axis_b --> memory of two matrices --> w --+
//   s_axis_a --------------------------------> rf_mac_engine --> m_axis
//
// A vector takes RF clocks. A vector's first result waits for its part of the matrix, not for all of it.
`default_nettype none

module rf_matmul #(
    parameter int N_IN = 16,  // elements of a vector of a
    parameter int N_OUT = 8,  // elements of a vector of the result
    parameter int P = 4,  // elements of a vector taken in one clock, a divisor of N_IN
    parameter int Q = 2,  // results computed in parallel, a divisor of N_OUT
    parameter int VECTORS = 4,  // vectors of a that are multiplied with one matrix
    parameter int X_WIDTH = 8,  // bits of an element of a
    parameter bit X_SIGNED = 1'b1,  // it is two's complement
    parameter int W_WIDTH = 8,  // bits of an element of b
    parameter bit W_SIGNED = 1'b1,
    parameter int PRODUCT_SHIFT = 0,  // fraction bits of a product minus those of the accumulator; negative: shift left
    parameter int PRODUCT_ROUNDING = ap_fixed_pkg::TRN,  // rounding of a product to the accumulator: 0 TRN, 1 RND
    parameter int ACC_WIDTH = 24,  // bits of the accumulator
    parameter bit ACC_SIGNED = 1'b1,  // the accumulator is two's complement when it is cast
    parameter int RESULT_SHIFT = 8,  // fraction bits of the accumulator minus those of the result
    parameter int Y_WIDTH = 8,  // bits of a result
    parameter bit Y_SIGNED = 1'b1,  // results are two's complement
    parameter int ROUNDING = ap_fixed_pkg::TRN,  // of the result, see fixed_cast
    parameter int OVERFLOW = ap_fixed_pkg::WRAP
) (
    input  logic                   clk,
    input  logic                   rst_n,
    input  logic                   s_axis_a_tvalid,
    output logic                   s_axis_a_tready,
    input  logic [  P*X_WIDTH-1:0] s_axis_a_tdata,
    input  logic                   s_axis_a_tlast,
    input  logic                   s_axis_b_tvalid,
    output logic                   s_axis_b_tready,
    input  logic [Q*P*W_WIDTH-1:0] s_axis_b_tdata,
    input  logic                   s_axis_b_tlast,
    output logic                   m_axis_tvalid,
    input  logic                   m_axis_tready,
    output logic [  Q*Y_WIDTH-1:0] m_axis_tdata,
    output logic                   m_axis_tlast
);

  if (VECTORS < 1) begin : g_check_vectors
    $error("rf_matmul %m: VECTORS is %0d, expected 1 or more", VECTORS);
  end

  localparam int RF = (N_IN / P) * (N_OUT / Q);
  localparam int ADDRESS_WIDTH = RF > 1 ? $clog2(RF) : 1;
  localparam int VECTOR_WIDTH = VECTORS > 1 ? $clog2(VECTORS) : 1;
  localparam int SIGNED_WIDTH = W_WIDTH + (W_SIGNED ? 0 : 1);

  logic [Q*P*W_WIDTH-1:0] matrices[2<<ADDRESS_WIDTH];
  logic [Q*P*W_WIDTH-1:0] word_q;
  logic [Q*P*SIGNED_WIDTH-1:0] weights;
  logic [ADDRESS_WIDTH-1:0] count_q;  // words received of the matrix
  logic [ADDRESS_WIDTH-1:0] address;  // the word that is needed next
  logic [VECTOR_WIDTH-1:0] vector_q;
  logic [1:0] full_q;
  logic write_q, read_q;  // which matrix
  logic read;
  wire write = s_axis_b_tvalid && s_axis_b_tready;
  wire write_last = count_q == ADDRESS_WIDTH'(RF - 1);
  wire read_last = address == ADDRESS_WIDTH'(RF - 1);
  wire vector_last = vector_q == VECTOR_WIDTH'(VECTORS - 1);
  wire available = full_q[read_q] || (write_q == read_q && address < count_q);

  assign s_axis_b_tready = !full_q[write_q];

  always_ff @(posedge clk) begin
    if (write) count_q <= write_last ? '0 : count_q + 1'b1;
    if (write && write_last) begin
      full_q[write_q] <= 1'b1;
      write_q <= !write_q;
    end
    if (read && read_last) vector_q <= vector_last ? '0 : vector_q + 1'b1;
    if (read && read_last && vector_last) begin
      full_q[read_q] <= 1'b0;
      read_q <= !read_q;
    end
    if (!rst_n) begin
      count_q <= '0;
      vector_q <= '0;
      full_q <= '0;
      write_q <= 1'b0;
      read_q <= 1'b0;
    end
  end

  always_ff @(posedge clk) if (write) matrices[{write_q, count_q}] <= s_axis_b_tdata;
  always_ff @(posedge clk) word_q <= matrices[{read_q, address}];

  for (genvar n = 0; n < Q * P; n++) begin : g_weight
    assign weights[n*SIGNED_WIDTH+:SIGNED_WIDTH] = SIGNED_WIDTH'(word_q[n*W_WIDTH+:W_WIDTH]);
  end

  logic [(N_OUT / Q > 1 ? $clog2(N_OUT / Q) : 1)-1:0] unused_bias;  // sums begin at zero

  rf_mac_engine #(
      .N_IN            (N_IN),
      .N_OUT           (N_OUT),
      .P               (P),
      .Q               (Q),
      .X_WIDTH         (X_WIDTH),
      .X_SIGNED        (X_SIGNED),
      .W_WIDTH         (SIGNED_WIDTH),
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
      .weight_tvalid(available),
      .weight_enable(read),
      .weight_address(address),
      .weight_word(weights),
      .bias_address(unused_bias),
      .bias_word((Q * ACC_WIDTH)'(0)),
      .s_axis_tvalid(s_axis_a_tvalid),
      .s_axis_tready(s_axis_a_tready),
      .s_axis_tdata(s_axis_a_tdata),
      .s_axis_tlast(s_axis_a_tlast),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

  wire unused = &{1'b0, s_axis_b_tlast, unused_bias};  // rows of a and b are counted alike

endmodule

`default_nettype wire
