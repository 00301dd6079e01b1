// SPDX-License-Identifier: Apache-2.0
//
// The mean of each vector of BEATS beats of LANES numbers, in one fixed-point type, as hls4ml's LayerNormalization computes it:
//
//   sum = type(sum + x[i]) for one element after the other        mean = type(sum * SHARE * 2**-FRACTION)
//
// A sum that saturates depends on the order of its elements. Such additions are functions s -> clamp(s + a, low, high), and two
// of them in a row are one such function, so that a tree combines the elements of a beat as it would add them. One beat per
// clock; the mean is valid for one clock, MEAN_CLOCKS clock edges after the one that takes the last beat, including that one:
// log2(LANES) + 6, or twice the logarithm + 7 for a type that saturates.
`default_nettype none

module rf_mean #(
    parameter int LANES = 2,  // numbers of a beat
    parameter int BEATS = 2,  // beats of a vector
    parameter int WIDTH = 14,  // bits of a number, and of the mean
    parameter bit SIGNED = 1'b1,  // it is two's complement
    parameter int FRACTION = 10,  // fraction bits of both; may be negative
    parameter int SHARE = 256,  // 1 / (LANES * BEATS) in that type, raw
    parameter int ROUNDING = ap_fixed_pkg::TRN,  // of that type, see fixed_cast
    parameter int OVERFLOW = ap_fixed_pkg::WRAP
) (
    input  logic                   clk,
    input  logic                   rst_n,
    input  logic                   take,
    input  logic [LANES*WIDTH-1:0] x,
    output logic                   mean_valid,
    output logic [      WIDTH-1:0] mean
);

  localparam bit SATURATES = OVERFLOW != ap_fixed_pkg::WRAP;
  localparam int LEVELS = $clog2(LANES);
  localparam int LEVEL_CLOCKS = SATURATES ? 2 : 1;
  localparam int TO_SUM = LEVELS * LEVEL_CLOCKS + (SATURATES ? 1 : 0);  // clocks from a beat in registers to its sum
  localparam int TO_MEAN = TO_SUM + 5;
  localparam int COUNT_WIDTH = BEATS > 1 ? $clog2(BEATS) : 1;
  // the sum of a beat, a bound and a sign
  localparam int SUM = WIDTH + LEVELS + 2;
  localparam logic signed [SUM-1:0] ONE = 1;
  localparam logic signed [SUM-1:0] HIGH = (ONE << (SIGNED ? WIDTH - 1 : WIDTH)) - ONE;
  localparam logic signed [SUM-1:0] LOW = !SIGNED ? '0 : OVERFLOW == ap_fixed_pkg::SAT_SYM ? -HIGH : -HIGH - ONE;

  if (LANES < 1 || BEATS < 1) begin : g_check_size
    $error("rf_mean %m: LANES is %0d and BEATS %0d, expected 1 or more", LANES, BEATS);
  end
  if (OVERFLOW == ap_fixed_pkg::SAT_ZERO) begin : g_check_overflow
    $error("rf_mean %m: OVERFLOW is 2, saturation to zero, expected 0, 1 or 3");
  end

  // ---------------------------------------------------------------- where a beat is in its vector
  logic [TO_MEAN:0] take_q;  // behind the sum: last beats only
  logic [TO_SUM:0] first_q, last_q;
  logic [COUNT_WIDTH-1:0] count_q;
  wire count_last = count_q == COUNT_WIDTH'(BEATS - 1);

  always_ff @(posedge clk) begin
    if (take) count_q <= count_last ? '0 : count_q + 1'b1;
    take_q <= (TO_MEAN + 1)'({take_q, take});
    take_q[TO_SUM+1] <= take_q[TO_SUM] && last_q[TO_SUM];
    if (!rst_n) begin
      count_q <= '0;
      take_q <= '0;
    end
  end
  always_ff @(posedge clk) begin
    first_q <= (TO_SUM + 1)'({first_q, count_q == '0});
    last_q <= (TO_SUM + 1)'({last_q, count_last});
  end
  assign mean_valid = take_q[TO_MEAN];

  // ---------------------------------------------------------------- the sum of a beat
  for (genvar level = 0; level <= LEVELS; level++) begin : g_level
    localparam int NODES = (LANES + (1 << level) - 1) >> level;
    localparam int BELOW = level == 0 ? LANES : (LANES + (1 << (level - 1)) - 1) >> (level - 1);
    for (genvar n = 0; n < NODES; n++) begin : g_node
      logic signed [SUM-1:0] sum_q, low_q, high_q;  // s -> clamp(s + sum_q, low_q, high_q)
      if (level == 0) begin : gen_element
        wire [WIDTH-1:0] element = x[n*WIDTH+:WIDTH];
        always_ff @(posedge clk) sum_q <= {{(SUM - WIDTH) {SIGNED && element[WIDTH-1]}}, element};
        assign low_q = LOW;
        assign high_q = HIGH;
      end else begin : gen_two
        localparam bit TWO = 2 * n + 1 < BELOW;
        localparam int AFTER = TWO ? 2 * n + 1 : 2 * n;
        wire signed [SUM-1:0] first_sum = g_level[level-1].g_node[2*n].sum_q;
        wire signed [SUM-1:0] first_low = g_level[level-1].g_node[2*n].low_q;
        wire signed [SUM-1:0] first_high = g_level[level-1].g_node[2*n].high_q;
        wire signed [SUM-1:0] second_sum = TWO ? g_level[level-1].g_node[AFTER].sum_q : '0;
        wire signed [SUM-1:0] second_low = g_level[level-1].g_node[AFTER].low_q;
        wire signed [SUM-1:0] second_high = g_level[level-1].g_node[AFTER].high_q;
        if (SATURATES) begin : gen_clamp
          logic signed [SUM-1:0] early_q, moved_low_q, moved_high_q, least_q, most_q;
          always_ff @(posedge clk) begin
            early_q <= first_sum + second_sum;
            moved_low_q <= first_low + second_sum;
            moved_high_q <= first_high + second_sum;
            least_q <= second_low;
            most_q <= second_high;
            sum_q <= early_q;
            low_q <= moved_low_q < least_q ? least_q : moved_low_q > most_q ? most_q : moved_low_q;
            high_q <= moved_high_q < least_q ? least_q : moved_high_q > most_q ? most_q : moved_high_q;
          end
        end else begin : gen_plain
          always_ff @(posedge clk) sum_q <= first_sum + second_sum;
          assign low_q = LOW;
          assign high_q = HIGH;
          wire unused = &{1'b0, first_low, first_high, second_low, second_high};
        end
      end
    end
  end

  // ---------------------------------------------------------------- the sum of a vector
  wire signed [SUM-1:0] beat_sum = g_level[LEVELS].g_node[0].sum_q;
  wire signed [SUM-1:0] beat_low = g_level[LEVELS].g_node[0].low_q;
  wire signed [SUM-1:0] beat_high = g_level[LEVELS].g_node[0].high_q;
  logic signed [SUM-1:0] total_q;
  wire signed [SUM-1:0] start = first_q[TO_SUM] ? '0 : total_q;

  if (SATURATES) begin : gen_saturate
    // the sum and both comparisons start from the same registers
    logic signed [SUM-1:0] sum_q, low_q, high_q;
    logic signed [SUM:0] below_q, above_q;
    always_ff @(posedge clk) begin
      sum_q <= beat_sum;
      low_q <= beat_low;
      high_q <= beat_high;
      below_q <= (SUM + 1)'(beat_low) - (SUM + 1)'(beat_sum);
      above_q <= (SUM + 1)'(beat_high) - (SUM + 1)'(beat_sum);
      if (take_q[TO_SUM])
        total_q <= (SUM + 1)'(start) < below_q ? low_q : (SUM + 1)'(start) > above_q ? high_q : start + sum_q;
    end
  end else begin : gen_wrap
    always_ff @(posedge clk) if (take_q[TO_SUM]) total_q <= start + beat_sum;
    wire unused = &{1'b0, beat_low, beat_high};
  end

  // ---------------------------------------------------------------- the mean
  localparam int SHARE_WIDTH = $clog2((SHARE < 0 ? -SHARE : SHARE) + 1) + 1;  // with its sign
  localparam int PRODUCT = WIDTH + 1 + SHARE_WIDTH;
  logic signed [PRODUCT-1:0] product;

  rf_multiply #(
      .A_WIDTH (WIDTH + 1),
      .B_WIDTH (SHARE_WIDTH),
      .CONSTANT(128'(SHARE))
  ) u_product (
      .clk(clk),
      .a({SIGNED && total_q[WIDTH-1], total_q[WIDTH-1:0]}),
      .b(SHARE_WIDTH'(SHARE)),
      .product(product)
  );

  fixed_cast #(
      .IN_WIDTH (PRODUCT),
      .SIGNED_IN(1'b1),
      .SHIFT    (FRACTION),
      .WIDTH    (WIDTH),
      .SIGNED   (SIGNED),
      .ROUNDING (ROUNDING),
      .OVERFLOW (OVERFLOW)
  ) u_fixed_cast (
      .clk   (clk),
      .enable(1'b1),
      .x     (product),
      .y     (mean)
  );

  wire unused_high = &{1'b0, total_q[SUM-1:WIDTH]};

endmodule

`default_nettype wire
