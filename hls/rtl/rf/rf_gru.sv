// SPDX-License-Identifier: Apache-2.0
//
// One unit of a GRU with reset_after: its new state, as hls4ml computes it, from the three gates (z, r, h) of the input and of the
// state before. A pipeline of 27 clocks without handshakes, used by rf_recurrent:
//
//   z, r = gate(acc_t(gates_x + gates_h))          clocks  1 to 10
//   h = act(acc_t(h_x + acc_t(r * h_h)))           clocks 11 to 23
//   y = y_t(h * (1 - z) + state * z)               clocks 24 to 27; state is given at clock 24
//
// gate and act are tables (rf_lookup) with entries of the type acc_t, or ReLU.
`default_nettype none

module rf_gru #(
    parameter int ACC_WIDTH = 16,  // bits of a gate
    parameter bit ACC_SIGNED = 1'b1,  // it is two's complement
    parameter int ACC_FRACTION = 8,  // its fraction bits, 0 or more
    parameter int ACC_ROUNDING = 0,  // see rf_cast
    parameter int ACC_OVERFLOW = 0,
    parameter int Y_WIDTH = 16,  // bits of a state
    parameter bit Y_SIGNED = 1'b1,
    parameter int Y_FRACTION = 8,
    parameter int ROUNDING = 0,
    parameter int OVERFLOW = 0,
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
    input  logic [3*ACC_WIDTH-1:0] gates_x,
    input  logic [3*ACC_WIDTH-1:0] gates_h,
    input  logic [    Y_WIDTH-1:0] state,
    output logic [    Y_WIDTH-1:0] y
);

  if (ACC_FRACTION < 0) begin : g_check_fraction
    $error("rf_gru %m: ACC_FRACTION is %0d, expected 0 or more", ACC_FRACTION);
  end

  // a gate, a state and their products, with a sign bit
  localparam int A = ACC_WIDTH + 1;
  localparam int H = Y_WIDTH + 1;
  localparam int SUM = A + 1;
  localparam int FINER = ACC_FRACTION > Y_FRACTION ? ACC_FRACTION : Y_FRACTION;
  localparam int ONE = (ACC_WIDTH > ACC_FRACTION + 1 ? ACC_WIDTH : ACC_FRACTION + 1) + 2;
  localparam int NEW = A + ONE + FINER - ACC_FRACTION;
  localparam int OLD = H + A + FINER - Y_FRACTION;
  localparam int V = (NEW > OLD ? NEW : OLD) + 1;

  logic [ACC_WIDTH-1:0] gate[2];

  for (genvar g = 0; g < 2; g++) begin : g_gate
    wire [ACC_WIDTH-1:0] of_x = gates_x[g*ACC_WIDTH+:ACC_WIDTH];
    wire [ACC_WIDTH-1:0] of_h = gates_h[g*ACC_WIDTH+:ACC_WIDTH];
    logic signed [SUM-1:0] sum_q;
    logic [ACC_WIDTH-1:0] sum;

    always_ff @(posedge clk) begin  // 1
      sum_q <= SUM'($signed({ACC_SIGNED && of_x[ACC_WIDTH-1], of_x})) + SUM'($signed({ACC_SIGNED && of_h[ACC_WIDTH-1], of_h}));
    end

    rf_cast #(
        .IN_WIDTH (SUM),
        .SIGNED_IN(1'b1),
        .SHIFT    (0),
        .WIDTH    (ACC_WIDTH),
        .SIGNED   (ACC_SIGNED),
        .ROUNDING (ACC_ROUNDING),
        .OVERFLOW (ACC_OVERFLOW)
    ) u_sum (
        .clk(clk),
        .x  (sum_q),
        .y  (sum)
    );

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

  // the candidate's sums until clock 10 and 13
  logic [10*ACC_WIDTH-1:0] h_q;
  logic [13*ACC_WIDTH-1:0] x_q;
  wire [ACC_WIDTH-1:0] of_h = h_q[9*ACC_WIDTH+:ACC_WIDTH];
  wire [ACC_WIDTH-1:0] of_x = x_q[12*ACC_WIDTH+:ACC_WIDTH];
  wire signed [A-1:0] r = {ACC_SIGNED && gate[1][ACC_WIDTH-1], gate[1]};
  logic signed [2*A-1:0] reset_q;
  logic [ACC_WIDTH-1:0] kept, sum, act;
  logic signed [SUM-1:0] sum_q;

  always_ff @(posedge clk) begin
    h_q <= (10 * ACC_WIDTH)'({h_q, gates_h[2*ACC_WIDTH+:ACC_WIDTH]});
    x_q <= (13 * ACC_WIDTH)'({x_q, gates_x[2*ACC_WIDTH+:ACC_WIDTH]});
    reset_q <= (2 * A)'(r) * (2 * A)'($signed({ACC_SIGNED && of_h[ACC_WIDTH-1], of_h}));  // 11
    sum_q <= SUM'($signed({ACC_SIGNED && of_x[ACC_WIDTH-1], of_x})) + SUM'($signed({ACC_SIGNED && kept[ACC_WIDTH-1], kept}));  // 14
  end

  rf_cast #(
      .IN_WIDTH (2 * A),
      .SIGNED_IN(1'b1),
      .SHIFT    (ACC_FRACTION),
      .WIDTH    (ACC_WIDTH),
      .SIGNED   (ACC_SIGNED),
      .ROUNDING (ACC_ROUNDING),
      .OVERFLOW (ACC_OVERFLOW)
  ) u_kept (
      .clk(clk),
      .x  (reset_q),
      .y  (kept)
  );
  rf_cast #(
      .IN_WIDTH (SUM),
      .SIGNED_IN(1'b1),
      .SHIFT    (0),
      .WIDTH    (ACC_WIDTH),
      .SIGNED   (ACC_SIGNED),
      .ROUNDING (ACC_ROUNDING),
      .OVERFLOW (ACC_OVERFLOW)
  ) u_sum (
      .clk(clk),
      .x  (sum_q),
      .y  (sum)
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

  // z until clock 22; 1 - z at 23
  logic [12*ACC_WIDTH-1:0] z_q;
  wire [ACC_WIDTH-1:0] late = z_q[11*ACC_WIDTH+:ACC_WIDTH];
  wire signed [A-1:0] z = {ACC_SIGNED && late[ACC_WIDTH-1], late};
  wire signed [A-1:0] h = {ACC_SIGNED && act[ACC_WIDTH-1], act};
  wire signed [H-1:0] s = {Y_SIGNED && state[Y_WIDTH-1], state};
  logic signed [ONE-1:0] rest_q;
  logic signed [A-1:0] share_q;
  logic signed [A+ONE-1:0] new_q;
  logic signed [H+A-1:0] old_q;
  logic signed [V-1:0] v_q;

  always_ff @(posedge clk) begin
    z_q <= (12 * ACC_WIDTH)'({z_q, gate[0]});
    rest_q <= (ONE'(1) << ACC_FRACTION) - ONE'(z);  // 23
    share_q <= z;
    new_q <= (A + ONE)'(h) * (A + ONE)'(rest_q);  // 24
    old_q <= (H + A)'(s) * (H + A)'(share_q);
    v_q <= (V'(new_q) << (FINER - ACC_FRACTION)) + (V'(old_q) << (FINER - Y_FRACTION));  // 25
  end

  rf_cast #(
      .IN_WIDTH (V),
      .SIGNED_IN(1'b1),
      .SHIFT    (ACC_FRACTION + FINER - Y_FRACTION),
      .WIDTH    (Y_WIDTH),
      .SIGNED   (Y_SIGNED),
      .ROUNDING (ROUNDING),
      .OVERFLOW (OVERFLOW)
  ) u_y (
      .clk(clk),
      .x  (v_q),
      .y  (y)
  );

endmodule

`default_nettype wire
