// SPDX-License-Identifier: Apache-2.0
//
// The contract of axis_free_running, which replaces it in the unbounded proofs of stages: a beat is taken when there is a place,
// at any time, but again within two clocks, and its result is given LATENCY clocks later. axis_free_running itself is proved to keep the
// results until they are taken, each once and in order, and to have a place for each. So this one may give them at once, to a
// consumer that is ready.
`default_nettype none

module axis_free_running #(
    parameter int WIDTH   = 32,
    parameter int LATENCY = 8
) (
    input  logic             clk,
    input  logic             rst_n,
    input  logic             s_axis_tvalid,
    output logic             s_axis_tready,
    input  logic             s_axis_tlast,
    input  logic [WIDTH-1:0] pipeline_tdata,
    output logic             m_axis_tvalid,
    input  logic             m_axis_tready,
    output logic [WIDTH-1:0] m_axis_tdata,
    output logic             m_axis_tlast
);

  (* anyseq *) logic place;
  logic [LATENCY-1:0] valid_q, last_q;
  logic [1:0] none_q;

  assign s_axis_tready = place;
  assign m_axis_tvalid = valid_q[LATENCY-1];
  assign m_axis_tlast = last_q[LATENCY-1];
  assign m_axis_tdata = pipeline_tdata;

  always_ff @(posedge clk) begin
    valid_q <= rst_n ? LATENCY'({valid_q, s_axis_tvalid && s_axis_tready}) : '0;
    last_q  <= LATENCY'({last_q, s_axis_tlast});
    none_q  <= rst_n && !place ? none_q + 1'b1 : '0;
  end

  always_comb begin
    if (none_q == 2'd2) assume (place);
    if (m_axis_tvalid && rst_n) assume (m_axis_tready);
  end

endmodule

`default_nettype wire
