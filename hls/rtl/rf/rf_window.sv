// SPDX-License-Identifier: Apache-2.0
//
// Gives the windows of a convolution or a pooling over images. An input image (H, W, C) is beats of LANES channels. The output
// has one beat for each output pixel (oy, ox), each beat of channels cb and each column kw of the kernel, in this order, with
// K_H * LANES elements: element kh*LANES + l is that of input row oy*S_H + kh - PAD_TOP, column ox*S_W + kw - PAD_LEFT and
// channel cb*LANES + l, or PAD_VALUE if that is outside the image.
//
//   s_axis --> [ line 0 | line 1 | ... | line LINES-1 ]  one memory each --> rotate, pad --> m_axis
//                  ^ the writer, at most LINES lines ahead of the oldest line that the reader still needs
//
// The reader may read a line while it is being written, so that a slow source costs no extra clocks. While the last lines of an
// image are read, the first of the next are written. An image takes max(beats in, beats out) clocks if LINES is large enough;
// with the smallest LINES, K_H + S_H, and more beats out than in, it takes up to K_H - PAD_TOP - S_H lines' beats more. A
// sequence is an image with W = 1, one line per step, of which the memory holds K_H + S_H. A row is IMAGES images, and tlast is on
// the last beat of the last.
`default_nettype none

module rf_window #(
    parameter int H = 6,  // rows of an input image
    parameter int W = 5,  // columns
    parameter int C = 2,  // channels
    parameter int LANES = 1,  // channels of a beat, a divisor of C
    parameter int WIDTH = 8,  // bits of an element
    parameter int K_H = 3,  // rows of the kernel
    parameter int K_W = 3,  // columns
    parameter int S_H = 1,  // rows from one output pixel to that below
    parameter int S_W = 1,  // columns from one output pixel to the next
    parameter int PAD_TOP = 1,  // rows of padding above the image
    parameter int PAD_LEFT = 1,  // columns of padding before it
    parameter int OUT_H = 6,  // rows of output pixels
    parameter int OUT_W = 5,  // columns
    parameter logic [63:0] PAD_VALUE = 0,  // the elements outside the image
    parameter int LINES = K_H + S_H,  // lines of memory, K_H + S_H or more
    parameter int IMAGES = 1,  // images of a row
    parameter RAM_STYLE = "auto"  // of the lines
) (
    input  logic                       clk,
    input  logic                       rst_n,
    input  logic                       s_axis_tvalid,
    output logic                       s_axis_tready,
    input  logic [    LANES*WIDTH-1:0] s_axis_tdata,
    input  logic                       s_axis_tlast,
    output logic                       m_axis_tvalid,
    input  logic                       m_axis_tready,
    output logic [K_H*LANES*WIDTH-1:0] m_axis_tdata,
    output logic                       m_axis_tlast
);

  if (LANES < 1 || C % LANES != 0) begin : g_check_lanes
    $error("rf_window %m: LANES is %0d, expected a divisor of C, %0d", LANES, C);
  end
  if (WIDTH < 1 || WIDTH > 64) begin : g_check_width
    $error("rf_window %m: WIDTH is %0d, expected 1 to 64", WIDTH);
  end
  if (LINES < K_H + S_H) begin : g_check_lines
    $error("rf_window %m: LINES is %0d, expected K_H + S_H = %0d or more", LINES, K_H + S_H);
  end
  if (H < 1 || W < 1 || K_H < 1 || K_W < 1 || S_H < 1 || S_W < 1 || OUT_H < 1 || OUT_W < 1) begin : g_check_shape
    $error("rf_window %m: a size is 0 or less, expected every one to be 1 or more");
  end
  if (IMAGES < 1) begin : g_check_images
    $error("rf_window %m: IMAGES is %0d, expected 1 or more", IMAGES);
  end
  if (PAD_TOP < 0 || PAD_TOP >= K_H || PAD_LEFT < 0 || PAD_LEFT >= K_W) begin : g_check_pad
    $error("rf_window %m: PAD_TOP is %0d and PAD_LEFT %0d, expected 0 or more and less than the kernel", PAD_TOP, PAD_LEFT);
  end
  if (RAM_STYLE == "") begin : g_check_style
    $error("rf_window %m: RAM_STYLE is empty, expected auto, block, distributed or ultra");
  end

  localparam int DATA = LANES * WIDTH;
  localparam int CB = C / LANES;  // beats of a pixel
  localparam int LINE = W * CB;  // beats of a line
  localparam int COLUMNS = (OUT_W - 1) * S_W + K_W > W ? (OUT_W - 1) * S_W + K_W : W;
  localparam int ROWS = (OUT_H - 1) * S_H + K_H > H ? (OUT_H - 1) * S_H + K_H : H;
  localparam int LAST = ((OUT_W - 1) * S_W + K_W) * CB - 1;  // from the first beat of an output row to the last
  // widths with a sign
  localparam int AW = $clog2((COLUMNS + PAD_LEFT + K_W) * CB + 1) + 2;
  localparam int YW = $clog2(ROWS + PAD_TOP + S_H + LINES + 1) + 2;
  // widths without
  localparam int XW = LINE > 1 ? $clog2(LINE) : 1;
  localparam int SW = LINES > 1 ? $clog2(LINES) : 1;
  localparam int KW = K_W > 1 ? $clog2(K_W) : 1;
  localparam int CW = CB > 1 ? $clog2(CB) : 1;
  localparam int OXW = OUT_W > 1 ? $clog2(OUT_W) : 1;
  localparam int OYW = OUT_H > 1 ? $clog2(OUT_H) : 1;

  // from the slot of a line to that of the line `lines` after it
  function automatic int modulo(input int lines);
    modulo = ((lines % LINES) + LINES) % LINES;
  endfunction

  // the input row that is kh = 0 of an output row; these follow each other without an end
  function automatic int first_y(input int oy);
    first_y = (oy % OUT_H) * S_H - PAD_TOP;
  endfunction

  // the lines of the image from row y on. In all three, comparisons and sums are side by side
  function automatic logic signed [YW-1:0] rest_from(input logic signed [YW-1:0] y);
    rest_from = y > YW'(H) ? '0 : y < 0 ? YW'(H) : YW'(H) - y;
  endfunction
  // those among the K_H from y on
  function automatic logic signed [YW-1:0] needed_from(input logic signed [YW-1:0] y);
    needed_from = y > YW'(H - K_H) ? rest_from(y) : y < 0 ? y + YW'(K_H) : YW'(K_H);
  endfunction
  // those that are no longer needed after an output row from y on
  function automatic logic signed [YW-1:0] done_from(input logic signed [YW-1:0] y, input logic last);
    done_from = last || y > YW'(H - S_H) ? rest_from(y) : y < YW'(-S_H) ? '0 : y < 0 ? y + YW'(S_H) : YW'(S_H);
  endfunction

  // ---------------------------------------------------------------- the writer
  // complete lines in memory, counted from the oldest that the reader still needs; negative if it needs none of them yet
  logic signed [YW-1:0] ahead_q;
  logic [XW-1:0] write_x_q;  // beats written of the line after those
  logic begun_q;  // there are some
  logic room_q;  // fewer lines are complete than memory has
  logic [SW-1:0] write_slot_q;
  wire write = s_axis_tvalid && s_axis_tready;
  wire line_end = write && write_x_q == XW'(LINE - 1);

  assign s_axis_tready = room_q;

  always_ff @(posedge clk) begin
    if (write) write_x_q <= line_end ? '0 : write_x_q + 1'b1;
    if (write) begun_q <= !line_end;
    if (line_end) write_slot_q <= write_slot_q == SW'(LINES - 1) ? '0 : write_slot_q + 1'b1;
    if (!rst_n) begin
      write_x_q <= '0;
      begun_q <= 1'b0;
      write_slot_q <= '0;
    end
  end

  // ---------------------------------------------------------------- the reader
  logic [KW-1:0] kw_q;
  logic [CW-1:0] cb_q;
  logic [OXW-1:0] ox_q;
  logic [OYW-1:0] oy_q;
  logic signed [AW-1:0] address_q;  // of the beat in its line
  logic signed [AW-1:0] lacking_q;  // address_q - write_x_q: negative if the line that is being written has the beat
  logic signed [YW-1:0] y_q;  // the input row that kh = 0 is
  logic [SW-1:0] slot_q;  // its slot, or the slot it would have
  logic signed [YW-1:0] spare_q;  // complete lines more than are needed to read every column of this output row; may be negative
  logic signed [YW-1:0] done_q;  // lines that are no longer needed after it
  logic signed [YW-1:0] next_y_q, after_y_q;  // the input rows that kh = 0 is in the next output row and in the one after
  logic signed [YW-1:0] next_need_q;  // complete lines that the next needs

  wire kw_last = kw_q == KW'(K_W - 1);
  wire cb_last = cb_q == CW'(CB - 1);
  wire ox_last = ox_q == OXW'(OUT_W - 1);
  wire oy_last = oy_q == OYW'(OUT_H - 1);
  wire next_last = oy_q == OYW'((2 * OUT_H - 2) % OUT_H);
  wire after_last = oy_q == OYW'((3 * OUT_H - 3) % OUT_H);
  wire row_end = kw_last && cb_last && ox_last;
  wire on_line = address_q < AW'(LINE);
  wire on_image = address_q >= 0 && on_line;
  // the newest line needed is still being written, but already has this beat; padding waits for the column beside it
  wire behind = spare_q == -1 && begun_q && lacking_q < 0;
  wire available = spare_q >= 0 || behind;
  logic place_tready;
  wire take = available && place_tready;

  wire [SW:0] next_slot = {1'b0, slot_q} + (oy_last ? (SW + 1)'(modulo(H + first_y(0) - first_y(OUT_H - 1))) : (SW + 1)'(modulo(S_H)));

  wire signed [AW-1:0] step = !kw_last ? AW'(CB) : !cb_last ? AW'(1 - (K_W - 1) * CB)
      : !ox_last ? AW'((S_W - K_W) * CB + 1) : AW'(-LAST);
  wire signed [AW-1:0] written = line_end ? AW'(LINE - 1) : write ? AW'(-1) : '0;

  // all sums before the choice between them: an adder after `take` would be too slow
  wire signed [YW-1:0] ahead_kept = ahead_q + (line_end ? YW'(1) : YW'(0));
  wire signed [YW-1:0] ahead_left = ahead_q - done_q + (line_end ? YW'(1) : YW'(0));
  wire signed [YW-1:0] spare_kept = spare_q + (line_end ? YW'(1) : YW'(0));
  wire signed [YW-1:0] spare_left = ahead_q - done_q - next_need_q + (line_end ? YW'(1) : YW'(0));

  always_ff @(posedge clk) begin
    if (take) begin
      kw_q <= kw_last ? '0 : kw_q + 1'b1;
      if (kw_last) cb_q <= cb_last ? '0 : cb_q + 1'b1;
      if (kw_last && cb_last) ox_q <= ox_last ? '0 : ox_q + 1'b1;
      address_q <= address_q + step;
      if (row_end) begin
        oy_q <= oy_last ? '0 : oy_q + 1'b1;
        y_q <= next_y_q;
        next_y_q <= after_y_q;
        after_y_q <= after_last ? YW'(-PAD_TOP) : after_y_q + YW'(S_H);
        slot_q <= SW'(next_slot >= (SW + 1)'(LINES) ? next_slot - (SW + 1)'(LINES) : next_slot);
        next_need_q <= needed_from(after_y_q);
        done_q <= done_from(next_y_q, next_last);
      end
    end
    lacking_q <= take ? lacking_q + step + written : lacking_q + written;
    ahead_q <= take && row_end ? ahead_left : ahead_kept;
    spare_q <= take && row_end ? spare_left : spare_kept;
    // a line that is left makes room, also for one that is complete in the same clock
    room_q <= take && row_end && done_q != 0 || (line_end ? ahead_q != YW'(LINES - 1) : room_q);
    if (!rst_n) begin
      kw_q <= '0;
      cb_q <= '0;
      ox_q <= '0;
      oy_q <= '0;
      address_q <= AW'(-PAD_LEFT * CB);
      lacking_q <= AW'(-PAD_LEFT * CB);
      y_q <= YW'(first_y(0));
      next_y_q <= YW'(first_y(1));
      after_y_q <= YW'(first_y(2));
      slot_q <= SW'(modulo(-PAD_TOP));
      next_need_q <= needed_from(YW'(first_y(1)));
      done_q <= done_from(YW'(first_y(0)), OUT_H == 1);
      ahead_q <= '0;
      room_q <= 1'b1;
      spare_q <= -needed_from(YW'(first_y(0)));
    end
  end

  always_comb begin
    if (rst_n) assert (room_q == (ahead_q < YW'(LINES)));
    if (rst_n) assert (lacking_q == address_q - AW'($signed({1'b0, write_x_q})));
  end

  // ---------------------------------------------------------------- the lines
  for (genvar line = 0; line < LINES; line++) begin : g_line
    (* ram_style = RAM_STYLE *)
    logic [DATA-1:0] beats[LINE];
    logic [DATA-1:0] beat_q;

    always_ff @(posedge clk) begin
      if (write && write_slot_q == SW'(line)) beats[write_x_q] <= s_axis_tdata;
    end
    always_ff @(posedge clk) if (on_image) beat_q <= beats[address_q[XW-1:0]];
  end

  // ---------------------------------------------------------------- images of a row
  localparam int IW = IMAGES > 1 ? $clog2(IMAGES) : 1;
  logic [IW-1:0] image_q;
  wire image_last = image_q == IW'(IMAGES - 1);

  always_ff @(posedge clk) begin
    if (take && row_end && oy_last) image_q <= image_last ? '0 : image_q + 1'b1;
    if (!rst_n) image_q <= '0;
  end

  // ---------------------------------------------------------------- rotate and pad
  logic [K_H*DATA-1:0] window_q;

  for (genvar kh = 0; kh < K_H; kh++) begin : g_row
    logic on_image_q;
    logic [SW-1:0] pick_q;
    wire signed [YW-1:0] y = y_q + YW'(kh);
    wire [SW:0] slot = {1'b0, slot_q} + (SW + 1)'(kh);

    always_ff @(posedge clk) begin
      on_image_q <= on_image && y >= 0 && y < YW'(H);
      pick_q <= SW'(slot >= (SW + 1)'(LINES) ? slot - (SW + 1)'(LINES) : slot);
    end

    for (genvar line = 0; line < LINES; line++) begin : g_pick
      wire [DATA-1:0] beat;
      if (line == 0) begin : gen_first
        assign beat = g_line[0].beat_q;
      end else begin : gen_other
        assign beat = pick_q == SW'(line) ? g_line[line].beat_q : g_pick[line-1].beat;
      end
    end

    always_ff @(posedge clk) window_q[kh*DATA+:DATA] <= on_image_q ? g_pick[LINES-1].beat : {LANES{PAD_VALUE[WIDTH-1:0]}};
  end

  axis_free_running #(
      .WIDTH  (K_H * DATA),
      .LATENCY(2)
  ) u_axis_free_running (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(available),
      .s_axis_tready(place_tready),
      .s_axis_tlast(row_end && oy_last && image_last),
      .pipeline_tdata(window_q),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

  wire unused = &{1'b0, s_axis_tlast, PAD_VALUE};  // an image ends after H * W pixels

endmodule

`default_nettype wire
