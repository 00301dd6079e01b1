// SPDX-License-Identifier: Apache-2.0
//
// Concatenates two streams: A_BEATS beats of a, then B_BEATS of b, over and over. If these are the beats of a pixel, channels
// are concatenated; those of a line, columns; those of an image, rows. tlast is that of b. One beat per clock.
`default_nettype none

module rf_concat #(
    parameter int WIDTH = 8,  // bits of a beat
    parameter int A_BEATS = 2,  // consecutive beats of a
    parameter int B_BEATS = 1  // consecutive beats of b after them
) (
    input  logic             clk,
    input  logic             rst_n,
    input  logic             s_axis_a_tvalid,
    output logic             s_axis_a_tready,
    input  logic [WIDTH-1:0] s_axis_a_tdata,
    input  logic             s_axis_a_tlast,
    input  logic             s_axis_b_tvalid,
    output logic             s_axis_b_tready,
    input  logic [WIDTH-1:0] s_axis_b_tdata,
    input  logic             s_axis_b_tlast,
    output logic             m_axis_tvalid,
    input  logic             m_axis_tready,
    output logic [WIDTH-1:0] m_axis_tdata,
    output logic             m_axis_tlast
);

  if (A_BEATS < 1 || B_BEATS < 1) begin : g_check_beats
    $error("rf_concat %m: A_BEATS is %0d and B_BEATS %0d, expected 1 or more", A_BEATS, B_BEATS);
  end

  localparam int BEATS = A_BEATS > B_BEATS ? A_BEATS : B_BEATS;
  localparam int COUNT_WIDTH = BEATS > 1 ? $clog2(BEATS) : 1;

  logic [COUNT_WIDTH-1:0] count_q;
  logic turn_q;  // 0: a, 1: b
  logic out_tready;
  wire out_tvalid = turn_q ? s_axis_b_tvalid : s_axis_a_tvalid;
  wire turn_ends = count_q == (turn_q ? COUNT_WIDTH'(B_BEATS - 1) : COUNT_WIDTH'(A_BEATS - 1));

  assign s_axis_a_tready = out_tready && !turn_q;
  assign s_axis_b_tready = out_tready && turn_q;

  always_ff @(posedge clk) begin
    if (out_tvalid && out_tready) begin
      count_q <= turn_ends ? '0 : count_q + 1'b1;
      if (turn_ends) turn_q <= !turn_q;
    end
    if (!rst_n) begin
      count_q <= '0;
      turn_q <= 1'b0;
    end
  end

  axis_skid #(
      .WIDTH(WIDTH + 1)
  ) u_axis_skid (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(out_tvalid),
      .s_axis_tready(out_tready),
      .s_axis_tdata({turn_q && s_axis_b_tlast, turn_q ? s_axis_b_tdata : s_axis_a_tdata}),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata({m_axis_tlast, m_axis_tdata})
  );

  wire unused = &{1'b0, s_axis_a_tlast};

endmodule

`default_nettype wire
