// SPDX-License-Identifier: Apache-2.0
//
// axis_free_running with a latency of 2, and a pipeline that delays its input: free_running_rules.sv, for all bits of a row.
`default_nettype none

module axis_free_running_proof (
    input logic       clk,
    input logic       rst_n,
    input logic       s_axis_tvalid,
    input logic [3:0] s_axis_tdata,
    input logic       s_axis_tlast,
    input logic       m_axis_tready,
    input logic       mark
);

  logic       s_axis_tready;
  logic       m_axis_tvalid;
  logic [3:0] m_axis_tdata;
  logic       m_axis_tlast;

  // the pipeline
  logic [3:0] first_q;
  logic [3:0] second_q;
  always_ff @(posedge clk) begin
    first_q  <= s_axis_tdata;
    second_q <= first_q;
  end

  axis_free_running #(.WIDTH(4), .LATENCY(2)) u_axis_free_running (.pipeline_tdata(second_q), .*);

  wire [4:0] result = {m_axis_tlast, m_axis_tdata};
  stream_rules #(.WIDTH(5)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(result));

  (* inner = "u_axis_free_running.valid_q" *) wire [1:0] inner_valid;
  (* inner = "u_axis_free_running.last_q" *) wire [1:0] inner_last;
  (* inner = "u_axis_free_running.gave_q" *) wire inner_gave;
  (* inner = "u_axis_free_running.free_q" *) wire [3:0] inner_free;
  (* inner = "u_axis_free_running.u_axis_fifo.write_pointer_q" *) wire [3:0] inner_write;
  (* inner = "u_axis_free_running.u_axis_fifo.read_pointer_q" *) wire [3:0] inner_read;
  (* inner = "u_axis_free_running.u_axis_fifo.memory[7:0]" *) wire [39:0] inner_words;

  free_running_rules #(.LATENCY(2), .WIDTH(5), .WORD_WIDTH(5)) u_rules (
      .item({s_axis_tlast, s_axis_tdata}), .stages({inner_last[1], second_q, inner_last[0], first_q}), .*
  );

endmodule

`default_nettype wire
