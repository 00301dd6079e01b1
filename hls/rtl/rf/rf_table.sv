// SPDX-License-Identifier: Apache-2.0
//
// Looks up a function in a table, element by element, LANES elements per clock; rf_lookup says how.
`default_nettype none

module rf_table #(
    parameter int LANES = 2,  // elements of a beat
    parameter int X_WIDTH = 8,  // bits of an input element
    parameter bit X_SIGNED = 1'b1,  // it is two's complement
    parameter int SCALE = 16,  // see rf_lookup; may be negative
    parameter int SCALE_SHIFT = 8,  // may be negative: shift left
    parameter int OFFSET = 8,
    parameter int TABLE_SIZE = 16,  // numbers in the table
    parameter TABLE_FILE = "",  // $readmemh: TABLE_SIZE words of Y_WIDTH bits
    parameter bit POSITIVE_PASS = 1'b0,  // for x >= 0 the result is x * GAIN instead of a table entry
    parameter int GAIN = 1,  // the other factor, raw
    parameter int RESULT_SHIFT = 0,  // fraction bits of x * GAIN minus those of the result
    parameter int Y_WIDTH = 8,  // bits of a result
    parameter bit Y_SIGNED = 1'b1,
    parameter int ROUNDING = ap_fixed_pkg::TRN,  // of x * GAIN, see fixed_cast
    parameter int OVERFLOW = ap_fixed_pkg::WRAP,
    parameter RAM_STYLE = "auto"  // of the table; every lane has its own copy
) (
    input  logic                     clk,
    input  logic                     rst_n,
    input  logic                     s_axis_tvalid,
    output logic                     s_axis_tready,
    input  logic [LANES*X_WIDTH-1:0] s_axis_tdata,
    input  logic                     s_axis_tlast,
    output logic                     m_axis_tvalid,
    input  logic                     m_axis_tready,
    output logic [LANES*Y_WIDTH-1:0] m_axis_tdata,
    output logic                     m_axis_tlast
);

  logic [LANES*Y_WIDTH-1:0] results;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    rf_lookup #(
        .X_WIDTH      (X_WIDTH),
        .X_SIGNED     (X_SIGNED),
        .SCALE        (SCALE),
        .SCALE_SHIFT  (SCALE_SHIFT),
        .OFFSET       (OFFSET),
        .TABLE_SIZE   (TABLE_SIZE),
        .TABLE_FILE   (TABLE_FILE),
        .POSITIVE_PASS(POSITIVE_PASS),
        .GAIN         (GAIN),
        .RESULT_SHIFT (RESULT_SHIFT),
        .Y_WIDTH      (Y_WIDTH),
        .Y_SIGNED     (Y_SIGNED),
        .ROUNDING     (ROUNDING),
        .OVERFLOW     (OVERFLOW),
        .RAM_STYLE    (RAM_STYLE)
    ) u_rf_lookup (
        .clk(clk),
        .x  (s_axis_tdata[lane*X_WIDTH+:X_WIDTH]),
        .y  (results[lane*Y_WIDTH+:Y_WIDTH])
    );
  end

  axis_free_running #(
      .WIDTH  (LANES * Y_WIDTH),
      .LATENCY(rf_pkg::LOOKUP_CLOCKS)
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
