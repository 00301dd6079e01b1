// SPDX-License-Identifier: Apache-2.0
//
// Repeats the beats of a vector, each together with the vector's maximum and the index of its first occurrence. One beat per
// clock.
`default_nettype none

module rf_maximum #(
    parameter int N = 4,  // elements of a vector
    parameter int LANES = 2,  // elements of a beat, a divisor of N
    parameter int X_WIDTH = 8,  // bits of an element
    parameter bit X_SIGNED = 1'b1  // it is two's complement
) (
    input  logic                               clk,
    input  logic                               rst_n,
    input  logic                               s_axis_tvalid,
    output logic                               s_axis_tready,
    input  logic [          LANES*X_WIDTH-1:0] s_axis_tdata,
    input  logic                               s_axis_tlast,
    output logic                               m_axis_tvalid,
    input  logic                               m_axis_tready,
    output logic [          LANES*X_WIDTH-1:0] m_axis_tdata,
    output logic                               m_axis_tlast,
    output logic [                X_WIDTH-1:0] m_max,
    output logic [(N > 1 ? $clog2(N) : 1)-1:0] m_place
);

  if (LANES < 1 || N % LANES != 0) begin : g_check_lanes
    $error("rf_maximum %m: LANES is %0d, expected a divisor of N, %0d", LANES, N);
  end

  localparam int LEVELS = $clog2(LANES);
  localparam int BEATS = N / LANES;
  localparam int COUNT_WIDTH = BEATS > 1 ? $clog2(BEATS) : 1;
  localparam int INDEX_WIDTH = N > 1 ? $clog2(N) : 1;

  logic [LEVELS:0] take_q, first_q, last_q;  // before the accumulator
  logic [COUNT_WIDTH-1:0] count_q;
  logic [INDEX_WIDTH-1:0] index_q;  // of the beat's first element
  wire take = s_axis_tvalid && s_axis_tready;
  wire count_last = count_q == COUNT_WIDTH'(BEATS - 1);

  always_ff @(posedge clk) begin
    if (take) count_q <= count_last ? '0 : count_q + 1'b1;
    if (take) index_q <= count_last ? '0 : index_q + INDEX_WIDTH'(LANES);
    take_q <= (LEVELS + 1)'({take_q, take});
    if (!rst_n) begin
      count_q <= '0;
      index_q <= '0;
      take_q <= '0;
    end
  end
  always_ff @(posedge clk) begin
    first_q <= (LEVELS + 1)'({first_q, count_q == '0});
    last_q <= (LEVELS + 1)'({last_q, count_last});
  end

  for (genvar level = 0; level <= LEVELS; level++) begin : g_level
    localparam int NODES = (LANES + (1 << level) - 1) >> level;
    localparam int BELOW = level == 0 ? LANES : (LANES + (1 << (level - 1)) - 1) >> (level - 1);
    for (genvar n = 0; n < NODES; n++) begin : g_node
      logic [X_WIDTH-1:0] value_q;
      logic [INDEX_WIDTH-1:0] place_q;
      if (level == 0) begin : gen_element
        always_ff @(posedge clk) begin
          value_q <= s_axis_tdata[n*X_WIDTH+:X_WIDTH];
          place_q <= index_q + INDEX_WIDTH'(n);
        end
      end else if (2 * n + 1 < BELOW) begin : gen_two
        wire [X_WIDTH-1:0] a = g_level[level-1].g_node[2*n].value_q;
        wire [X_WIDTH-1:0] b = g_level[level-1].g_node[2*n+1].value_q;
        wire b_is_greater = X_SIGNED ? $signed(b) > $signed(a) : b > a;
        always_ff @(posedge clk) begin
          value_q <= b_is_greater ? b : a;
          place_q <= b_is_greater ? g_level[level-1].g_node[2*n+1].place_q : g_level[level-1].g_node[2*n].place_q;
        end
      end else begin : gen_one
        always_ff @(posedge clk) begin
          value_q <= g_level[level-1].g_node[2*n].value_q;
          place_q <= g_level[level-1].g_node[2*n].place_q;
        end
      end
    end
  end

  logic [X_WIDTH-1:0] max_q;
  logic [INDEX_WIDTH-1:0] place_q;
  logic done_q;
  wire [X_WIDTH-1:0] beat_max = g_level[LEVELS].g_node[0].value_q;
  wire beat_is_greater = X_SIGNED ? $signed(beat_max) > $signed(max_q) : beat_max > max_q;

  always_ff @(posedge clk) begin
    if (take_q[LEVELS] && (first_q[LEVELS] || beat_is_greater)) begin
      max_q <= beat_max;
      place_q <= g_level[LEVELS].g_node[0].place_q;
    end
    done_q <= rst_n && take_q[LEVELS] && last_q[LEVELS];
  end

  rf_hold #(
      .WIDTH(LANES * X_WIDTH),
      .BEATS(BEATS),
      .NUMBER_WIDTH(INDEX_WIDTH + X_WIDTH),
      .LATENCY(LEVELS + 2)
  ) u_rf_hold (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(s_axis_tready),
      .s_axis_tdata(s_axis_tdata),
      .s_axis_tlast(s_axis_tlast),
      .number_tvalid(done_q),
      .number_tdata({place_q, max_q}),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast),
      .m_number({m_place, m_max})
  );

endmodule

`default_nettype wire
