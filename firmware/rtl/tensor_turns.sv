// SPDX-License-Identifier: Apache-2.0
//
// Counts the beats of rows that have several tensors, and gives the tensor of the current beat: a number of beats of tensor 0,
// then of tensor 1, and so on, over and over.
//
//   2 and 3 beats   step  1 1 1 0 1 1 1        turn  0 0 1 1 1 1 0        ends  0 1 0 0 0 1 0
`default_nettype none

module tensor_turns #(
    parameter int N = 2,  // tensors
    // beats in a row, 32 bits for each tensor, tensor 0 in the low bits
    parameter logic [32*N-1:0] BEATS = {N{32'd1}}
) (
    input  logic         clk,
    input  logic         rst_n,
    // a beat is transferred
    input  logic         step,
    // turn[i]: the current beat is of tensor i; ends: it is the last of that tensor
    output logic [N-1:0] turn,
    output logic         ends
);

  function automatic logic [31:0] any_bits(input logic [32*N-1:0] numbers);
    any_bits = '0;
    for (int i = 0; i < N; i++) any_bits = any_bits | numbers[32*i+:32];
  endfunction

  if (N < 1) begin : g_check_n
    $error("tensor_turns %m: N is %0d, expected at least 1", N);
  end
  for (genvar i = 0; i < N; i++) begin : gen_check
    if (BEATS[32*i+:32] == '0) begin : g_check_beats
      $error("tensor_turns %m: tensor %0d has no BEATS, expected at least 1", i);
    end
  end

  localparam logic [31:0] ANY = any_bits(BEATS);
  localparam int COUNT_BITS = ANY > 32'd1 ? $clog2(ANY) + 1 : 1;

  logic [         N-1:0] turn_q;
  logic [COUNT_BITS-1:0] left_q;  // beats of the tensor after the current one
  logic                  ends_q;

  // of the next tensor
  logic [         N-1:0] next_turn;
  logic [COUNT_BITS-1:0] next_left [N];
  logic [         N-1:0] next_ends;
  logic [COUNT_BITS-1:0] left;

  if (N > 1) begin : gen_next
    assign next_turn = {turn_q[N-2:0], turn_q[N-1]};
  end else begin : gen_same
    assign next_turn = turn_q;
  end
  for (genvar i = 0; i < N; i++) begin : gen_tensor
    assign next_left[i] = next_turn[i] ? COUNT_BITS'(BEATS[32*i+:32] - 32'd1) : '0;
    assign next_ends[i] = next_turn[i] && BEATS[32*i+:32] == 32'd1;
  end

  always_comb begin
    left = '0;
    for (int i = 0; i < N; i++) left = left | next_left[i];
  end

  always_ff @(posedge clk) begin
    if (step) begin
      if (ends_q) turn_q <= next_turn;
      left_q <= ends_q ? left : left_q - 1'b1;
      ends_q <= ends_q ? next_ends != '0 : left_q == COUNT_BITS'(1);
    end
    if (!rst_n) begin
      turn_q <= N'(1);
      left_q <= COUNT_BITS'(BEATS[31:0] - 32'd1);
      ends_q <= BEATS[31:0] == 32'd1;
    end
  end

  assign turn = turn_q;
  assign ends = ends_q;

endmodule

`default_nettype wire
