// SPDX-License-Identifier: Apache-2.0
//
// Pooling over a whole image: PIXELS pixels of CHANNEL_BEATS beats give one pixel, computed as by rf_pool for a window of all
// pixels. One number per channel is kept in a register or in a small memory. A beat is taken every clock.
`default_nettype none

module rf_global_pool #(
    parameter int OP = rf_pkg::POOL_MAX,  // or POOL_AVERAGE
    parameter int LANES = 2,  // channels of a beat
    parameter int CHANNEL_BEATS = 3,  // beats of a pixel
    parameter int PIXELS = 4,  // pixels of an image
    parameter int X_WIDTH = 8,  // bits of an element
    parameter bit X_SIGNED = 1'b1,  // it is two's complement
    parameter int X_SHIFT = 0,  // fraction bits of an element minus those of accum_t, in an average; negative: shift left
    parameter int X_ROUNDING = ap_fixed_pkg::TRN,  // rounding of an element to accum_t: 0 TRN, 1 RND
    parameter int ACC_WIDTH = 16,  // bits of accum_t, in an average
    parameter bit ACC_SIGNED = 1'b1,
    parameter int RESULT_SHIFT = 0,  // fraction bits of accum_t (max: of an element) minus those of the result
    parameter int Y_WIDTH = 8,  // bits of a result
    parameter bit Y_SIGNED = 1'b1,
    parameter int ROUNDING = ap_fixed_pkg::TRN,  // see fixed_cast
    parameter int OVERFLOW = ap_fixed_pkg::WRAP
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

  if (OP != rf_pkg::POOL_MAX && OP != rf_pkg::POOL_AVERAGE) begin : g_check_op
    $error("rf_global_pool %m: OP is %0d, expected 0 or 1", OP);
  end
  if (PIXELS < 1 || CHANNEL_BEATS < 1) begin : g_check_size
    $error("rf_global_pool %m: PIXELS is %0d and CHANNEL_BEATS %0d, expected 1 or more", PIXELS, CHANNEL_BEATS);
  end
  if (X_ROUNDING != ap_fixed_pkg::TRN && X_ROUNDING != ap_fixed_pkg::RND) begin : g_check_rounding
    $error("rf_global_pool %m: X_ROUNDING is %0d, expected 0 or 1", X_ROUNDING);
  end

  localparam bit AVERAGE = OP == rf_pkg::POOL_AVERAGE;
  localparam int VALUE = AVERAGE ? ACC_WIDTH : X_WIDTH;  // bits of a sum or a maximum
  localparam bit VALUE_SIGNED = AVERAGE ? ACC_SIGNED : X_SIGNED;
  localparam int RIGHT = X_SHIFT > X_WIDTH ? X_WIDTH : X_SHIFT > 0 ? X_SHIFT : 0;
  localparam int LEFT = X_SHIFT < 0 ? -X_SHIFT : 0;
  localparam bit ROUND = AVERAGE && RIGHT > 0 && X_ROUNDING == ap_fixed_pkg::RND;
  localparam int CW = CHANNEL_BEATS > 1 ? $clog2(CHANNEL_BEATS) : 1;
  localparam int PW = PIXELS > 1 ? $clog2(PIXELS) : 1;

  logic [CW-1:0] cb_q, cb_2_q;
  logic [PW-1:0] pixel_q;
  logic place_tready, take_q, first_q;
  logic pixel_last_q;  // pixel_q == PIXELS - 1, in a register: the handshake of every beat depends on it
  wire cb_last = cb_q == CW'(CHANNEL_BEATS - 1);
  wire take = s_axis_tvalid && s_axis_tready;

  assign s_axis_tready = !pixel_last_q || place_tready;

  always_ff @(posedge clk) begin
    if (take) cb_q <= cb_last ? '0 : cb_q + 1'b1;
    if (take && cb_last) begin
      pixel_q <= pixel_last_q ? '0 : pixel_q + 1'b1;
      pixel_last_q <= PIXELS == 1 || pixel_q == PW'(PIXELS - 2);
    end
    take_q <= take;
    if (!rst_n) begin
      cb_q <= '0;
      pixel_q <= '0;
      pixel_last_q <= PIXELS == 1;
      take_q <= 1'b0;
    end
  end

  always_comb begin
    if (rst_n) assert (pixel_last_q == (pixel_q == PW'(PIXELS - 1)));
  end

  always_ff @(posedge clk) begin
    first_q <= pixel_q == '0;
    cb_2_q <= cb_q;
  end

  // ---------------------------------------------------------------- one number per channel
  logic [LANES*VALUE-1:0] earlier, values_q;  // for the beat taken a clock ago: values without it, then with it
  logic [LANES*VALUE-1:0] values;

  if (CHANNEL_BEATS == 1) begin : gen_register
    assign earlier = values_q;
    wire unused = &{1'b0, cb_2_q};
  end else begin : gen_memory
    logic [LANES*VALUE-1:0] channels[CHANNEL_BEATS];

    // there are two or more beats between a write and the next read of the same address
    always_ff @(posedge clk) if (take) earlier <= channels[cb_q];
    always_ff @(posedge clk) if (take_q) channels[cb_2_q] <= values;
  end

  always_ff @(posedge clk) if (take_q) values_q <= values;

  logic [LANES*VALUE-1:0] pooled;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    wire [X_WIDTH-1:0] x = s_axis_tdata[lane*X_WIDTH+:X_WIDTH];
    wire [VALUE-1:0] old = earlier[lane*VALUE+:VALUE];
    logic [VALUE-1:0] x_q;

    if (AVERAGE) begin : gen_average
      wire signed [X_WIDTH:0] wide = {X_SIGNED && x[X_WIDTH-1], x};
      wire signed [VALUE-1:0] whole = VALUE'(wide >>> RIGHT);
      if (ROUND) begin : gen_round
        always_ff @(posedge clk) x_q <= whole + VALUE'(wide[RIGHT-1]);
      end else begin : gen_truncate
        always_ff @(posedge clk) x_q <= whole << LEFT;
      end
      assign values[lane*VALUE+:VALUE] = first_q ? x_q : old + x_q;

      rf_divide #(
          .WIDTH(VALUE),
          .SIGNED(ACC_SIGNED),
          .COUNTS(PIXELS),
          .CONSTANT(PIXELS)
      ) u_rf_divide (
          .clk(clk),
          .x(values_q[lane*VALUE+:VALUE]),
          .count('0),
          .y(pooled[lane*VALUE+:VALUE])
      );
    end else begin : gen_max
      wire old_is_greater = X_SIGNED ? $signed(old) > $signed(x_q) : old > x_q;
      always_ff @(posedge clk) x_q <= x;
      assign values[lane*VALUE+:VALUE] = old_is_greater && !first_q ? old : x_q;
      assign pooled[lane*VALUE+:VALUE] = values_q[lane*VALUE+:VALUE];
    end
  end

  rf_output #(
      .LANES    (LANES),
      .IN_WIDTH (VALUE),
      .SIGNED_IN(VALUE_SIGNED),
      .LATENCY  (2 + (AVERAGE ? 4 : 0)),
      .SHIFT    (RESULT_SHIFT),
      .WIDTH    (Y_WIDTH),
      .SIGNED   (Y_SIGNED),
      .ROUNDING (ROUNDING),
      .OVERFLOW (OVERFLOW)
  ) u_rf_output (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_tvalid && pixel_last_q),
      .s_axis_tready(place_tready),
      .s_axis_tlast(s_axis_tlast),
      .values(pooled),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

endmodule

`default_nettype wire
