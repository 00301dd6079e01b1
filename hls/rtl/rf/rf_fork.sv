// SPDX-License-Identifier: Apache-2.0
//
// Gives each beat of one stream to COUNT consumers. Each takes it when it is ready, and the next beat follows when all have
// taken this one. They share tdata and tlast. One beat per clock, and no combinational path back to the source.
`default_nettype none

module rf_fork #(
    parameter int WIDTH = 8,  // bits of a beat
    parameter int COUNT = 2  // consumers
) (
    input  logic             clk,
    input  logic             rst_n,
    input  logic             s_axis_tvalid,
    output logic             s_axis_tready,
    input  logic [WIDTH-1:0] s_axis_tdata,
    input  logic             s_axis_tlast,
    output logic [COUNT-1:0] m_axis_tvalid,
    input  logic [COUNT-1:0] m_axis_tready,
    output logic [WIDTH-1:0] m_axis_tdata,
    output logic             m_axis_tlast
);

  if (COUNT < 1) begin : g_check_count
    $error("rf_fork %m: COUNT is %0d, expected 1 or more", COUNT);
  end

  logic beat_tvalid;
  logic [COUNT-1:0] taken_q;
  wire [COUNT-1:0] taken = taken_q | (m_axis_tvalid & m_axis_tready);
  wire all_taken = &taken;

  axis_skid #(
      .WIDTH(WIDTH + 1)
  ) u_axis_skid (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(s_axis_tready),
      .s_axis_tdata({s_axis_tlast, s_axis_tdata}),
      .m_axis_tvalid(beat_tvalid),
      .m_axis_tready(all_taken),
      .m_axis_tdata({m_axis_tlast, m_axis_tdata})
  );

  assign m_axis_tvalid = {COUNT{beat_tvalid}} & ~taken_q;

  always_ff @(posedge clk) begin
    taken_q <= all_taken ? '0 : taken;
    if (!rst_n) taken_q <= '0;
  end

endmodule

`default_nettype wire
