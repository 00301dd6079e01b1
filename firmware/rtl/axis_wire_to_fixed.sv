// SPDX-License-Identifier: Apache-2.0
//
// Converts rows of N elements in their wire format, floating point or raw integers, to rows of N raw fixed-point numbers, with
// element 0 in the low bits on both sides. One row per clock; the latency is five clocks: three of the conversion, which never
// waits, and two of the FIFO behind it (axis_free_running). Back-pressure therefore reaches two counters and no data register.
//
// SCALES has one 16-bit two's complement exponent for each element: a floating-point element i is multiplied by 2**SCALES[i]
// before it is rounded. A power of two only moves the binary point, so it needs no multiplier. Raw integers are the network's
// numbers already and are not scaled. See float_to_fixed and fixed_cast for the conversion.
`default_nettype none

module axis_wire_to_fixed #(
    // elements of a row
    parameter int N = 18,
    // bits of an element on the wire; of its exponent: 8 in FP32 and BF16, 5 in FP16, 0 in raw integers
    parameter int WORD_WIDTH = 32,
    parameter int EXPONENT_BITS = 8,
    // of raw integers: bits right of the binary point, may be negative; 1: two's complement, 0: unsigned
    parameter int WORD_FRACTION = 0,
    parameter bit WORD_SIGNED = 1'b1,
    // bits of a raw number
    parameter int WIDTH = 16,
    // bits of a raw number right of the binary point; may be negative
    parameter int FRACTION = 10,
    // 1: two's complement, 0: unsigned
    parameter bit SIGNED = 1'b1,
    // modes of ap_fixed_pkg
    parameter int ROUNDING = ap_fixed_pkg::TRN,
    parameter int OVERFLOW = ap_fixed_pkg::WRAP,
    // one exponent for each element, element 0 in the low bits
    parameter logic [16*N-1:0] SCALES = '0
) (
    input  logic clk,
    input  logic rst_n,

    input  logic                    s_axis_tvalid,
    output logic                    s_axis_tready,
    input  logic [N*WORD_WIDTH-1:0] s_axis_tdata,
    input  logic                    s_axis_tlast,

    output logic                    m_axis_tvalid,
    input  logic                    m_axis_tready,
    output logic [     N*WIDTH-1:0] m_axis_tdata,
    output logic                    m_axis_tlast
);

  if (N < 1) begin : g_check_n
    $error("axis_wire_to_fixed %m: N is %0d, expected at least 1", N);
  end

  localparam int LATENCY = 3;  // of float_to_fixed; fixed_cast takes two behind a register

  logic [N*WIDTH-1:0] converted;

  for (genvar i = 0; i < N; i++) begin : gen_lane
    if (EXPONENT_BITS == 0) begin : gen_raw
      logic [WORD_WIDTH-1:0] word_q;
      always_ff @(posedge clk) word_q <= s_axis_tdata[WORD_WIDTH*i+:WORD_WIDTH];

      fixed_cast #(
          .IN_WIDTH (WORD_WIDTH),
          .SIGNED_IN(WORD_SIGNED),
          .SHIFT    (WORD_FRACTION - FRACTION),
          .WIDTH    (WIDTH),
          .SIGNED   (SIGNED),
          .ROUNDING (ROUNDING),
          .OVERFLOW (OVERFLOW)
      ) u_fixed_cast (
          .clk   (clk),
          .enable(1'b1),
          .x     (word_q),
          .y     (converted[WIDTH*i+:WIDTH])
      );
    end else begin : gen_float
      localparam int SCALE = 32'($signed(SCALES[16*i+:16]));
      float_to_fixed #(
          .EXPONENT_BITS(EXPONENT_BITS),
          .MANTISSA_BITS(WORD_WIDTH - 1 - EXPONENT_BITS),
          .WIDTH        (WIDTH),
          .SHIFT        (FRACTION + SCALE),
          .SIGNED       (SIGNED),
          .ROUNDING     (ROUNDING),
          .OVERFLOW     (OVERFLOW)
      ) u_float_to_fixed (
          .clk   (clk),
          .enable(1'b1),
          .x     (s_axis_tdata[WORD_WIDTH*i+:WORD_WIDTH]),
          .raw   (converted[WIDTH*i+:WIDTH])
      );
    end
  end

  axis_free_running #(
      .WIDTH  (N * WIDTH),
      .LATENCY(LATENCY)
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
