// SPDX-License-Identifier: Apache-2.0
//
// axis_codes_to_fixed, 2 codes of 2 bits and a selection, is a pipeline of 3 clocks (pipeline_rules.sv).
`default_nettype none

module axis_codes_to_fixed_proof (
    input logic        clk,
    input logic        rst_n,
    input logic        s_axis_tvalid,
    input logic [ 4:0] s_axis_tdata,
    input logic        s_axis_tlast,
    input logic        m_axis_tready,
    input logic        mark
);

  localparam int LATENCY = 3;
  localparam logic [31:0] TABLE = 32'h5e3f_0c71;

  logic        s_axis_tready;
  logic        m_axis_tvalid;
  logic [ 7:0] m_axis_tdata;
  logic        m_axis_tlast;

  axis_codes_to_fixed #(
      .N            (2),
      .CODE_WIDTH   (2),
      .ADDRESS_WIDTH(2),
      .SELECT_WIDTH (1),
      .ENTRY_WIDTH  (4),
      .TABLE        (TABLE)
  ) u_axis_codes_to_fixed (.*);

  (* inner = "u_axis_codes_to_fixed.valid_q" *) wire [LATENCY-1:0] inner_valid;
  (* inner = "u_axis_codes_to_fixed.last_q" *) wire [LATENCY-1:0] inner_last;

  pipeline_rules #(.LATENCY(LATENCY), .WIDTH(8)) u_rules (.*);

endmodule

`default_nettype wire
