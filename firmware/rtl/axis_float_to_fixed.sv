// SPDX-License-Identifier: Apache-2.0
//
// Rows of N FP32 numbers to rows of N raw fixed-point numbers, element 0 in the low bits on both sides. Three clocks of
// latency, a row every clock, any back-pressure: the whole pipeline moves or stands.
//
// SCALES holds one 16-bit two's complement exponent an element: element i is multiplied by 2**SCALES[i] before it is
// rounded. A power of two only moves the point, so it is a constant in the fabric. See fp32_to_fixed for the numbers.
`default_nettype none

module axis_float_to_fixed #(
    // elements of a row
    parameter int N = 18,
    // bits of a raw number
    parameter int WIDTH = 16,
    // bits of a raw number right of the binary point; may be negative
    parameter int FRACTION = 10,
    // 1: two's complement, 0: unsigned
    parameter bit SIGNED = 1'b1,
    // 0: TRN, 1: RND, 2: RND_CONV
    parameter int ROUNDING = 0,
    // 0: WRAP, 1: SAT
    parameter int OVERFLOW = 0,
    // one exponent an element, element 0 in the low bits
    parameter logic [16*N-1:0] SCALES = '0
) (
    input  logic clk,
    input  logic rst_n,

    input  logic               s_axis_tvalid,
    output logic               s_axis_tready,
    input  logic [   32*N-1:0] s_axis_tdata,
    input  logic               s_axis_tlast,

    output logic               m_axis_tvalid,
    input  logic               m_axis_tready,
    output logic [N*WIDTH-1:0] m_axis_tdata,
    output logic               m_axis_tlast
);

  if (N < 1) begin : g_check_n
    $error("axis_float_to_fixed %m: N is %0d, expected at least 1", N);
  end

  localparam int LATENCY = 3;  // of fp32_to_fixed

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
    localparam int SCALE = 32'($signed(SCALES[16*i+:16]));
    fp32_to_fixed #(
        .WIDTH   (WIDTH),
        .SHIFT   (FRACTION + SCALE),
        .SIGNED  (SIGNED),
        .ROUNDING(ROUNDING),
        .OVERFLOW(OVERFLOW)
    ) u_fp32_to_fixed (
        .clk   (clk),
        .enable(enable),
        .x     (s_axis_tdata[32*i+:32]),
        .raw   (m_axis_tdata[WIDTH*i+:WIDTH])
    );
  end

  assign s_axis_tready = enable;
  assign m_axis_tvalid = valid_q[LATENCY-1];
  assign m_axis_tlast  = last_q[LATENCY-1];

endmodule

`default_nettype wire
