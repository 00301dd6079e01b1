// SPDX-License-Identifier: Apache-2.0
//
// Makes a stream of a free-running pipeline that has no valid, no reset and no way to stop: a row taken at one clock edge
// is the pipeline's output LATENCY edges later, whatever happens meanwhile.
//
//   s_axis (valid, last) --> shift register of LATENCY --+
//   s_axis data --> the pipeline, outside this module ---+--> axis_fifo --> m_axis
//
// Since the pipeline cannot wait, a row is taken only when a place in the FIFO is already kept for its result: a counter
// of free places falls with each row taken and rises with each result handed over. The FIFO is deep enough that the
// counter never stops a stream that is not held up at the output.
`default_nettype none

module axis_free_running #(
    parameter int WIDTH   = 32,  // bits of one result
    parameter int LATENCY = 8    // clock edges from a row to its result, 1 or more
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
  // a row's place is taken for LATENCY edges in the pipeline, two in the FIFO and one until the counter knows
  localparam int DEPTH = 1 << $clog2(LATENCY + 3);
  localparam int COUNT_WIDTH = $clog2(DEPTH + 1);

  if (LATENCY < 1) begin : g_check_latency
    $error("axis_free_running %m: LATENCY is %0d, expected 1 or more", LATENCY);
  end

  logic [LATENCY-1:0] valid_q, last_q;
  logic [COUNT_WIDTH-1:0] free_q;
  logic take, give, fifo_tready;

  assign s_axis_tready = free_q != '0;
  assign take = s_axis_tvalid && s_axis_tready;
  assign give = m_axis_tvalid && m_axis_tready;

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      valid_q <= '0;
      free_q <= COUNT_WIDTH'(DEPTH);
    end else begin
      valid_q <= LATENCY'({valid_q, take});
      if (take && !give) free_q <= free_q - 1'b1;
      else if (give && !take) free_q <= free_q + 1'b1;
    end
  end

  always_ff @(posedge clk) last_q <= LATENCY'({last_q, s_axis_tlast});

  axis_fifo #(
      .WIDTH(WIDTH + 1),
      .DEPTH(DEPTH)
  ) u_axis_fifo (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(valid_q[LATENCY-1]),
      .s_axis_tready(fifo_tready),
      .s_axis_tdata({last_q[LATENCY-1], pipeline_tdata}),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata({m_axis_tlast, m_axis_tdata})
  );

  // the counter's promise: a result always finds its place
  always_ff @(posedge clk) begin
    if (rst_n && valid_q[LATENCY-1]) assert (fifo_tready);
  end
endmodule

`default_nettype wire
