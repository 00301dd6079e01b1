// SPDX-License-Identifier: Apache-2.0
//
// Pads images with zeros: (H, W) pixels of BEATS beats give (TOP + H + BOTTOM, LEFT + W + RIGHT) pixels. One beat per clock.
// The zeros before an image wait for its first beat, so that nothing is given for an image that has not begun.
`default_nettype none

module rf_pad #(
    parameter int WIDTH = 8,  // bits of a beat
    parameter int H = 2,  // rows of an input image
    parameter int W = 3,  // columns
    parameter int BEATS = 1,  // beats of a pixel
    parameter int TOP = 1,  // rows of zeros above it
    parameter int BOTTOM = 1,  // rows of zeros below it
    parameter int LEFT = 1,  // columns of zeros left of it
    parameter int RIGHT = 1  // columns of zeros right of it
) (
    input  logic             clk,
    input  logic             rst_n,
    input  logic             s_axis_tvalid,
    output logic             s_axis_tready,
    input  logic [WIDTH-1:0] s_axis_tdata,
    input  logic             s_axis_tlast,
    output logic             m_axis_tvalid,
    input  logic             m_axis_tready,
    output logic [WIDTH-1:0] m_axis_tdata,
    output logic             m_axis_tlast
);

  if (H < 1 || W < 1 || BEATS < 1 || TOP < 0 || BOTTOM < 0 || LEFT < 0 || RIGHT < 0) begin : g_check_size
    $error("rf_pad %m: a size is too small, expected H, W and BEATS of 1 or more, TOP, BOTTOM, LEFT and RIGHT of 0 or more");
  end

  localparam int ROWS = TOP + H + BOTTOM;
  localparam int COLUMNS = (LEFT + W + RIGHT) * BEATS;
  localparam int YW = $clog2(ROWS + 1);
  localparam int XW = $clog2(COLUMNS + 1);

  logic [YW-1:0] y_q;
  logic [XW-1:0] x_q;  // beats
  logic begun_q;  // a beat of the image has been taken
  logic out_tready;
  wire on_row = (TOP == 0 || y_q >= YW'(TOP)) && y_q < YW'(TOP + H);
  wire on_image = on_row && (LEFT == 0 || x_q >= XW'(LEFT * BEATS)) && x_q < XW'((LEFT + W) * BEATS);
  wire x_last = x_q == XW'(COLUMNS - 1);
  wire y_last = y_q == YW'(ROWS - 1);
  wire out_tvalid = s_axis_tvalid || (begun_q && !on_image);
  wire give = out_tvalid && out_tready;

  assign s_axis_tready = out_tready && on_image;

  always_ff @(posedge clk) begin
    if (give) begin
      x_q <= x_last ? '0 : x_q + 1'b1;
      if (x_last) y_q <= y_last ? '0 : y_q + 1'b1;
      begun_q <= (begun_q || on_image) && !(x_last && y_last);
    end
    if (!rst_n) begin
      x_q <= '0;
      y_q <= '0;
      begun_q <= 1'b0;
    end
  end

  axis_skid #(
      .WIDTH(WIDTH + 1)
  ) u_axis_skid (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(out_tvalid),
      .s_axis_tready(out_tready),
      .s_axis_tdata({x_last && y_last, on_image ? s_axis_tdata : WIDTH'(0)}),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata({m_axis_tlast, m_axis_tdata})
  );

  wire unused = &{1'b0, s_axis_tlast};  // an image ends after H * W pixels

endmodule

`default_nettype wire
