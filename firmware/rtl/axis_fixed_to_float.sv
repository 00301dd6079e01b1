// SPDX-License-Identifier: Apache-2.0
//
// Rows of N raw fixed-point numbers to rows of N FP32 numbers, element 0 in the low bits on both sides. Five clocks of
// latency, a row every clock, any back-pressure: the whole pipeline moves or stands.
//
// SCALES holds one 16-bit two's complement exponent an element: element i is divided by 2**SCALES[i], the inverse of what
// axis_float_to_fixed does. See fixed_to_fp32 for the numbers.
`default_nettype none

module axis_fixed_to_float #(
    // elements of a row
    parameter int N = 1,
    // bits of a raw number
    parameter int WIDTH = 16,
    // bits of a raw number right of the binary point; may be negative
    parameter int FRACTION = 10,
    // 1: two's complement, 0: unsigned
    parameter bit SIGNED = 1'b1,
    // one exponent an element, element 0 in the low bits
    parameter logic [16*N-1:0] SCALES = '0
) (
    input  logic clk,
    input  logic rst_n,

    input  logic               s_axis_tvalid,
    output logic               s_axis_tready,
    input  logic [N*WIDTH-1:0] s_axis_tdata,
    input  logic               s_axis_tlast,

    output logic               m_axis_tvalid,
    input  logic               m_axis_tready,
    output logic [   32*N-1:0] m_axis_tdata,
    output logic               m_axis_tlast
);

  if (N < 1) begin : g_check_n
    $error("axis_fixed_to_float %m: N is %0d, expected at least 1", N);
  end

  localparam int LATENCY = 5;  // of fixed_to_fp32

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
    fixed_to_fp32 #(
        .WIDTH (WIDTH),
        .SHIFT (FRACTION + SCALE),
        .SIGNED(SIGNED)
    ) u_fixed_to_fp32 (
        .clk   (clk),
        .enable(enable),
        .raw   (s_axis_tdata[WIDTH*i+:WIDTH]),
        .y     (m_axis_tdata[32*i+:32])
    );
  end

  assign s_axis_tready = enable;
  assign m_axis_tvalid = valid_q[LATENCY-1];
  assign m_axis_tlast  = last_q[LATENCY-1];

endmodule

`default_nettype wire
