// SPDX-License-Identifier: Apache-2.0
//
// The end of a stage: casts the LANES values of its free-running pipeline to the type of the result, and gives the results the
// handshakes of a stream (axis_free_running). The stage takes its inputs when s_axis_tvalid and s_axis_tready are both 1.
//
//   s_axis (valid, last) --> the stage's pipeline, LATENCY clocks --> values --> LANES x fixed_cast --> m_axis
`default_nettype none

module rf_output #(
    parameter int LANES = 2,  // values
    parameter int IN_WIDTH = 16,  // bits of a value
    parameter bit SIGNED_IN = 1'b1,  // it is two's complement
    parameter int LATENCY = 2,  // clock edges from a beat to its values; 0 if they are the beat
    parameter int SHIFT = 8,  // fraction bits of a value minus those of a result
    parameter int WIDTH = 8,  // bits of a result
    parameter bit SIGNED = 1'b1,
    parameter int ROUNDING = ap_fixed_pkg::TRN,
    parameter int OVERFLOW = ap_fixed_pkg::WRAP
) (
    input  logic                      clk,
    input  logic                      rst_n,
    input  logic                      s_axis_tvalid,
    output logic                      s_axis_tready,
    input  logic                      s_axis_tlast,
    input  logic [LANES*IN_WIDTH-1:0] values,
    output logic                      m_axis_tvalid,
    input  logic                      m_axis_tready,
    output logic [   LANES*WIDTH-1:0] m_axis_tdata,
    output logic                      m_axis_tlast
);

  localparam int CAST_CLOCKS = 2;

  logic [LANES*WIDTH-1:0] results;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    fixed_cast #(
        .IN_WIDTH (IN_WIDTH),
        .SIGNED_IN(SIGNED_IN),
        .SHIFT    (SHIFT),
        .WIDTH    (WIDTH),
        .SIGNED   (SIGNED),
        .ROUNDING (ROUNDING),
        .OVERFLOW (OVERFLOW)
    ) u_fixed_cast (
        .clk   (clk),
        .enable(1'b1),
        .x     (values[lane*IN_WIDTH+:IN_WIDTH]),
        .y     (results[lane*WIDTH+:WIDTH])
    );
  end

  axis_free_running #(
      .WIDTH  (LANES * WIDTH),
      .LATENCY(LATENCY + CAST_CLOCKS)
  ) u_axis_free_running (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(s_axis_tready),
      .s_axis_tlast(s_axis_tlast),
      .pipeline_tdata(results),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

endmodule

`default_nettype wire
