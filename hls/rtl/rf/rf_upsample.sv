// SPDX-License-Identifier: Apache-2.0
//
// Enlarges images by repetition: every pixel FACTOR_W times, every row FACTOR_H times. It holds two rows, so that one is
// received while the other is sent; the first repetition of a row is sent while the row is received. One beat out per clock. A
// sequence is an image with W = 1: a step is a row, which FACTOR_H repeats.
`default_nettype none

module rf_upsample #(
    parameter int WIDTH = 8,  // bits of a beat
    parameter int W = 3,  // columns of an image
    parameter int BEATS = 2,  // beats of a pixel
    parameter int FACTOR_H = 2,  // repetitions of a row
    parameter int FACTOR_W = 2,  // repetitions of a pixel
    parameter RAM_STYLE = "auto"  // of the rows
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

  if (W < 1 || BEATS < 1 || FACTOR_H < 1 || FACTOR_W < 1) begin : g_check_size
    $error("rf_upsample %m: a size is 0 or less, expected W, BEATS, FACTOR_H and FACTOR_W of 1 or more");
  end
  if (RAM_STYLE == "") begin : g_check_style
    $error("rf_upsample %m: RAM_STYLE is empty, expected auto, block, distributed or ultra");
  end

  localparam int ROW = W * BEATS;
  localparam int AW = ROW > 1 ? $clog2(ROW) : 1;
  localparam int CW = BEATS > 1 ? $clog2(BEATS) : 1;
  localparam int HW = FACTOR_H > 1 ? $clog2(FACTOR_H) : 1;
  localparam int WW = FACTOR_W > 1 ? $clog2(FACTOR_W) : 1;

  (* ram_style = RAM_STYLE *)
  logic [WIDTH-1:0] rows[2<<AW];
  logic [WIDTH-1:0] beat_q;

  // ---------------------------------------------------------------- the row that is received
  logic [1:0] full_q, last_q;
  logic [AW-1:0] count_q;  // beats received of it
  logic write_q, read_q;  // which row
  logic place_tready;
  wire write = s_axis_tvalid && s_axis_tready;
  wire write_last = count_q == AW'(ROW - 1);

  assign s_axis_tready = !full_q[write_q];

  // ---------------------------------------------------------------- the row that is sent
  logic [AW-1:0] start_q;  // of the pixel
  logic [CW-1:0] cb_q;
  logic [WW-1:0] repeat_w_q;
  logic [HW-1:0] repeat_h_q;
  wire [AW-1:0] address = start_q + AW'(cb_q);
  wire cb_last = cb_q == CW'(BEATS - 1);
  wire w_last = repeat_w_q == WW'(FACTOR_W - 1);
  wire h_last = repeat_h_q == HW'(FACTOR_H - 1);
  wire row_last = start_q == AW'(ROW - BEATS);
  wire available = full_q[read_q] || (write_q == read_q && address < count_q);
  wire take = available && place_tready;
  wire pixel_done = take && cb_last && w_last;
  wire done = pixel_done && row_last && h_last;

  always_ff @(posedge clk) begin
    if (write) count_q <= write_last ? '0 : count_q + 1'b1;
    if (write && write_last) begin
      full_q[write_q] <= 1'b1;
      last_q[write_q] <= s_axis_tlast;
      write_q <= !write_q;
    end
    if (take) cb_q <= cb_last ? '0 : cb_q + 1'b1;
    if (take && cb_last) repeat_w_q <= w_last ? '0 : repeat_w_q + 1'b1;
    if (pixel_done) start_q <= row_last ? '0 : start_q + AW'(BEATS);
    if (pixel_done && row_last) repeat_h_q <= h_last ? '0 : repeat_h_q + 1'b1;
    if (done) begin
      full_q[read_q] <= 1'b0;
      read_q <= !read_q;
    end
    if (!rst_n) begin
      count_q <= '0;
      full_q <= '0;
      write_q <= 1'b0;
      read_q <= 1'b0;
      cb_q <= '0;
      repeat_w_q <= '0;
      start_q <= '0;
      repeat_h_q <= '0;
    end
  end

  always_ff @(posedge clk) if (write) rows[{write_q, count_q}] <= s_axis_tdata;
  always_ff @(posedge clk) if (take) beat_q <= rows[{read_q, address}];

  axis_free_running #(
      .WIDTH  (WIDTH),
      .LATENCY(1)
  ) u_axis_free_running (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(available),
      .s_axis_tready(place_tready),
      .s_axis_tlast(done && last_q[read_q]),
      .pipeline_tdata(beat_q),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

endmodule

`default_nettype wire
