// SPDX-License-Identifier: Apache-2.0
//
// Pooling over the windows that rf_window gives: K_W beats of K_H * LANES elements give one beat of LANES results.
//
//   OP 0   y = result_t(max)
//   OP 1   y = result_t(sum of accum_t(x) / count)      rounded towards zero; count is the number of pixels of the window
//                                                       inside the image, or K_H * K_W if padding counts
//
// Sums are modulo 2**ACC_WIDTH. The padding of a maximum is rf_window's PAD_VALUE; that of an average must be zero.
`default_nettype none

module rf_pool #(
    parameter int OP = rf_pkg::POOL_MAX,  // or POOL_AVERAGE
    parameter int LANES = 2,  // channels of a beat
    parameter int CHANNEL_BEATS = 1,  // beats of a pixel
    parameter int K_H = 2,  // rows of the window
    parameter int K_W = 2,  // columns
    parameter int H = 4,  // rows of the image; this and the next ones as in rf_window, for an average with padding
    parameter int W = 4,
    parameter int S_H = 2,
    parameter int S_W = 2,
    parameter int PAD_TOP = 0,
    parameter int PAD_LEFT = 0,
    parameter int OUT_H = 2,
    parameter int OUT_W = 2,
    parameter bit COUNT_PAD = 1'b0,  // padding counts in an average
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
    input  logic                         clk,
    input  logic                         rst_n,
    input  logic                         s_axis_tvalid,
    output logic                         s_axis_tready,
    input  logic [K_H*LANES*X_WIDTH-1:0] s_axis_tdata,
    input  logic                         s_axis_tlast,
    output logic                         m_axis_tvalid,
    input  logic                         m_axis_tready,
    output logic [    LANES*Y_WIDTH-1:0] m_axis_tdata,
    output logic                         m_axis_tlast
);

  if (OP != rf_pkg::POOL_MAX && OP != rf_pkg::POOL_AVERAGE) begin : g_check_op
    $error("rf_pool %m: OP is %0d, expected 0 or 1", OP);
  end
  if (X_ROUNDING != ap_fixed_pkg::TRN && X_ROUNDING != ap_fixed_pkg::RND) begin : g_check_rounding
    $error("rf_pool %m: X_ROUNDING is %0d, expected 0 or 1", X_ROUNDING);
  end

  localparam bit AVERAGE = OP == rf_pkg::POOL_AVERAGE;
  localparam int LEVELS = $clog2(K_H);
  localparam int VALUE = AVERAGE ? ACC_WIDTH : X_WIDTH;  // bits of a sum or a maximum
  localparam bit VALUE_SIGNED = AVERAGE ? ACC_SIGNED : X_SIGNED;
  localparam int TO_VALUE = 1 + LEVELS;  // clock edges from a beat to its sum or maximum
  localparam int KW = K_W > 1 ? $clog2(K_W) : 1;
  localparam int COUNTS = K_H * K_W;
  localparam int COUNT_WIDTH = $clog2(COUNTS + 1);
  // windows extend beyond the image only if the first or the last row or column of them does
  localparam bit PADDED_BEHIND = (OUT_H - 1) * S_H - PAD_TOP + K_H > H || (OUT_W - 1) * S_W - PAD_LEFT + K_W > W;
  localparam bit PADDED = PAD_TOP > 0 || PAD_LEFT > 0 || PADDED_BEHIND;
  localparam bit VARIES = AVERAGE && PADDED && !COUNT_PAD;

  logic [KW-1:0] kw_q;
  logic place_tready;
  wire kw_last = kw_q == KW'(K_W - 1);
  wire take = s_axis_tvalid && s_axis_tready;

  assign s_axis_tready = !kw_last || place_tready;

  logic [TO_VALUE-1:0] take_q, first_q;

  always_ff @(posedge clk) begin
    if (take) kw_q <= kw_last ? '0 : kw_q + 1'b1;
    if (!rst_n) kw_q <= '0;
  end

  always_ff @(posedge clk) take_q <= rst_n ? TO_VALUE'({take_q, take}) : '0;
  always_ff @(posedge clk) first_q <= TO_VALUE'({first_q, kw_q == '0});

  // ---------------------------------------------------------------- pixels of the window inside the image
  logic [COUNT_WIDTH-1:0] count;

  if (VARIES) begin : gen_count
    localparam int CW = CHANNEL_BEATS > 1 ? $clog2(CHANNEL_BEATS) : 1;
    localparam int OXW = OUT_W > 1 ? $clog2(OUT_W) : 1;
    localparam int OYW = OUT_H > 1 ? $clog2(OUT_H) : 1;
    localparam int XW = $clog2((OUT_W * S_W + K_W > W ? OUT_W * S_W + K_W : W) + PAD_LEFT + 1) + 2;
    localparam int YW = $clog2((OUT_H * S_H + K_H > H ? OUT_H * S_H + K_H : H) + PAD_TOP + 1) + 2;
    logic [CW-1:0] cb_q;
    logic [OXW-1:0] ox_q;
    logic [OYW-1:0] oy_q;
    logic signed [XW-1:0] x_q;  // of the window's first column
    logic signed [YW-1:0] y_q;  // of its first row
    wire cb_last = cb_q == CW'(CHANNEL_BEATS - 1);
    wire ox_last = ox_q == OXW'(OUT_W - 1);
    wire oy_last = oy_q == OYW'(OUT_H - 1);

    always_ff @(posedge clk) begin
      if (take && kw_last) begin
        cb_q <= cb_last ? '0 : cb_q + 1'b1;
        if (cb_last) begin
          ox_q <= ox_last ? '0 : ox_q + 1'b1;
          x_q <= ox_last ? XW'(-PAD_LEFT) : x_q + XW'(S_W);
          if (ox_last) begin
            oy_q <= oy_last ? '0 : oy_q + 1'b1;
            y_q <= oy_last ? YW'(-PAD_TOP) : y_q + YW'(S_H);
          end
        end
      end
      if (!rst_n) begin
        cb_q <= '0;
        ox_q <= '0;
        oy_q <= '0;
        x_q <= XW'(-PAD_LEFT);
        y_q <= YW'(-PAD_TOP);
      end
    end

    wire signed [XW-1:0] x_end = x_q > XW'(W - K_W) ? XW'(W) : x_q + XW'(K_W);
    wire signed [YW-1:0] y_end = y_q > YW'(H - K_H) ? YW'(H) : y_q + YW'(K_H);
    logic [COUNT_WIDTH-1:0] columns_q, rows_q;
    logic [COUNT_WIDTH-1:0] counts_q[LEVELS+1];

    always_ff @(posedge clk) begin
      columns_q <= COUNT_WIDTH'(x_q < 0 ? x_end : x_end - x_q);
      rows_q <= COUNT_WIDTH'(y_q < 0 ? y_end : y_end - y_q);
      counts_q[0] <= columns_q * rows_q;
    end
    for (genvar level = 1; level <= LEVELS; level++) begin : g_delay
      always_ff @(posedge clk) counts_q[level] <= counts_q[level-1];
    end
    assign count = counts_q[LEVELS];
  end else begin : gen_constant_count
    assign count = COUNT_WIDTH'(COUNTS);
    wire unused = &{1'b0, count};
  end

  // ---------------------------------------------------------------- lanes
  logic [LANES*VALUE-1:0] values;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    for (genvar level = 0; level <= LEVELS; level++) begin : g_level
      localparam int NODES = (K_H + (1 << level) - 1) >> level;
      localparam int BEFORE = level == 0 ? K_H : (K_H + (1 << (level - 1)) - 1) >> (level - 1);
      for (genvar n = 0; n < NODES; n++) begin : g_node
        logic [VALUE-1:0] value_q;
        wire [VALUE-1:0] next;

        if (level == 0) begin : gen_element
          wire [X_WIDTH-1:0] x = s_axis_tdata[(n*LANES+lane)*X_WIDTH+:X_WIDTH];
          if (AVERAGE) begin : gen_cut
            localparam int RIGHT = X_SHIFT > X_WIDTH ? X_WIDTH : X_SHIFT > 0 ? X_SHIFT : 0;
            localparam int LEFT = X_SHIFT < 0 ? -X_SHIFT : 0;
            localparam bit ROUND = RIGHT > 0 && X_ROUNDING == ap_fixed_pkg::RND;
            wire signed [X_WIDTH:0] wide = {X_SIGNED && x[X_WIDTH-1], x};
            wire signed [VALUE-1:0] whole = VALUE'(wide >>> RIGHT);
            if (ROUND) begin : gen_round
              assign next = whole + VALUE'(wide[RIGHT-1]);
            end else begin : gen_truncate
              assign next = whole << LEFT;
            end
          end else begin : gen_same
            assign next = x;
          end
        end else if (2 * n + 1 < BEFORE) begin : gen_two
          wire [VALUE-1:0] a = g_level[level-1].g_node[2*n].value_q;
          wire [VALUE-1:0] b = g_level[level-1].g_node[2*n+1].value_q;
          if (AVERAGE) begin : gen_sum
            assign next = a + b;
          end else begin : gen_max
            wire a_is_greater = X_SIGNED ? $signed(a) > $signed(b) : a > b;
            assign next = a_is_greater ? a : b;
          end
        end else begin : gen_one
          assign next = g_level[level-1].g_node[2*n].value_q;
        end

        always_ff @(posedge clk) value_q <= next;
      end
    end

    logic [VALUE-1:0] value_q;
    wire [VALUE-1:0] column = g_level[LEVELS].g_node[0].value_q;

    if (AVERAGE) begin : gen_accumulate
      always_ff @(posedge clk) begin
        if (take_q[TO_VALUE-1]) value_q <= first_q[TO_VALUE-1] ? column : value_q + column;
      end
    end else begin : gen_maximum
      wire column_is_greater = X_SIGNED ? $signed(column) > $signed(value_q) : column > value_q;
      always_ff @(posedge clk) begin
        if (take_q[TO_VALUE-1] && (first_q[TO_VALUE-1] || column_is_greater)) value_q <= column;
      end
    end

    if (AVERAGE) begin : gen_divide
      rf_divide #(
          .WIDTH(VALUE),
          .SIGNED(ACC_SIGNED),
          .COUNTS(COUNTS),
          .CONSTANT(VARIES ? 0 : COUNTS)
      ) u_rf_divide (
          .clk(clk),
          .x(value_q),
          .count(count),
          .y(values[lane*VALUE+:VALUE])
      );
    end else begin : gen_no_divide
      assign values[lane*VALUE+:VALUE] = value_q;
    end
  end

  rf_output #(
      .LANES    (LANES),
      .IN_WIDTH (VALUE),
      .SIGNED_IN(VALUE_SIGNED),
      .LATENCY  (TO_VALUE + 1 + (AVERAGE ? 4 : 0)),
      .SHIFT    (RESULT_SHIFT),
      .WIDTH    (Y_WIDTH),
      .SIGNED   (Y_SIGNED),
      .ROUNDING (ROUNDING),
      .OVERFLOW (OVERFLOW)
  ) u_rf_output (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_tvalid && kw_last),
      .s_axis_tready(place_tready),
      .s_axis_tlast(s_axis_tlast),
      .values(values),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

endmodule

`default_nettype wire
