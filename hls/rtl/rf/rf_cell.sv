// SPDX-License-Identifier: Apache-2.0
//
// One unit of an LSTM or of a GRU with reset_after: its new state, as hls4ml computes it, from the gates of the input and of the
// state before. A pipeline without handshakes, used by rf_recurrent; rf_pkg has its latencies.
//
// An LSTM has the gates i, f, c, o:
//
//   g = acc_t(gates_x + gates_h)        for each gate
//   i, f, o = gate(g); c = act(g)       after clock LSTM_GATE
//   s = y_t(c * i + state * f)          after clock LSTM_NEW_STATE; state is given at clock LSTM_STATE, s is new_state
//   y = y_t(o * acc_t(act(s)))          after clock LSTM_CLOCKS
//
// A GRU has the gates z, r, h:
//
//   z, r = gate(acc_t(gates_x + gates_h))          after clock GRU_GATE
//   h = act(acc_t(h_x + acc_t(r * h_h)))           after clock GRU_ACT
//   y = y_t(h * (1 - z) + state * z)               after clock GRU_CLOCKS, y is new_state; state is given at clock GRU_STATE
//
// gate and act are tables (rf_lookup) with entries of the type acc_t, or ReLU.
`default_nettype none

module rf_cell #(
    parameter bit GRU = 1'b0,  // a GRU; otherwise an LSTM
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
    input  logic                               clk,
    input  logic [(GRU ? 3 : 4)*ACC_WIDTH-1:0] gates_x,
    input  logic [(GRU ? 3 : 4)*ACC_WIDTH-1:0] gates_h,
    input  logic [                Y_WIDTH-1:0] state,
    output logic [                Y_WIDTH-1:0] new_state,
    output logic [                Y_WIDTH-1:0] y
);

  if (ACC_FRACTION < 0) begin : g_check_fraction
    $error("rf_cell %m: ACC_FRACTION is %0d, expected 0 or more", ACC_FRACTION);
  end

  localparam int GATE = 1 + rf_pkg::CAST_CLOCKS + rf_pkg::LOOKUP_CLOCKS;  // one clock for a sum or a product

  // a gate, a state and their products, with a sign bit
  localparam int A = ACC_WIDTH + 1;
  localparam int H = Y_WIDTH + 1;
  localparam int SUM = A + 1;
  localparam int FINER = ACC_FRACTION > Y_FRACTION ? ACC_FRACTION : Y_FRACTION;
  localparam int ONE = (ACC_WIDTH > ACC_FRACTION + 1 ? ACC_WIDTH : ACC_FRACTION + 1) + 2;
  localparam int SHARE = GRU ? ONE : A;  // of the new part of a state
  localparam int NEW = A + SHARE + FINER - ACC_FRACTION;
  localparam int OLD = H + A + FINER - Y_FRACTION;
  localparam int V = (NEW > OLD ? NEW : OLD) + 1;

  // all gates of an LSTM, of which one has the activation; those of a GRU but the last one, which needs the others
  localparam int N_GATES = GRU ? 2 : 4;
  localparam int C = 2;
  logic [ACC_WIDTH-1:0] gate[N_GATES];

  for (genvar g = 0; g < N_GATES; g++) begin : g_gate
    wire [ACC_WIDTH-1:0] of_x = gates_x[g*ACC_WIDTH+:ACC_WIDTH];
    wire [ACC_WIDTH-1:0] of_h = gates_h[g*ACC_WIDTH+:ACC_WIDTH];
    logic signed [SUM-1:0] sum_q;
    logic [ACC_WIDTH-1:0] sum;

    always_ff @(posedge clk) begin
      sum_q <= SUM'($signed({ACC_SIGNED && of_x[ACC_WIDTH-1], of_x})) + SUM'($signed({ACC_SIGNED && of_h[ACC_WIDTH-1], of_h}));
    end

    fixed_cast #(
        .IN_WIDTH (SUM),
        .SIGNED_IN(1'b1),
        .SHIFT    (0),
        .WIDTH    (ACC_WIDTH),
        .SIGNED   (ACC_SIGNED),
        .ROUNDING (ACC_ROUNDING),
        .OVERFLOW (ACC_OVERFLOW)
    ) u_sum (
        .clk   (clk),
        .enable(1'b1),
        .x     (sum_q),
        .y     (sum)
    );

    if (g == C) begin : gen_act
      rf_lookup #(
          .X_WIDTH      (ACC_WIDTH),
          .X_SIGNED     (ACC_SIGNED),
          .SCALE        (ACT_PASS ? -1 : ACT_SIZE),
          .SCALE_SHIFT  (ACC_FRACTION + ACT_SPAN),
          .OFFSET       (ACT_PASS ? 0 : ACT_SIZE / 2),
          .TABLE_SIZE   (ACT_SIZE),
          .TABLE_FILE   (ACT_FILE),
          .POSITIVE_PASS(ACT_PASS),
          .GAIN         (1),
          .RESULT_SHIFT (0),
          .Y_WIDTH      (ACC_WIDTH),
          .Y_SIGNED     (ACC_SIGNED),
          .ROUNDING     (ACC_ROUNDING),
          .OVERFLOW     (ACC_OVERFLOW)
      ) u_act (
          .clk(clk),
          .x  (sum),
          .y  (gate[g])
      );
    end else begin : gen_gate
      rf_lookup #(
          .X_WIDTH      (ACC_WIDTH),
          .X_SIGNED     (ACC_SIGNED),
          .SCALE        (GATE_PASS ? -1 : GATE_SIZE),
          .SCALE_SHIFT  (ACC_FRACTION + GATE_SPAN),
          .OFFSET       (GATE_PASS ? 0 : GATE_SIZE / 2),
          .TABLE_SIZE   (GATE_SIZE),
          .TABLE_FILE   (GATE_FILE),
          .POSITIVE_PASS(GATE_PASS),
          .GAIN         (1),
          .RESULT_SHIFT (0),
          .Y_WIDTH      (ACC_WIDTH),
          .Y_SIGNED     (ACC_SIGNED),
          .ROUNDING     (ACC_ROUNDING),
          .OVERFLOW     (ACC_OVERFLOW)
      ) u_gate (
          .clk(clk),
          .x  (sum),
          .y  (gate[g])
      );
    end
  end

  // the products of the new part and of the state before, a clock later their sum, and then the new state
  wire signed [H-1:0] s = {Y_SIGNED && state[Y_WIDTH-1], state};
  logic signed [A+SHARE-1:0] new_q;
  logic signed [H+A-1:0] old_q;
  logic signed [V-1:0] v_q;

  always_ff @(posedge clk) v_q <= (V'(new_q) << (FINER - ACC_FRACTION)) + (V'(old_q) << (FINER - Y_FRACTION));

  fixed_cast #(
      .IN_WIDTH (V),
      .SIGNED_IN(1'b1),
      .SHIFT    (ACC_FRACTION + FINER - Y_FRACTION),
      .WIDTH    (Y_WIDTH),
      .SIGNED   (Y_SIGNED),
      .ROUNDING (ROUNDING),
      .OVERFLOW (OVERFLOW)
  ) u_state (
      .clk   (clk),
      .enable(1'b1),
      .x     (v_q),
      .y     (new_state)
  );

  logic [ACC_WIDTH-1:0] act;
  wire signed [A-1:0] a = {ACC_SIGNED && act[ACC_WIDTH-1], act};

  if (GRU) begin : gen_gru
    localparam int KEPT = GATE + 1 + rf_pkg::CAST_CLOCKS;
    localparam int ACT = KEPT + 1 + rf_pkg::CAST_CLOCKS + rf_pkg::LOOKUP_CLOCKS;
    localparam int CLOCKS = ACT + 2 + rf_pkg::CAST_CLOCKS;

    if (rf_pkg::GRU_GATE != GATE || rf_pkg::GRU_KEPT != KEPT || rf_pkg::GRU_ACT != ACT || rf_pkg::GRU_STATE != ACT + 1 ||
        rf_pkg::GRU_CLOCKS != CLOCKS) begin : g_check_clocks
      $error("rf_cell %m: rf_pkg has other latencies");
    end

    // the candidate's sums: of the state until r is there, of the input until r * h_h is
    logic [GATE*ACC_WIDTH-1:0] h_q;
    logic [KEPT*ACC_WIDTH-1:0] x_q;
    wire [ACC_WIDTH-1:0] of_h = h_q[GATE*ACC_WIDTH-1-:ACC_WIDTH];
    wire [ACC_WIDTH-1:0] of_x = x_q[KEPT*ACC_WIDTH-1-:ACC_WIDTH];
    wire signed [A-1:0] r = {ACC_SIGNED && gate[1][ACC_WIDTH-1], gate[1]};
    logic signed [2*A-1:0] reset_q;
    logic [ACC_WIDTH-1:0] kept, sum;
    logic signed [SUM-1:0] sum_q;

    always_ff @(posedge clk) begin
      h_q <= (GATE * ACC_WIDTH)'({h_q, gates_h[2*ACC_WIDTH+:ACC_WIDTH]});
      x_q <= (KEPT * ACC_WIDTH)'({x_q, gates_x[2*ACC_WIDTH+:ACC_WIDTH]});
      reset_q <= (2 * A)'(r) * (2 * A)'($signed({ACC_SIGNED && of_h[ACC_WIDTH-1], of_h}));
      sum_q <= SUM'($signed({ACC_SIGNED && of_x[ACC_WIDTH-1], of_x})) + SUM'($signed({ACC_SIGNED && kept[ACC_WIDTH-1], kept}));
    end

    fixed_cast #(
        .IN_WIDTH (2 * A),
        .SIGNED_IN(1'b1),
        .SHIFT    (ACC_FRACTION),
        .WIDTH    (ACC_WIDTH),
        .SIGNED   (ACC_SIGNED),
        .ROUNDING (ACC_ROUNDING),
        .OVERFLOW (ACC_OVERFLOW)
    ) u_kept (
        .clk   (clk),
        .enable(1'b1),
        .x     (reset_q),
        .y     (kept)
    );
    fixed_cast #(
        .IN_WIDTH (SUM),
        .SIGNED_IN(1'b1),
        .SHIFT    (0),
        .WIDTH    (ACC_WIDTH),
        .SIGNED   (ACC_SIGNED),
        .ROUNDING (ACC_ROUNDING),
        .OVERFLOW (ACC_OVERFLOW)
    ) u_sum (
        .clk   (clk),
        .enable(1'b1),
        .x     (sum_q),
        .y     (sum)
    );
    rf_lookup #(
        .X_WIDTH      (ACC_WIDTH),
        .X_SIGNED     (ACC_SIGNED),
        .SCALE        (ACT_PASS ? -1 : ACT_SIZE),
        .SCALE_SHIFT  (ACC_FRACTION + ACT_SPAN),
        .OFFSET       (ACT_PASS ? 0 : ACT_SIZE / 2),
        .TABLE_SIZE   (ACT_SIZE),
        .TABLE_FILE   (ACT_FILE),
        .POSITIVE_PASS(ACT_PASS),
        .GAIN         (1),
        .RESULT_SHIFT (0),
        .Y_WIDTH      (ACC_WIDTH),
        .Y_SIGNED     (ACC_SIGNED),
        .ROUNDING     (ACC_ROUNDING),
        .OVERFLOW     (ACC_OVERFLOW)
    ) u_act (
        .clk(clk),
        .x  (sum),
        .y  (act)
    );

    // z until 1 - z is computed, which is there together with h
    localparam int Z_DELAY = ACT - 1 - GATE;
    logic [Z_DELAY*ACC_WIDTH-1:0] z_q;
    wire [ACC_WIDTH-1:0] late = z_q[Z_DELAY*ACC_WIDTH-1-:ACC_WIDTH];
    wire signed [A-1:0] z = {ACC_SIGNED && late[ACC_WIDTH-1], late};
    logic signed [SHARE-1:0] rest_q;
    logic signed [A-1:0] share_q;

    always_ff @(posedge clk) begin
      z_q <= (Z_DELAY * ACC_WIDTH)'({z_q, gate[0]});
      rest_q <= (SHARE'(1) << ACC_FRACTION) - SHARE'(z);
      share_q <= z;
      new_q <= (A + SHARE)'(a) * (A + SHARE)'(rest_q);
      old_q <= (H + A)'(s) * (H + A)'(share_q);
    end

    assign y = new_state;
  end else begin : gen_lstm
    localparam int NEW_STATE = GATE + 2 + rf_pkg::CAST_CLOCKS;
    localparam int ACT = NEW_STATE + rf_pkg::LOOKUP_CLOCKS;
    localparam int CLOCKS = ACT + 1 + rf_pkg::CAST_CLOCKS;

    if (rf_pkg::LSTM_GATE != GATE || rf_pkg::LSTM_STATE != GATE + 1 || rf_pkg::LSTM_NEW_STATE != NEW_STATE ||
        rf_pkg::LSTM_ACT != ACT || rf_pkg::LSTM_CLOCKS != CLOCKS) begin : g_check_clocks
      $error("rf_cell %m: rf_pkg has other latencies");
    end

    wire signed [A-1:0] i = {ACC_SIGNED && gate[0][ACC_WIDTH-1], gate[0]};
    wire signed [A-1:0] f = {ACC_SIGNED && gate[1][ACC_WIDTH-1], gate[1]};
    wire signed [A-1:0] c = {ACC_SIGNED && gate[C][ACC_WIDTH-1], gate[C]};

    rf_lookup #(
        .X_WIDTH      (Y_WIDTH),
        .X_SIGNED     (Y_SIGNED),
        .SCALE        (ACT_PASS ? -1 : ACT_SIZE),
        .SCALE_SHIFT  (Y_FRACTION + ACT_SPAN),
        .OFFSET       (ACT_PASS ? 0 : ACT_SIZE / 2),
        .TABLE_SIZE   (ACT_SIZE),
        .TABLE_FILE   (ACT_FILE),
        .POSITIVE_PASS(ACT_PASS),
        .GAIN         (1),
        .RESULT_SHIFT (Y_FRACTION - ACC_FRACTION),
        .Y_WIDTH      (ACC_WIDTH),
        .Y_SIGNED     (ACC_SIGNED),
        .ROUNDING     (ACC_ROUNDING),
        .OVERFLOW     (ACC_OVERFLOW)
    ) u_act (
        .clk(clk),
        .x  (new_state),
        .y  (act)
    );

    // the output gate until act(s) is there, and their product
    localparam int O_DELAY = ACT - GATE;
    logic [O_DELAY*ACC_WIDTH-1:0] o_q;
    wire [ACC_WIDTH-1:0] late = o_q[O_DELAY*ACC_WIDTH-1-:ACC_WIDTH];
    wire signed [A-1:0] o = {ACC_SIGNED && late[ACC_WIDTH-1], late};
    logic signed [2*A-1:0] y_q;

    always_ff @(posedge clk) begin
      new_q <= (2 * A)'(c) * (2 * A)'(i);
      old_q <= (H + A)'(s) * (H + A)'(f);
      o_q <= (O_DELAY * ACC_WIDTH)'({o_q, gate[3]});
      y_q <= (2 * A)'(o) * (2 * A)'(a);
    end

    fixed_cast #(
        .IN_WIDTH (2 * A),
        .SIGNED_IN(1'b1),
        .SHIFT    (2 * ACC_FRACTION - Y_FRACTION),
        .WIDTH    (Y_WIDTH),
        .SIGNED   (Y_SIGNED),
        .ROUNDING (ROUNDING),
        .OVERFLOW (OVERFLOW)
    ) u_y (
        .clk   (clk),
        .enable(1'b1),
        .x     (y_q),
        .y     (y)
    );
  end

endmodule

`default_nettype wire
