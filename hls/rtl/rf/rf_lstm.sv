// SPDX-License-Identifier: Apache-2.0
//
// One unit of an LSTM: its new states, as hls4ml computes them, from the four gates (i, f, c, o) of the input and of the state before.
// A pipeline without handshakes, used by rf_recurrent; rf_pkg has its latencies:
//
//   g = acc_t(gates_x + gates_h)        for each gate
//   i, f, o = gate(g); c = act(g)       after clock LSTM_GATE
//   s = y_t(c * i + state * f)          after clock LSTM_NEW_STATE; state is given at clock LSTM_STATE, s is new_state
//   y = y_t(o * acc_t(act(s)))          after clock LSTM_CLOCKS
//
// gate and act are tables (rf_lookup) with entries of the type acc_t, or ReLU.
`default_nettype none

module rf_lstm #(
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
    input  logic                   clk,
    input  logic [4*ACC_WIDTH-1:0] gates_x,
    input  logic [4*ACC_WIDTH-1:0] gates_h,
    input  logic [    Y_WIDTH-1:0] state,
    output logic [    Y_WIDTH-1:0] new_state,
    output logic [    Y_WIDTH-1:0] y
);

  if (ACC_FRACTION < 0) begin : g_check_fraction
    $error("rf_lstm %m: ACC_FRACTION is %0d, expected 0 or more", ACC_FRACTION);
  end

  // one clock for a sum or a product
  localparam int GATE = 1 + rf_pkg::CAST_CLOCKS + rf_pkg::LOOKUP_CLOCKS;
  localparam int NEW_STATE = GATE + 2 + rf_pkg::CAST_CLOCKS;
  localparam int ACT = NEW_STATE + rf_pkg::LOOKUP_CLOCKS;
  localparam int CLOCKS = ACT + 1 + rf_pkg::CAST_CLOCKS;

  if (rf_pkg::LSTM_GATE != GATE || rf_pkg::LSTM_STATE != GATE + 1 || rf_pkg::LSTM_NEW_STATE != NEW_STATE ||
      rf_pkg::LSTM_ACT != ACT || rf_pkg::LSTM_CLOCKS != CLOCKS) begin : g_check_clocks
    $error("rf_lstm %m: rf_pkg has other latencies");
  end

  // a gate, a state and their products, with a sign bit
  localparam int A = ACC_WIDTH + 1;
  localparam int H = Y_WIDTH + 1;
  localparam int SUM = A + 1;
  localparam int FINER = ACC_FRACTION > Y_FRACTION ? ACC_FRACTION : Y_FRACTION;
  localparam int NEW = 2 * A + FINER - ACC_FRACTION;
  localparam int OLD = H + A + FINER - Y_FRACTION;
  localparam int V = (NEW > OLD ? NEW : OLD) + 1;
  localparam int C = 2;  // the gate with the activation

  logic [ACC_WIDTH-1:0] gate[4];

  for (genvar g = 0; g < 4; g++) begin : g_gate
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

  // the products, and a clock later their sum
  wire signed [A-1:0] i = {ACC_SIGNED && gate[0][ACC_WIDTH-1], gate[0]};
  wire signed [A-1:0] f = {ACC_SIGNED && gate[1][ACC_WIDTH-1], gate[1]};
  wire signed [A-1:0] c = {ACC_SIGNED && gate[C][ACC_WIDTH-1], gate[C]};
  wire signed [H-1:0] s = {Y_SIGNED && state[Y_WIDTH-1], state};
  logic signed [2*A-1:0] new_q;
  logic signed [H+A-1:0] old_q;
  logic signed [V-1:0] v_q;

  always_ff @(posedge clk) begin
    new_q <= (2 * A)'(c) * (2 * A)'(i);
    old_q <= (H + A)'(s) * (H + A)'(f);
    v_q <= (V'(new_q) << (FINER - ACC_FRACTION)) + (V'(old_q) << (FINER - Y_FRACTION));
  end

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
  wire signed [A-1:0] a = {ACC_SIGNED && act[ACC_WIDTH-1], act};
  logic signed [2*A-1:0] y_q;

  always_ff @(posedge clk) begin
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

endmodule

`default_nettype wire
