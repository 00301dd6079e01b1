// SPDX-License-Identifier: Apache-2.0
//
// Gives a block written by Vitis HLS, with ap_ctrl_hs and with ap_vld on its input and on each output, the handshakes of a stream.
// Such a block signals when it takes a row (ap_ready) and when each output is valid, in a clock of its own, but it cannot wait
// for the consumer of the outputs:
//
//   s_axis (valid, last) --> ap_start, the input's ap_vld --> the block, outside this module --> result_tvalid[i]
//                    last --> axis_fifo ---------------------------------------------------+
//                                               result i --> axis_fifo i, one per output --+--> m_axis when all are valid
//
// A row is offered to the block only if every FIFO has a free place for its result. A counter of free places is decremented for
// each row taken and incremented for each result given.
`default_nettype none

module axis_ap_ctrl #(
    parameter int WIDTH   = 16,  // bits of one output
    parameter int OUTPUTS = 1,   // outputs of the block
    parameter int DEPTH   = 16   // rows in flight, a power of two from 2 up; the block's latency over its interval or more
) (
    input  logic                     clk,
    input  logic                     rst_n,
    input  logic                     s_axis_tvalid,
    output logic                     s_axis_tready,
    input  logic                     s_axis_tlast,
    output logic                     ap_start,
    input  logic                     ap_ready,
    input  logic [      OUTPUTS-1:0] result_tvalid,
    input  logic [OUTPUTS*WIDTH-1:0] result_tdata,   // output 0 in the low bits
    output logic                     m_axis_tvalid,
    input  logic                     m_axis_tready,
    output logic [OUTPUTS*WIDTH-1:0] m_axis_tdata,
    output logic                     m_axis_tlast
);
  localparam int COUNT_WIDTH = $clog2(DEPTH + 1);

  if (OUTPUTS < 1) begin : g_check_outputs
    $error("axis_ap_ctrl %m: OUTPUTS is %0d, expected 1 or more", OUTPUTS);
  end

  logic [COUNT_WIDTH-1:0] free_q;
  logic [OUTPUTS-1:0] held, room;
  logic last_held, last_room, take, give;

  assign ap_start = s_axis_tvalid && free_q != '0;
  assign s_axis_tready = ap_ready && free_q != '0;
  assign take = ap_start && ap_ready;
  assign m_axis_tvalid = last_held && (&held);
  assign give = m_axis_tvalid && m_axis_tready;

  always_ff @(posedge clk) begin
    if (!rst_n) free_q <= COUNT_WIDTH'(DEPTH);
    else if (take && !give) free_q <= free_q - 1'b1;
    else if (give && !take) free_q <= free_q + 1'b1;
  end

  axis_fifo #(
      .WIDTH(1),
      .DEPTH(DEPTH)
  ) u_last (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(take),
      .s_axis_tready(last_room),
      .s_axis_tdata(s_axis_tlast),
      .m_axis_tvalid(last_held),
      .m_axis_tready(give),
      .m_axis_tdata(m_axis_tlast)
  );

  for (genvar i = 0; i < OUTPUTS; i++) begin : g_output
    axis_fifo #(
        .WIDTH(WIDTH),
        .DEPTH(DEPTH)
    ) u_result (
        .clk(clk),
        .rst_n(rst_n),
        .s_axis_tvalid(result_tvalid[i]),
        .s_axis_tready(room[i]),
        .s_axis_tdata(result_tdata[i*WIDTH+:WIDTH]),
        .m_axis_tvalid(held[i]),
        .m_axis_tready(give),
        .m_axis_tdata(m_axis_tdata[i*WIDTH+:WIDTH])
    );
  end

  // the counter guarantees that the FIFO has a place for every result
  always_ff @(posedge clk) begin
    if (rst_n && take) assert (last_room);
    if (rst_n) assert ((result_tvalid & ~room) == '0);
  end
endmodule

`default_nettype wire
