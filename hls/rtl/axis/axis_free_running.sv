// SPDX-License-Identifier: Apache-2.0
//
// Gives a free-running pipeline, which has no valid, no reset and no enable, the handshakes of a stream. The result of a row
// taken at one clock edge is on the pipeline's output LATENCY edges later in any case.
//
//   s_axis (valid, last) --> shift register of LATENCY --+
//   s_axis data --> the pipeline, outside this module ---+--> axis_fifo --> m_axis
//
// Since the pipeline cannot wait, a row is taken only if the FIFO has a free place for its result. A counter of free places
// is decremented for each row taken and incremented in the clock after each result given. The FIFO is deep enough that the
// counter never stops a stream whose output does not stall.
`default_nettype none

module axis_free_running #(
    parameter int WIDTH   = 32,  // bits of one result
    parameter int LATENCY = 8,   // clock edges from a row to its result, 1 or more
    // the LATENCY of the slowest of the streams whose results are joined with these, which wait for it
    parameter int MOST_LATENCY = LATENCY
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
  // a place is reserved for LATENCY edges in the pipeline, two in the FIFO and two until the counter is updated
  localparam int DEPTH = 1 << $clog2(MOST_LATENCY + 4);
  localparam int COUNT_WIDTH = $clog2(DEPTH + 1);

  if (LATENCY < 1) begin : g_check_latency
    $error("axis_free_running %m: LATENCY is %0d, expected 1 or more", LATENCY);
  end
  if (MOST_LATENCY < LATENCY) begin : g_check_most_latency
    $error("axis_free_running %m: MOST_LATENCY is %0d, expected at least LATENCY, %0d", MOST_LATENCY, LATENCY);
  end

  logic [LATENCY-1:0] valid_q, last_q;
  logic [COUNT_WIDTH-1:0] free_q;
  logic ready_q;  // a place is free
  logic gave_q;  // a result was given: so the consumer's handshake is not on the path to the counter
  logic take, fifo_tready;

  assign s_axis_tready = ready_q;
  assign take = s_axis_tvalid && s_axis_tready;

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      valid_q <= '0;
      free_q <= COUNT_WIDTH'(DEPTH);
      ready_q <= 1'b1;
      gave_q <= 1'b0;
    end else begin
      gave_q <= m_axis_tvalid && m_axis_tready;
      valid_q <= LATENCY'({valid_q, take});
      if (take && !gave_q) begin
        free_q <= free_q - 1'b1;
        ready_q <= free_q != COUNT_WIDTH'(1);
      end else if (gave_q && !take) begin
        free_q <= free_q + 1'b1;
        ready_q <= 1'b1;
      end
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

  // the counter guarantees that the FIFO has a place for every result
  always_ff @(posedge clk) begin
    if (rst_n && valid_q[LATENCY-1]) assert (fifo_tready);
  end

  always_comb if (rst_n) assert (ready_q == (free_q != '0));
endmodule

`default_nettype wire
