// SPDX-License-Identifier: Apache-2.0
//
// Converts rows of N raw fixed-point numbers to rows of N elements in their wire format, floating point or raw integers, with
// element 0 in the low bits on both sides. One row per clock; the latency is seven clocks (raw integers: five): five or three of
// the conversion, which never waits, and two of the FIFO behind it (axis_free_running). Its eight places also let raw integers
// wait for the floating point of other tensors.
//
// SCALES has one 16-bit two's complement exponent for each element: a floating-point element i is divided by 2**SCALES[i], the
// inverse of axis_wire_to_fixed. Raw integers are not scaled; ROUNDING and OVERFLOW apply only to them. See fixed_to_float and
// fixed_cast for the conversion.
`default_nettype none

module axis_fixed_to_wire #(
    // elements of a row
    parameter int N = 1,
    // bits of an element on the wire; of its exponent: 8 in FP32 and BF16, 5 in FP16, 0 in raw integers
    parameter int WORD_WIDTH = 32,
    parameter int EXPONENT_BITS = 8,
    // of raw integers: bits right of the binary point, may be negative; 1: two's complement, 0: unsigned
    parameter int WORD_FRACTION = 0,
    parameter bit WORD_SIGNED = 1'b1,
    // modes of ap_fixed_pkg
    parameter int ROUNDING = ap_fixed_pkg::TRN,
    parameter int OVERFLOW = ap_fixed_pkg::WRAP,
    // bits of a raw number
    parameter int WIDTH = 16,
    // bits of a raw number right of the binary point; may be negative
    parameter int FRACTION = 10,
    // 1: two's complement, 0: unsigned
    parameter bit SIGNED = 1'b1,
    // one exponent for each element, element 0 in the low bits
    parameter logic [16*N-1:0] SCALES = '0
) (
    input  logic clk,
    input  logic rst_n,

    input  logic                    s_axis_tvalid,
    output logic                    s_axis_tready,
    input  logic [     N*WIDTH-1:0] s_axis_tdata,
    input  logic                    s_axis_tlast,

    output logic                    m_axis_tvalid,
    input  logic                    m_axis_tready,
    output logic [N*WORD_WIDTH-1:0] m_axis_tdata,
    output logic                    m_axis_tlast
);

  if (N < 1) begin : g_check_n
    $error("axis_fixed_to_wire %m: N is %0d, expected at least 1", N);
  end

  localparam int RAW_LATENCY = 3;  // of a register and fixed_cast
  localparam int FLOAT_LATENCY = 5;  // of fixed_to_float

  logic [N*WORD_WIDTH-1:0] converted;

  for (genvar i = 0; i < N; i++) begin : gen_lane
    if (EXPONENT_BITS == 0) begin : gen_raw
      logic [WIDTH-1:0] raw_q;
      always_ff @(posedge clk) raw_q <= s_axis_tdata[WIDTH*i+:WIDTH];

      fixed_cast #(
          .IN_WIDTH (WIDTH),
          .SIGNED_IN(SIGNED),
          .SHIFT    (FRACTION - WORD_FRACTION),
          .WIDTH    (WORD_WIDTH),
          .SIGNED   (WORD_SIGNED),
          .ROUNDING (ROUNDING),
          .OVERFLOW (OVERFLOW)
      ) u_fixed_cast (
          .clk   (clk),
          .enable(1'b1),
          .x     (raw_q),
          .y     (converted[WORD_WIDTH*i+:WORD_WIDTH])
      );
    end else begin : gen_float
      localparam int SCALE = 32'($signed(SCALES[16*i+:16]));
      fixed_to_float #(
          .EXPONENT_BITS(EXPONENT_BITS),
          .MANTISSA_BITS(WORD_WIDTH - 1 - EXPONENT_BITS),
          .WIDTH        (WIDTH),
          .SHIFT        (FRACTION + SCALE),
          .SIGNED       (SIGNED)
      ) u_fixed_to_float (
          .clk   (clk),
          .enable(1'b1),
          .raw   (s_axis_tdata[WIDTH*i+:WIDTH]),
          .y     (converted[WORD_WIDTH*i+:WORD_WIDTH])
      );
    end
  end

  axis_free_running #(
      .WIDTH  (N * WORD_WIDTH),
      .LATENCY(EXPONENT_BITS == 0 ? RAW_LATENCY : FLOAT_LATENCY),
      .MOST_LATENCY(FLOAT_LATENCY)  // of a kernel's outputs, some may be raw and others floating point
  ) u_axis_free_running (
      .clk           (clk),
      .rst_n         (rst_n),
      .s_axis_tvalid (s_axis_tvalid),
      .s_axis_tready (s_axis_tready),
      .s_axis_tlast  (s_axis_tlast),
      .pipeline_tdata(converted),
      .m_axis_tvalid (m_axis_tvalid),
      .m_axis_tready (m_axis_tready),
      .m_axis_tdata  (m_axis_tdata),
      .m_axis_tlast  (m_axis_tlast)
  );

endmodule

`default_nettype wire
