// SPDX-License-Identifier: Apache-2.0
//
// The recurrent part of an LSTM or a GRU: for each time step, the gates of the input plus the gates of the state before, which are
// its products with the recurrent kernel, become the new state, which is the result:
//
//                     +--> LANES x rf_cell --> rf_fork --+--> m_axis
//   s_axis: gates_x --+      |  state memory  ^                    |
//                     +      +----------------+                    |
//           gates_h <-- rf_mac <-- rf_lanes <-- 0 at a row's end --+
//
// A row is N_SEQUENCE steps of N_STATE / LANES beats. A beat of s_axis has LANES units with all their gates, in the order of
// rf_cell. m_axis gives a step's N_STATE numbers for every step (SEQUENCES) or for the last one. In place of the last step's
// state, zeros are fed back, with which the next row starts; after a reset, zeros are sent first. The rows therefore follow each
// other at the pace of the steps.
`default_nettype none

module rf_recurrent #(
    parameter bit GRU = 1'b0,  // a GRU; otherwise an LSTM
    parameter int N_SEQUENCE = 3,  // time steps of a row
    parameter int N_STATE = 4,  // units
    parameter int LANES = 1,  // units of a beat, a divisor of N_STATE
    parameter int P = 1,  // numbers of the state multiplied in one clock, a divisor of N_STATE, and a divisor or a multiple of LANES
    parameter bit SEQUENCES = 1'b0,  // give every step
    parameter int W_WIDTH = 8,  // bits of a recurrent weight, two's complement
    parameter int PRODUCT_SHIFT = 0,  // fraction bits of a product minus those of a gate; see rf_mac
    parameter int PRODUCT_ROUNDING = ap_fixed_pkg::TRN,
    parameter WEIGHTS = "",  // $readmemh: rf_mac's words; the outputs are units with all their gates
    parameter BIAS = "",
    parameter int ACC_WIDTH = 16,  // bits of a gate
    parameter bit ACC_SIGNED = 1'b1,  // it is two's complement
    parameter int ACC_FRACTION = 8,  // its fraction bits, 0 or more
    parameter int ACC_ROUNDING = ap_fixed_pkg::TRN,  // see fixed_cast
    parameter int ACC_OVERFLOW = ap_fixed_pkg::WRAP,
    parameter int Y_WIDTH = 16,  // bits of a state
    parameter bit Y_SIGNED = 1'b1,
    parameter int Y_FRACTION = 8,
    parameter int ROUNDING = ap_fixed_pkg::TRN,
    parameter int OVERFLOW = ap_fixed_pkg::WRAP,
    parameter int GATE_SIZE = 16,  // entries of the gates' table (sigmoid); 1 for a ReLU
    parameter int GATE_SPAN = 4,  // log2 of the range that it covers
    parameter bit GATE_PASS = 1'b0,  // it is a ReLU
    parameter GATE_FILE = "",  // $readmemh: GATE_SIZE words of ACC_WIDTH bits
    parameter int ACT_SIZE = 16,  // the same for the activation's table (tanh)
    parameter int ACT_SPAN = 3,
    parameter bit ACT_PASS = 1'b0,
    parameter ACT_FILE = ""
) (
    input  logic                                        clk,
    input  logic                                        rst_n,
    input  logic                                        s_axis_tvalid,
    output logic                                        s_axis_tready,
    input  logic [LANES*(GRU ? 3 : 4)*ACC_WIDTH-1:0] s_axis_tdata,
    input  logic                                        s_axis_tlast,
    output logic                                        m_axis_tvalid,
    input  logic                                        m_axis_tready,
    output logic [                   LANES*Y_WIDTH-1:0] m_axis_tdata,
    output logic                                        m_axis_tlast
);

  if (LANES < 1 || N_STATE % LANES != 0) begin : g_check_lanes
    $error("rf_recurrent %m: LANES is %0d, expected a divisor of N_STATE, %0d", LANES, N_STATE);
  end

  localparam int GATES = GRU ? 3 : 4;
  localparam int BEATS = N_STATE / LANES;
  localparam int BEAT_WIDTH = BEATS > 1 ? $clog2(BEATS) : 1;
  localparam int STEP_WIDTH = N_SEQUENCE > 1 ? $clog2(N_SEQUENCE) : 1;
  // clocks of rf_cell until its result; its old state is read two clocks before it is taken, its new one is written in the
  // clock after it is there
  localparam int LATENCY = GRU ? rf_pkg::GRU_CLOCKS : rf_pkg::LSTM_CLOCKS;
  localparam int READ = (GRU ? rf_pkg::GRU_STATE : rf_pkg::LSTM_STATE) - 2;
  localparam int WRITE = (GRU ? rf_pkg::GRU_CLOCKS : rf_pkg::LSTM_NEW_STATE) + 1;

  // ---------------------------------------------------------------- the steps
  logic gates_tvalid, gates_tready, gates_tlast, place_tready;
  logic [LANES*GATES*ACC_WIDTH-1:0] gates_tdata;
  logic [BEAT_WIDTH-1:0] beat_q;
  logic [STEP_WIDTH-1:0] step_q;
  wire both = s_axis_tvalid && gates_tvalid;
  wire take = both && place_tready;
  wire beat_last = beat_q == BEAT_WIDTH'(BEATS - 1);
  wire step_last = step_q == STEP_WIDTH'(N_SEQUENCE - 1);

  assign s_axis_tready = gates_tvalid && place_tready;
  assign gates_tready  = s_axis_tvalid && place_tready;

  always_ff @(posedge clk) begin
    if (take) begin
      beat_q <= beat_last ? '0 : beat_q + 1'b1;
      if (beat_last) step_q <= step_last ? '0 : step_q + 1'b1;
    end
    if (!rst_n) begin
      beat_q <= '0;
      step_q <= '0;
    end
  end

  // the number of a clock is that of rf_cell: `take` is 1 before clock 1, taken_q[k] after clock k
  logic [WRITE-1:1] taken_q;
  logic [READ:1] first_q;
  logic [LATENCY-1:1] last_q;
  logic step_last_q;

  always_ff @(posedge clk) begin
    taken_q <= rst_n ? (WRITE - 1)'({taken_q, take}) : '0;
    first_q <= READ'({first_q, step_q == '0});
    {step_last_q, last_q} <= {last_q, step_last};
  end

  // ---------------------------------------------------------------- the units, and the state of each before this step
  logic [BEAT_WIDTH-1:0] read_q, write_q;
  logic [LANES*Y_WIDTH-1:0] states[1<<BEAT_WIDTH];
  logic [LANES*Y_WIDTH-1:0] word_q, state_q, new_state, results;

  always_ff @(posedge clk) begin
    if (taken_q[READ-1]) read_q <= read_q == BEAT_WIDTH'(BEATS - 1) ? '0 : read_q + 1'b1;
    if (taken_q[WRITE-1]) write_q <= write_q == BEAT_WIDTH'(BEATS - 1) ? '0 : write_q + 1'b1;
    if (!rst_n) begin
      read_q  <= '0;
      write_q <= '0;
    end
  end

  always_ff @(posedge clk) if (taken_q[WRITE-1]) states[write_q] <= new_state;
  always_ff @(posedge clk) word_q <= states[read_q];
  always_ff @(posedge clk) state_q <= first_q[READ] ? '0 : word_q;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_unit
    rf_cell #(
        .GRU         (GRU),
        .ACC_WIDTH   (ACC_WIDTH),
        .ACC_SIGNED  (ACC_SIGNED),
        .ACC_FRACTION(ACC_FRACTION),
        .ACC_ROUNDING(ACC_ROUNDING),
        .ACC_OVERFLOW(ACC_OVERFLOW),
        .Y_WIDTH     (Y_WIDTH),
        .Y_SIGNED    (Y_SIGNED),
        .Y_FRACTION  (Y_FRACTION),
        .ROUNDING    (ROUNDING),
        .OVERFLOW    (OVERFLOW),
        .GATE_SIZE   (GATE_SIZE),
        .GATE_SPAN   (GATE_SPAN),
        .GATE_PASS   (GATE_PASS),
        .GATE_FILE   (GATE_FILE),
        .ACT_SIZE    (ACT_SIZE),
        .ACT_SPAN    (ACT_SPAN),
        .ACT_PASS    (ACT_PASS),
        .ACT_FILE    (ACT_FILE)
    ) u_rf_cell (
        .clk      (clk),
        .gates_x  (s_axis_tdata[lane*GATES*ACC_WIDTH+:GATES*ACC_WIDTH]),
        .gates_h  (gates_tdata[lane*GATES*ACC_WIDTH+:GATES*ACC_WIDTH]),
        .state    (state_q[lane*Y_WIDTH+:Y_WIDTH]),
        .new_state(new_state[lane*Y_WIDTH+:Y_WIDTH]),
        .y        (results[lane*Y_WIDTH+:Y_WIDTH])
    );
  end

  logic result_tvalid, result_tready, result_tlast, result_ends;
  logic [LANES*Y_WIDTH-1:0] result_tdata;

  axis_free_running #(
      .WIDTH  (LANES * Y_WIDTH + 1),
      .LATENCY(LATENCY)
  ) u_axis_free_running (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(both),
      .s_axis_tready(place_tready),
      .s_axis_tlast(step_last && beat_last),
      .pipeline_tdata({step_last_q, results}),
      .m_axis_tvalid(result_tvalid),
      .m_axis_tready(result_tready),
      .m_axis_tdata({result_ends, result_tdata}),
      .m_axis_tlast(result_tlast)
  );

  // ---------------------------------------------------------------- the result, and the state for the next step
  logic [1:0] copy_tvalid, copy_tready;
  logic [LANES*Y_WIDTH-1:0] copy_tdata;
  logic copy_ends, copy_tlast;
  wire given = SEQUENCES || copy_ends;

  rf_fork #(
      .WIDTH(LANES * Y_WIDTH + 1),
      .COUNT(2)
  ) u_rf_fork (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(result_tvalid),
      .s_axis_tready(result_tready),
      .s_axis_tdata({result_ends, result_tdata}),
      .s_axis_tlast(result_tlast),
      .m_axis_tvalid(copy_tvalid),
      .m_axis_tready(copy_tready),
      .m_axis_tdata({copy_ends, copy_tdata}),
      .m_axis_tlast(copy_tlast)
  );

  assign m_axis_tvalid = copy_tvalid[0] && given;
  assign m_axis_tdata = copy_tdata;
  assign m_axis_tlast = copy_tlast;
  assign copy_tready[0] = m_axis_tready || !given;

  // zeros after a reset
  logic [BEAT_WIDTH:0] zeros_q;
  wire starts = zeros_q != (BEAT_WIDTH + 1)'(BEATS);
  logic state_tready;

  assign copy_tready[1] = state_tready && !starts;

  always_ff @(posedge clk) begin
    if (starts && state_tready) zeros_q <= zeros_q + 1'b1;
    if (!rst_n) zeros_q <= '0;
  end

  logic vector_tvalid, vector_tready, vector_tlast;
  logic [P*Y_WIDTH-1:0] vector_tdata;

  rf_lanes #(
      .IN_LANES (LANES),
      .OUT_LANES(P),
      .WIDTH    (Y_WIDTH)
  ) u_rf_lanes (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(starts || copy_tvalid[1]),
      .s_axis_tready(state_tready),
      .s_axis_tdata(starts || copy_ends ? '0 : copy_tdata),
      .s_axis_tlast(1'b0),
      .m_axis_tvalid(vector_tvalid),
      .m_axis_tready(vector_tready),
      .m_axis_tdata(vector_tdata),
      .m_axis_tlast(vector_tlast)
  );

  rf_mac #(
      .N_IN            (N_STATE),
      .N_OUT           (GATES * N_STATE),
      .P               (P),
      .Q               (GATES * LANES),
      .X_WIDTH         (Y_WIDTH),
      .X_SIGNED        (Y_SIGNED),
      .W_WIDTH         (W_WIDTH),
      .PRODUCT_SHIFT   (PRODUCT_SHIFT),
      .PRODUCT_ROUNDING(PRODUCT_ROUNDING),
      .ACC_WIDTH       (ACC_WIDTH),
      .ACC_SIGNED      (ACC_SIGNED),
      .RESULT_SHIFT    (0),
      .Y_WIDTH         (ACC_WIDTH),
      .Y_SIGNED        (ACC_SIGNED),
      .ROUNDING        (ap_fixed_pkg::TRN),
      .OVERFLOW        (ap_fixed_pkg::WRAP),
      .WEIGHTS         (WEIGHTS),
      .BIAS            (BIAS)
  ) u_rf_mac (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(vector_tvalid),
      .s_axis_tready(vector_tready),
      .s_axis_tdata(vector_tdata),
      .s_axis_tlast(vector_tlast),
      .m_axis_tvalid(gates_tvalid),
      .m_axis_tready(gates_tready),
      .m_axis_tdata(gates_tdata),
      .m_axis_tlast(gates_tlast)
  );

  wire unused = &{1'b0, s_axis_tlast, gates_tlast};

endmodule

`default_nettype wire
