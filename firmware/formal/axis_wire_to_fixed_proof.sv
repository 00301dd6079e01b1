// SPDX-License-Identifier: Apache-2.0
//
// axis_wire_to_fixed, FP16 to raw numbers of 8 bits, is a pipeline of 3 clocks (pipeline_rules.sv).
`default_nettype none

module axis_wire_to_fixed_proof (
    input logic        clk,
    input logic        rst_n,
    input logic        s_axis_tvalid,
    input logic [15:0] s_axis_tdata,
    input logic        s_axis_tlast,
    input logic        m_axis_tready,
    input logic        mark
);

  localparam int LATENCY = 3;

  logic        s_axis_tready;
  logic        m_axis_tvalid;
  logic [ 7:0] m_axis_tdata;
  logic        m_axis_tlast;

  axis_wire_to_fixed #(
      .N            (1),
      .WORD_WIDTH   (16),
      .EXPONENT_BITS(5),
      .WIDTH        (8),
      .FRACTION     (3)
  ) u_axis_wire_to_fixed (.*);

  (* inner = "u_axis_wire_to_fixed.valid_q" *) wire [LATENCY-1:0] inner_valid;
  (* inner = "u_axis_wire_to_fixed.last_q" *) wire [LATENCY-1:0] inner_last;

  pipeline_rules #(.LATENCY(LATENCY), .WIDTH(8)) u_rules (.*);

endmodule

`default_nettype wire
