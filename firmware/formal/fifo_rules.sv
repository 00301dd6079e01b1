// SPDX-License-Identifier: Apache-2.0
//
// An axis_fifo of DEPTH words, for proofs: every item that enters is given once, in order and unchanged. The solver marks an item
// when it enters; `front_q` items are before it. Items may pass stages before the FIFO: `upstream` is then what a marked item that
// has not reached it yet must be, `held` the number of items in the stages, the FIFO and its output register together.
`default_nettype none

module fifo_rules #(
    parameter int WIDTH = 4,
    // a power of two
    parameter int DEPTH = 4
) (
    input  logic                   clk,
    input  logic                   rst_n,
    // an item enters and is marked; the item
    input  logic                   mark,
    input  logic [      WIDTH-1:0] item,
    input  logic [            4:0] held,
    input  logic [      WIDTH-1:0] upstream,
    // the FIFO's output
    input  logic                   valid,
    input  logic                   ready,
    input  logic [      WIDTH-1:0] data,
    // its pointers and its memory, word 0 in the low bits
    input  logic [$clog2(DEPTH):0] write,
    input  logic [$clog2(DEPTH):0] read,
    input  logic [DEPTH*WIDTH-1:0] words,
    output logic                   marked_q,
    output logic [            4:0] front_q,
    output logic [      WIDTH-1:0] item_q,
    // words in the memory
    output logic [$clog2(DEPTH):0] stored
);

  localparam int BITS = $clog2(DEPTH);

  logic started_q = 1'b0;
  wire  give = valid && ready;
  wire [BITS-1:0] slot = read[BITS-1:0] + BITS'(front_q) - BITS'(valid);
  wire [WIDTH-1:0] word = words[32'(slot)*WIDTH+:WIDTH];

  assign stored = write - read;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (mark && !marked_q) begin
      marked_q <= 1'b1;
      front_q  <= held - 5'(give);
      item_q   <= item;
    end else if (give && marked_q) begin
      front_q  <= front_q - 1'b1;
      marked_q <= front_q != '0;
    end
    if (!rst_n) marked_q <= 1'b0;
  end

  always_comb begin
    if (started_q && rst_n) begin
      assert (stored <= (BITS + 1)'(DEPTH));
      if (marked_q) begin
        assert (front_q < held);
        if (valid && front_q == '0) assert (data == item_q);
        else if (front_q < 5'(stored) + 5'(valid)) assert (word == item_q);
        else assert (upstream == item_q);
      end
    end
  end

endmodule

`default_nettype wire
