// SPDX-License-Identifier: Apache-2.0
//
// axis_wire_to_fixed, FP16 to raw numbers of 8 bits: no row is lost or added, and each keeps its tlast (free_running_rules.sv).
// The numbers are not part of this proof: the benches compare them with the reference, bit for bit.
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
  localparam int WORD = 9;

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

  wire [WORD-1:0] row = {m_axis_tlast, m_axis_tdata};
  stream_rules #(.WIDTH(WORD)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(row));

  (* inner = "u_axis_wire_to_fixed.u_axis_free_running.valid_q" *) wire [LATENCY-1:0] inner_valid;
  (* inner = "u_axis_wire_to_fixed.u_axis_free_running.last_q" *) wire [LATENCY-1:0] inner_last;
  (* inner = "u_axis_wire_to_fixed.u_axis_free_running.gave_q" *) wire inner_gave;
  (* inner = "u_axis_wire_to_fixed.u_axis_free_running.free_q" *) wire [3:0] inner_free;
  (* inner = "u_axis_wire_to_fixed.u_axis_free_running.u_axis_fifo.write_pointer_q" *) wire [3:0] inner_write;
  (* inner = "u_axis_wire_to_fixed.u_axis_free_running.u_axis_fifo.read_pointer_q" *) wire [3:0] inner_read;
  (* inner = "u_axis_wire_to_fixed.u_axis_free_running.u_axis_fifo.memory[7:0]" *) wire [8*WORD-1:0] inner_words;

  free_running_rules #(.LATENCY(LATENCY), .WORD_WIDTH(WORD)) u_rules (
      .item(s_axis_tlast), .result(m_axis_tlast), .stages(inner_last), .*
  );

endmodule

`default_nettype wire
