// SPDX-License-Identifier: Apache-2.0
//
// axis_free_running with a latency of 2: each row taken gives its result once, in order and with its tlast, for any stall of the
// output; the FIFO has a place for every result (also asserted in the module); and while a place is free, a row is taken. The
// pipeline of the proof delays its input. fifo_rules.sv follows a row through the pipeline and the FIFO.
`default_nettype none

module axis_free_running_proof (
    input logic       clk,
    input logic       rst_n,
    input logic       s_axis_tvalid,
    input logic [3:0] s_axis_tdata,
    input logic       s_axis_tlast,
    input logic       m_axis_tready,
    input logic       mark
);

  localparam int DEPTH = 8;

  logic       s_axis_tready;
  logic       m_axis_tvalid;
  logic [3:0] m_axis_tdata;
  logic       m_axis_tlast;

  // the pipeline
  logic [3:0] first_q;
  logic [3:0] second_q;
  always_ff @(posedge clk) begin
    first_q  <= s_axis_tdata;
    second_q <= first_q;
  end

  axis_free_running #(.WIDTH(4), .LATENCY(2)) u_axis_free_running (.pipeline_tdata(second_q), .*);

  wire [4:0] result = {m_axis_tlast, m_axis_tdata};
  stream_rules #(.WIDTH(5)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(result));

  (* inner = "u_axis_free_running.valid_q" *) wire [1:0] inner_valid;
  (* inner = "u_axis_free_running.last_q" *) wire [1:0] inner_last;
  (* inner = "u_axis_free_running.free_q" *) wire [3:0] inner_free;
  (* inner = "u_axis_free_running.u_axis_fifo.write_pointer_q" *) wire [3:0] inner_write;
  (* inner = "u_axis_free_running.u_axis_fifo.read_pointer_q" *) wire [3:0] inner_read;
  (* inner = "u_axis_free_running.u_axis_fifo.memory[7:0]" *) wire [39:0] inner_words;

  logic       started_q = 1'b0;
  logic [4:0] held_q;  // rows inside
  wire        marked_q;
  wire  [4:0] front_q;
  wire  [3:0] stored;
  wire        take = s_axis_tvalid && s_axis_tready;
  wire        give = m_axis_tvalid && m_axis_tready;
  wire  [4:0] ready = 5'(stored) + 5'(m_axis_tvalid);  // after the pipeline
  wire        is_second = inner_valid[1] && front_q == ready;
  wire  [4:0] upstream = is_second ? {inner_last[1], second_q} : {inner_last[0], first_q};

  fifo_rules #(.WIDTH(5), .DEPTH(DEPTH)) u_rules (
      .clk, .rst_n, .mark(take && mark), .item({s_axis_tlast, s_axis_tdata}), .held(held_q), .upstream,
      .valid(m_axis_tvalid), .ready(m_axis_tready), .data(result),
      .write(inner_write), .read(inner_read), .words(inner_words), .marked_q, .front_q, .stored
  );

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    held_q    <= rst_n ? held_q + 5'(take) - 5'(give) : '0;
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      assert (held_q == ready + 5'(inner_valid[0]) + 5'(inner_valid[1]));
      assert (5'(inner_free) + held_q == 5'(DEPTH));
      assert (s_axis_tready == (held_q != 5'(DEPTH)));
    end
    cover (started_q && rst_n && held_q == 5'(DEPTH) && m_axis_tvalid && marked_q);
    cover (started_q && rst_n && give && marked_q && front_q == '0 && m_axis_tlast);
  end

endmodule

`default_nettype wire
