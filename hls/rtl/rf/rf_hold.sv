// SPDX-License-Identifier: Apache-2.0
//
// Holds the beats of a vector until a number that depends on all of them is known, such as the maximum or the sum of a softmax,
// and then gives each beat together with this number. The number is computed outside from the beats as they are taken, and is
// given at most LATENCY clocks after the last of them. Vectors follow each other without a gap.
//
//   s_axis --+--> FIFO of beats ------------------> m_axis_tdata, tlast
//            +--> outside --> FIFO of numbers ----> m_number, with every beat of its vector
`default_nettype none

module rf_hold #(
    parameter int WIDTH = 8,  // bits of a beat
    parameter int BEATS = 4,  // beats of a vector
    parameter int NUMBER_WIDTH = 8,  // bits of the number
    parameter int LATENCY = 4  // clocks from the last beat to the number
) (
    input  logic                    clk,
    input  logic                    rst_n,
    input  logic                    s_axis_tvalid,
    output logic                    s_axis_tready,
    input  logic [       WIDTH-1:0] s_axis_tdata,
    input  logic                    s_axis_tlast,
    input  logic                    number_tvalid,
    input  logic [NUMBER_WIDTH-1:0] number_tdata,
    output logic                    m_axis_tvalid,
    input  logic                    m_axis_tready,
    output logic [       WIDTH-1:0] m_axis_tdata,
    output logic                    m_axis_tlast,
    output logic [NUMBER_WIDTH-1:0] m_number
);

  if (BEATS < 1 || LATENCY < 1) begin : g_check_size
    $error("rf_hold %m: BEATS is %0d and LATENCY %0d, expected 1 or more", BEATS, LATENCY);
  end

  // a beat waits for the rest of its vector, for the number and for the latency of two FIFOs
  localparam int DEPTH = 1 << $clog2(BEATS + LATENCY + 5);
  // the most vectors inside at once
  localparam int VECTORS = 1 << $clog2(DEPTH / BEATS + 3);
  localparam int COUNT_WIDTH = BEATS > 1 ? $clog2(BEATS) : 1;

  logic beat_tvalid, number_here, number_tready;
  logic [COUNT_WIDTH-1:0] beat_q;
  wire beat_last = beat_q == COUNT_WIDTH'(BEATS - 1);
  wire give = m_axis_tvalid && m_axis_tready;

  assign m_axis_tvalid = beat_tvalid && number_here;

  always_ff @(posedge clk) begin
    if (give) beat_q <= beat_last ? '0 : beat_q + 1'b1;
    if (!rst_n) beat_q <= '0;
  end

  axis_fifo #(
      .WIDTH(WIDTH + 1),
      .DEPTH(DEPTH)
  ) u_beats (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(s_axis_tready),
      .s_axis_tdata({s_axis_tlast, s_axis_tdata}),
      .m_axis_tvalid(beat_tvalid),
      .m_axis_tready(give),
      .m_axis_tdata({m_axis_tlast, m_axis_tdata})
  );

  axis_fifo #(
      .WIDTH(NUMBER_WIDTH),
      .DEPTH(VECTORS)
  ) u_numbers (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(number_tvalid),
      .s_axis_tready(number_tready),
      .s_axis_tdata(number_tdata),
      .m_axis_tvalid(number_here),
      .m_axis_tready(give && beat_last),
      .m_axis_tdata(m_number)
  );

  // the depth guarantees that the FIFO has a place for every number
  always_ff @(posedge clk) begin
    if (rst_n && number_tvalid) assert (number_tready);
  end
endmodule

`default_nettype wire
