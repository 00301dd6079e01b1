// SPDX-License-Identifier: Apache-2.0
//
// Converts rows of N elements in their wire format, floating point or raw integers, to rows of N raw fixed-point numbers, with
// element 0 in the low bits on both sides. The latency is three clocks, one row per clock; under back-pressure the whole
// pipeline stops.
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

  logic [LATENCY-1:0] valid_q;
  logic [LATENCY-1:0] last_q;

  wire enable = !valid_q[LATENCY-1] || m_axis_tready;

  always_ff @(posedge clk) begin
    if (enable) begin
      valid_q <= {valid_q[LATENCY-2:0], s_axis_tvalid};
      last_q  <= {last_q[LATENCY-2:0], s_axis_tlast};
    end
    if (!rst_n) valid_q <= '0;
  end

  for (genvar i = 0; i < N; i++) begin : gen_lane
    if (EXPONENT_BITS == 0) begin : gen_raw
      logic [WORD_WIDTH-1:0] word_q;
      always_ff @(posedge clk) if (enable) word_q <= s_axis_tdata[WORD_WIDTH*i+:WORD_WIDTH];

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
          .enable(enable),
          .x     (word_q),
          .y     (m_axis_tdata[WIDTH*i+:WIDTH])
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
          .enable(enable),
          .x     (s_axis_tdata[WORD_WIDTH*i+:WORD_WIDTH]),
          .raw   (m_axis_tdata[WIDTH*i+:WIDTH])
      );
    end
  end

  assign s_axis_tready = enable;
  assign m_axis_tvalid = valid_q[LATENCY-1];
  assign m_axis_tlast  = last_q[LATENCY-1];

endmodule

`default_nettype wire
