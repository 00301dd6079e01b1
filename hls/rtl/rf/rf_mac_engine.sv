// SPDX-License-Identifier: Apache-2.0
//
// The engine of rf_mac and rf_mac_stream: matrix times vector with P x Q multipliers, one vector every
// RF = (N_IN / P) * (N_OUT / Q) clocks without a gap:
//
//   y[j] = result_t(bias[j] + sum over i of accum_t(x[i] * w[i][j]))
//
// An input vector is N_IN / P beats of P elements, an output vector N_OUT / Q beats of Q. Sums are modulo 2**ACC_WIDTH, so their
// order does not matter; only a product may lose bits before it is accumulated (PRODUCT_SHIFT).
//
//   s_axis --> vector buffer, twice ---> x --+
//              (none when Q = N_OUT)         * --> cut --> adder tree over P --> accumulator --> fixed_cast --> m_axis
//   weight_word, from outside ---------> w --+                                       ^
//   bias_word, from outside ---------------------------------------------+
//
// A vector is read N_OUT / Q times, the first time while it is received. The multipliers have no enable; a place in the output
// FIFO is reserved before the last products of a result are computed. weight_word must be valid one clock after weight_enable,
// which waits for weight_tvalid. It has Q*P weights, element (q, p) at bit ((q*P)+p)*W_WIDTH, of word weight_address =
// (output group) * (N_IN/P) + (input beat), plus RF for every matrix before the vector's. bias_word has the Q biases of group
// bias_address, one clock after it. The latency from the last beat of a vector to its first results is
// 9 + TREE_REGISTERS clocks, and one more with a vector buffer.
`default_nettype none

module rf_mac_engine #(
    parameter int N_IN = 16,  // elements of an input vector
    parameter int N_OUT = 8,  // elements of an output vector
    parameter int P = 4,  // inputs taken in one clock, a divisor of N_IN
    parameter int Q = 2,  // outputs computed in parallel, a divisor of N_OUT
    parameter int MATRICES = 1,  // of weights; vector v has weights number v % MATRICES
    parameter int BIASES = 1,  // vectors of biases; vector v has number v % BIASES
    parameter int X_WIDTH = 8,  // bits of an input
    parameter bit X_SIGNED = 1'b1,  // inputs are two's complement
    parameter int W_WIDTH = 8,  // bits of a weight, two's complement
    parameter int PRODUCT_SHIFT = 0,  // fraction bits of a product minus those of the accumulator; negative: shift left
    parameter int PRODUCT_ROUNDING = ap_fixed_pkg::TRN,  // rounding of a product to the accumulator: 0 TRN, 1 RND
    parameter int ACC_WIDTH = 24,  // bits of the accumulator and of a bias
    parameter bit ACC_SIGNED = 1'b1,  // the accumulator is two's complement when it is cast
    parameter int RESULT_SHIFT = 8,  // fraction bits of the accumulator minus those of the result
    parameter int Y_WIDTH = 8,  // bits of a result
    parameter bit Y_SIGNED = 1'b1,  // results are two's complement
    parameter int ROUNDING = ap_fixed_pkg::TRN,  // of the result, see fixed_cast
    parameter int OVERFLOW = ap_fixed_pkg::WRAP
) (
    input  logic                   clk,
    input  logic                   rst_n,
    input  logic                   weight_tvalid,
    output logic                   weight_enable,
    output logic [(MATRICES*(N_IN/P)*(N_OUT/Q) > 1 ? $clog2(MATRICES*(N_IN/P)*(N_OUT/Q)) : 1)-1:0] weight_address,
    input  logic [Q*P*W_WIDTH-1:0] weight_word,
    output logic [(BIASES*(N_OUT/Q) > 1 ? $clog2(BIASES*(N_OUT/Q)) : 1)-1:0] bias_address,
    input  logic [Q*ACC_WIDTH-1:0] bias_word,  // a clock after its address
    input  logic                   s_axis_tvalid,
    output logic                   s_axis_tready,
    input  logic [  P*X_WIDTH-1:0] s_axis_tdata,
    input  logic                   s_axis_tlast,
    output logic                   m_axis_tvalid,
    input  logic                   m_axis_tready,
    output logic [  Q*Y_WIDTH-1:0] m_axis_tdata,
    output logic                   m_axis_tlast
);

  if (P < 1 || N_IN % P != 0) begin : g_check_p
    $error("rf_mac_engine %m: P is %0d, expected a divisor of N_IN, %0d", P, N_IN);
  end
  if (Q < 1 || N_OUT % Q != 0) begin : g_check_q
    $error("rf_mac_engine %m: Q is %0d, expected a divisor of N_OUT, %0d", Q, N_OUT);
  end
  if (MATRICES < 1 || BIASES < 1) begin : g_check_turns
    $error("rf_mac_engine %m: MATRICES is %0d and BIASES %0d, expected 1 or more", MATRICES, BIASES);
  end
  if (X_WIDTH < 1 || W_WIDTH < 1 || X_WIDTH + W_WIDTH > 128) begin : g_check_widths
    $error("rf_mac_engine %m: X_WIDTH %0d and W_WIDTH %0d, expected 1 or more and 128 together", X_WIDTH, W_WIDTH);
  end
  if (PRODUCT_ROUNDING != ap_fixed_pkg::TRN && PRODUCT_ROUNDING != ap_fixed_pkg::RND) begin : g_check_product_rounding
    $error("rf_mac_engine %m: PRODUCT_ROUNDING is %0d, expected 0 or 1", PRODUCT_ROUNDING);
  end

  localparam int BEATS = N_IN / P;
  localparam int GROUPS = N_OUT / Q;
  localparam int RF = BEATS * GROUPS;
  localparam int BEAT_WIDTH = BEATS > 1 ? $clog2(BEATS) : 1;
  localparam int GROUP_WIDTH = GROUPS > 1 ? $clog2(GROUPS) : 1;
  localparam int WORDS = MATRICES * RF;
  localparam int ADDRESS_WIDTH = WORDS > 1 ? $clog2(WORDS) : 1;
  localparam int BIAS_WORDS = BIASES * GROUPS;
  localparam int BIAS_WIDTH = BIAS_WORDS > 1 ? $clog2(BIAS_WORDS) : 1;

  // widths from a product to the accumulator
  localparam int PRODUCT = X_WIDTH + W_WIDTH;
  localparam int RIGHT = PRODUCT_SHIFT > PRODUCT ? PRODUCT : PRODUCT_SHIFT > 0 ? PRODUCT_SHIFT : 0;
  localparam int LEFT = PRODUCT_SHIFT < 0 ? -PRODUCT_SHIFT : 0;
  localparam bit ROUND = RIGHT > 0 && PRODUCT_ROUNDING == ap_fixed_pkg::RND;
  localparam int CUT = PRODUCT + 1 - RIGHT - (ROUND ? 0 : RIGHT < PRODUCT ? 1 : 0);
  localparam int LEVELS = $clog2(P);
  // bits of a sum that reach the accumulator
  localparam int KEPT = ACC_WIDTH > LEFT ? ACC_WIDTH - LEFT : 1;
  localparam int SUM = CUT + LEVELS < KEPT ? CUT + LEVELS : KEPT;
  // levels of narrow additions, or one of wide additions, between two registers
  localparam int LEVELS_A_REGISTER = SUM <= 24 ? 2 : 1;
  localparam int TREE_REGISTERS = (LEVELS + LEVELS_A_REGISTER - 1) / LEVELS_A_REGISTER;
  localparam int TO_SUM = 4 + TREE_REGISTERS;  // clock edges from issuing a beat to its sum

  // ---------------------------------------------------------------- which beat and group is next
  logic [BEAT_WIDTH-1:0] beat_q;
  logic [GROUP_WIDTH-1:0] group_q;
  logic [ADDRESS_WIDTH-1:0] address_q;
  logic available;  // the next beat has been received
  logic row_last;  // the vector is the last of its row
  logic place_tready;  // a place in the output FIFO is free
  wire beat_last = beat_q == BEAT_WIDTH'(BEATS - 1);
  wire group_last = group_q == GROUP_WIDTH'(GROUPS - 1);
  wire issue = available && weight_tvalid && (!beat_last || place_tready);

  always_ff @(posedge clk) begin
    if (issue) begin
      beat_q <= beat_last ? '0 : beat_q + 1'b1;
      if (beat_last) group_q <= group_last ? '0 : group_q + 1'b1;
      address_q <= address_q == ADDRESS_WIDTH'(WORDS - 1) ? '0 : address_q + 1'b1;
    end
    if (!rst_n) begin
      beat_q <= '0;
      group_q <= '0;
      address_q <= '0;
    end
  end

  // ---------------------------------------------------------------- the inputs
  // data that are read but not issued have no effect, so the handshake enables only the counters and not the wide registers
  logic [P*X_WIDTH-1:0] beat_data_q;

  if (GROUPS == 1) begin : gen_straight
    assign available = s_axis_tvalid;
    assign s_axis_tready = weight_tvalid && (!beat_last || place_tready);
    assign row_last = s_axis_tlast;

    always_ff @(posedge clk) beat_data_q <= s_axis_tdata;
  end else begin : gen_buffer
    logic [1:0] full_q, last_q;
    logic [BEAT_WIDTH-1:0] count_q;  // beats received of the current vector
    logic write_q, read_q;  // which vector
    wire write = s_axis_tvalid && s_axis_tready;
    wire write_last = count_q == BEAT_WIDTH'(BEATS - 1);

    assign s_axis_tready = !full_q[write_q];
    assign available = full_q[read_q] || (write_q == read_q && beat_q < count_q);
    assign row_last = last_q[read_q];

    always_ff @(posedge clk) begin
      if (write) count_q <= write_last ? '0 : count_q + 1'b1;
      if (write && write_last) begin
        full_q[write_q] <= 1'b1;
        last_q[write_q] <= s_axis_tlast;
        write_q <= !write_q;
      end
      if (issue && beat_last && group_last) begin
        full_q[read_q] <= 1'b0;
        read_q <= !read_q;
      end
      if (!rst_n) begin
        count_q <= '0;
        full_q <= '0;
        write_q <= 1'b0;
        read_q <= 1'b0;
      end
    end

    if (BEATS > 1024) begin : gen_deep
      (* ram_style = "block" *)  // UltraRAM, which would also be deep enough, is kept for weights
      logic [P*X_WIDTH-1:0] vectors[2<<BEAT_WIDTH];
      always_ff @(posedge clk) if (write) vectors[{write_q, count_q}] <= s_axis_tdata;
      always_ff @(posedge clk) beat_data_q <= vectors[{read_q, beat_q}];
    end else if (BEATS > 1) begin : gen_beats
      logic [P*X_WIDTH-1:0] vectors[2<<BEAT_WIDTH];
      always_ff @(posedge clk) if (write) vectors[{write_q, count_q}] <= s_axis_tdata;
      always_ff @(posedge clk) beat_data_q <= vectors[{read_q, beat_q}];
    end else begin : gen_beat
      logic [P*X_WIDTH-1:0] vectors[2];
      always_ff @(posedge clk) if (write) vectors[write_q] <= s_axis_tdata;
      always_ff @(posedge clk) beat_data_q <= vectors[read_q];
    end
  end

  // ---------------------------------------------------------------- the weights
  assign weight_enable = issue;
  assign weight_address = address_q;

  // ---------------------------------------------------------------- issue and bias, delayed to the accumulator
  logic [TO_SUM-2:0] issue_q, first_q;  // the last clock is a register of every accumulator

  always_ff @(posedge clk) issue_q <= rst_n ? (TO_SUM - 1)'({issue_q, issue}) : '0;
  always_ff @(posedge clk) first_q <= (TO_SUM - 1)'({first_q, beat_q == '0});

  // the group is counted a second time at the accumulator, which is cheaper than a delay line
  logic [TO_SUM-2:0] last_q;
  logic [BIAS_WIDTH-1:0] bias_address_q;
  wire bias_last = bias_address_q == BIAS_WIDTH'(BIAS_WORDS - 1);

  always_ff @(posedge clk) last_q <= (TO_SUM - 1)'({last_q, beat_last});

  always_ff @(posedge clk) begin
    if (issue_q[TO_SUM-2] && last_q[TO_SUM-2]) bias_address_q <= bias_last ? '0 : bias_address_q + 1'b1;
    if (!rst_n) bias_address_q <= '0;
  end

  assign bias_address = bias_address_q;

  // ---------------------------------------------------------------- multiply, add, accumulate, cast
  // every multiplier has registers of its own at both inputs, which a DSP48E2 absorbs: none drives multipliers all over the
  // die, also where weights have equal bits. keep is on the process, where Yosys obeys it; on the register, Vivado would not move
  // it into a DSP48E2
  logic [Q*ACC_WIDTH-1:0] values;

  for (genvar q = 0; q < Q; q++) begin : g_q
    for (genvar p = 0; p < P; p++) begin : g_p
      logic [X_WIDTH-1:0] x_q;
      logic signed [W_WIDTH-1:0] w_q;
      (* keep *)
      always_ff @(posedge clk) x_q <= beat_data_q[p*X_WIDTH+:X_WIDTH];
      (* keep *)
      always_ff @(posedge clk) w_q <= weight_word[(q*P+p)*W_WIDTH+:W_WIDTH];
      // a sign bit also for an unsigned input; after the register, so that 27 bits of two's complement fit a DSP48E2
      wire signed [X_WIDTH:0] x = {X_SIGNED && x_q[X_WIDTH-1], x_q};
      logic signed [PRODUCT-1:0] product_q;
      always_ff @(posedge clk) product_q <= PRODUCT'(x) * PRODUCT'(w_q);
    end

    for (genvar level = 0; level <= LEVELS; level++) begin : g_level
      localparam int NODES = (P + (1 << level) - 1) >> level;
      localparam int BEFORE = level == 0 ? P : (P + (1 << (level - 1)) - 1) >> (level - 1);
      localparam int WIDTH = CUT + level < SUM ? CUT + level : SUM;
      localparam bit REGISTERED = level == 0 || (LEVELS - level) % LEVELS_A_REGISTER == 0;
      for (genvar n = 0; n < NODES; n++) begin : g_node
        wire signed [WIDTH-1:0] next;
        logic signed [WIDTH-1:0] sum;

        if (level == 0 && ROUND) begin : gen_round
          wire signed [PRODUCT:0] product = (PRODUCT + 1)'(g_p[n].product_q);
          assign next = WIDTH'(product >>> RIGHT) + WIDTH'($signed({1'b0, product[RIGHT-1]}));
        end else if (level == 0) begin : gen_truncate
          assign next = WIDTH'(g_p[n].product_q >>> RIGHT);
        end else if (2 * n + 1 < BEFORE) begin : gen_add
          assign next = WIDTH'(g_level[level-1].g_node[2*n].sum) + WIDTH'(g_level[level-1].g_node[2*n+1].sum);
        end else begin : gen_pass
          assign next = WIDTH'(g_level[level-1].g_node[2*n].sum);
        end

        if (REGISTERED) begin : gen_register
          always_ff @(posedge clk) sum <= next;
        end else begin : gen_wire
          assign sum = next;
        end
      end
    end

    // every accumulator has control registers of its own, because the enable of all Q accumulators has too large a fan-out. keep
    // is on the register, where Vivado obeys it, and on the process, where Yosys does: both would merge equal registers
    logic [ACC_WIDTH-1:0] accumulator_q;
    (* keep = "true" *)
    logic add_q, restart_q;
    wire [ACC_WIDTH-1:0] start = bias_word[q*ACC_WIDTH+:ACC_WIDTH];
    wire [ACC_WIDTH-1:0] summand = ACC_WIDTH'($signed(g_level[LEVELS].g_node[0].sum)) << LEFT;

    (* keep *)
    always_ff @(posedge clk) add_q <= rst_n && issue_q[TO_SUM-2];
    (* keep *)
    always_ff @(posedge clk) restart_q <= first_q[TO_SUM-2];

    always_ff @(posedge clk) if (add_q) accumulator_q <= (restart_q ? start : accumulator_q) + summand;

    assign values[q*ACC_WIDTH+:ACC_WIDTH] = accumulator_q;
  end

  rf_output #(
      .LANES    (Q),
      .IN_WIDTH (ACC_WIDTH),
      .SIGNED_IN(ACC_SIGNED),
      .LATENCY  (TO_SUM + 1),
      .SHIFT    (RESULT_SHIFT),
      .WIDTH    (Y_WIDTH),
      .SIGNED   (Y_SIGNED),
      .ROUNDING (ROUNDING),
      .OVERFLOW (OVERFLOW)
  ) u_rf_output (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(available && weight_tvalid && beat_last),
      .s_axis_tready(place_tready),
      .s_axis_tlast(row_last && group_last),
      .values(values),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

endmodule

`default_nettype wire
