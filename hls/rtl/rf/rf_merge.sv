// SPDX-License-Identifier: Apache-2.0
//
// Combines two streams of the same shape element by element, LANES elements per clock:
//
//   y = result_t(v)     v = a + b                                         OP ADD
//                       v = a - b                                         OP SUBTRACT
//                       v = a * b                                         OP MULTIPLY
//                       v = the greater one, the smaller one of a and b   OP MAXIMUM, MINIMUM
//
// The result is exact before the cast: except for a product, a and b are first shifted left to a common number of fraction
// bits. An average is a sum with one more fraction bit.
`default_nettype none

module rf_merge #(
    parameter int OP = rf_pkg::ADD,  // see above
    parameter int LANES = 2,  // elements of a beat
    parameter int A_WIDTH = 8,  // bits of an element of a
    parameter bit A_SIGNED = 1'b1,  // it is two's complement
    parameter int A_LEFT = 0,  // bits by which a is shifted left to the common fraction; not in a product
    parameter int B_WIDTH = 8,
    parameter bit B_SIGNED = 1'b1,
    parameter int B_LEFT = 0,
    parameter int RESULT_SHIFT = 0,  // fraction bits before the cast (product: the sum of both) minus those of the result
    parameter int Y_WIDTH = 8,  // bits of a result
    parameter bit Y_SIGNED = 1'b1,
    parameter int ROUNDING = ap_fixed_pkg::TRN,  // see fixed_cast
    parameter int OVERFLOW = ap_fixed_pkg::WRAP
) (
    input  logic                     clk,
    input  logic                     rst_n,
    input  logic                     s_axis_a_tvalid,
    output logic                     s_axis_a_tready,
    input  logic [LANES*A_WIDTH-1:0] s_axis_a_tdata,
    input  logic                     s_axis_a_tlast,
    input  logic                     s_axis_b_tvalid,
    output logic                     s_axis_b_tready,
    input  logic [LANES*B_WIDTH-1:0] s_axis_b_tdata,
    input  logic                     s_axis_b_tlast,
    output logic                     m_axis_tvalid,
    input  logic                     m_axis_tready,
    output logic [LANES*Y_WIDTH-1:0] m_axis_tdata,
    output logic                     m_axis_tlast
);

  if (OP < rf_pkg::ADD || OP > rf_pkg::MINIMUM) begin : g_check_op
    $error("rf_merge %m: OP is %0d, expected 0 to 4", OP);
  end
  if (A_LEFT < 0 || B_LEFT < 0) begin : g_check_left
    $error("rf_merge %m: A_LEFT is %0d and B_LEFT %0d, expected 0 or more", A_LEFT, B_LEFT);
  end

  localparam bit PRODUCT = OP == rf_pkg::MULTIPLY;
  localparam bit SUM = OP == rf_pkg::ADD || OP == rf_pkg::SUBTRACT;
  // both signed, with the common fraction
  localparam int A = A_WIDTH + 1 + (PRODUCT ? 0 : A_LEFT);
  localparam int B = B_WIDTH + 1 + (PRODUCT ? 0 : B_LEFT);
  localparam int V_WIDTH = PRODUCT ? A + B : (A > B ? A : B) + (SUM ? 1 : 0);

  logic both, place_tready;

  assign both = s_axis_a_tvalid && s_axis_b_tvalid;
  assign s_axis_a_tready = s_axis_b_tvalid && place_tready;
  assign s_axis_b_tready = s_axis_a_tvalid && place_tready;

  logic [LANES*V_WIDTH-1:0] values;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    wire [A_WIDTH-1:0] a = s_axis_a_tdata[lane*A_WIDTH+:A_WIDTH];
    wire [B_WIDTH-1:0] b = s_axis_b_tdata[lane*B_WIDTH+:B_WIDTH];
    logic signed [A-1:0] a_q;
    logic signed [B-1:0] b_q;
    logic signed [V_WIDTH-1:0] v_q;
    wire signed [V_WIDTH-1:0] wide_a = V_WIDTH'(a_q);
    wire signed [V_WIDTH-1:0] wide_b = V_WIDTH'(b_q);

    always_ff @(posedge clk) begin
      a_q <= A'($signed({A_SIGNED && a[A_WIDTH-1], a})) << (PRODUCT ? 0 : A_LEFT);
      b_q <= B'($signed({B_SIGNED && b[B_WIDTH-1], b})) << (PRODUCT ? 0 : B_LEFT);
    end

    if (OP == rf_pkg::ADD) begin : gen_add
      always_ff @(posedge clk) v_q <= wide_a + wide_b;
    end else if (OP == rf_pkg::SUBTRACT) begin : gen_subtract
      always_ff @(posedge clk) v_q <= wide_a - wide_b;
    end else if (PRODUCT) begin : gen_multiply
      always_ff @(posedge clk) v_q <= wide_a * wide_b;
    end else if (OP == rf_pkg::MAXIMUM) begin : gen_max
      always_ff @(posedge clk) v_q <= wide_a > wide_b ? wide_a : wide_b;
    end else begin : gen_min
      always_ff @(posedge clk) v_q <= wide_a < wide_b ? wide_a : wide_b;
    end

    assign values[lane*V_WIDTH+:V_WIDTH] = v_q;
  end

  rf_output #(
      .LANES    (LANES),
      .IN_WIDTH (V_WIDTH),
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
      .s_axis_tvalid(both),
      .s_axis_tready(place_tready),
      .s_axis_tlast(s_axis_a_tlast),
      .values(values),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

  wire unused = &{1'b0, s_axis_b_tlast};  // rows of a and b have the same length

endmodule

`default_nettype wire
