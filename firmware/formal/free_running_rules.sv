// SPDX-License-Identifier: Apache-2.0
//
// An axis_free_running, for proofs: each row taken gives its result once and in order, for any stall of the output; the FIFO has
// a place for every result (also asserted in the module); and while a place is free, a row is taken. WIDTH bits of a row are
// followed, those that the pipeline does not change: `item` when it is taken, `stages` in the pipeline, the top bits of a FIFO's
// word, `result` when it is given. fifo_rules.sv follows a marked row through the pipeline and the FIFO.
`default_nettype none

module free_running_rules #(
    parameter int LATENCY = 3,
    // bits followed, and bits of a word of the FIFO
    parameter int WIDTH = 1,
    parameter int WORD_WIDTH = 9,
    // of the FIFO
    parameter int DEPTH = 8
) (
    input logic                        clk,
    input logic                        rst_n,
    input logic                        mark,
    input logic                        s_axis_tvalid,
    input logic                        s_axis_tready,
    input logic                        m_axis_tvalid,
    input logic                        m_axis_tready,
    input logic [WIDTH-1:0]            item,
    input logic [WIDTH-1:0]            result,
    // of each stage of the pipeline, the youngest in the low bits
    input logic [LATENCY-1:0]          inner_valid,
    input logic [LATENCY*WIDTH-1:0]    stages,
    // the free places, whether one more is to be counted, and the FIFO's pointers and memory, word 0 in the low bits
    input logic [$clog2(DEPTH):0]      inner_free,
    input logic                        inner_gave,
    input logic [$clog2(DEPTH):0]      inner_write,
    input logic [$clog2(DEPTH):0]      inner_read,
    input logic [DEPTH*WORD_WIDTH-1:0] inner_words
);

  localparam int BITS = $clog2(DEPTH);

  logic       started_q = 1'b0;
  logic [4:0] held_q;  // rows inside
  logic       gave_q;  // a result was given, and its place is not counted yet
  wire        marked_q;
  wire [4:0]  front_q;
  wire [BITS:0] stored;
  wire        take = s_axis_tvalid && s_axis_tready;
  wire        give = m_axis_tvalid && m_axis_tready;
  wire [4:0]  ready = 5'(stored) + 5'(m_axis_tvalid);  // after the pipeline

  // a marked row that is still in the pipeline: the rows from `ready` on, the oldest in the last stage
  logic [4:0]       counted;
  logic [WIDTH-1:0] upstream;
  always_comb begin
    counted = ready;
    upstream = '0;
    for (int i = LATENCY - 1; i >= 0; i--) begin
      if (inner_valid[i] && counted == front_q) upstream = stages[i*WIDTH+:WIDTH];
      counted = counted + 5'(inner_valid[i]);
    end
  end

  logic [DEPTH*WIDTH-1:0] words;
  always_comb for (int k = 0; k < DEPTH; k++) words[k*WIDTH+:WIDTH] = inner_words[(k+1)*WORD_WIDTH-1-:WIDTH];

  fifo_rules #(.WIDTH(WIDTH), .DEPTH(DEPTH)) u_fifo (
      .clk, .rst_n, .mark(take && mark), .item, .held(held_q), .upstream,
      .valid(m_axis_tvalid), .ready(m_axis_tready), .data(result),
      .write(inner_write), .read(inner_read), .words, .marked_q, .front_q, .stored
  );

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    held_q    <= rst_n ? held_q + 5'(take) - 5'(give) : '0;
    gave_q    <= rst_n && give;
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      assert (held_q == counted && inner_gave == gave_q);
      assert (6'(inner_free) + 6'(held_q) + 6'(gave_q) == 6'(DEPTH));
      assert (s_axis_tready == (inner_free != '0));
    end
    cover (started_q && rst_n && held_q == 5'(DEPTH) && m_axis_tvalid && marked_q);
    cover (started_q && rst_n && give && marked_q && front_q == '0 && result[WIDTH-1]);
  end

endmodule

`default_nettype wire
