// SPDX-License-Identifier: Apache-2.0
//
// axis_fifo with a depth of 4: every beat taken is given once, in order (fifo_rules.sv); valid and its payload stay until ready;
// the FIFO holds DEPTH beats and one more.
`default_nettype none

module axis_fifo_proof (
    input logic       clk,
    input logic       rst_n,
    input logic       s_axis_tvalid,
    input logic [3:0] s_axis_tdata,
    input logic       m_axis_tready,
    input logic       mark
);

  localparam int DEPTH = 4;

  (* inner = "u_axis_fifo.write_pointer_q" *) wire [2:0] inner_write;
  (* inner = "u_axis_fifo.read_pointer_q" *) wire [2:0] inner_read;
  (* inner = "u_axis_fifo.memory[3:0]" *) wire [15:0] inner_words;

  logic       s_axis_tready;
  logic       m_axis_tvalid;
  logic [3:0] m_axis_tdata;

  axis_fifo #(.WIDTH(4), .DEPTH(DEPTH)) u_axis_fifo (.*);

  stream_rules #(.WIDTH(4), .ASSUME(1'b1)) u_in (.clk, .rst_n, .tvalid(s_axis_tvalid), .tready(s_axis_tready), .tdata(s_axis_tdata));
  stream_rules #(.WIDTH(4)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(m_axis_tdata));

  logic       started_q = 1'b0;
  logic [4:0] held_q;  // beats inside
  wire  [2:0] stored;
  wire        give = m_axis_tvalid && m_axis_tready;
  wire        take = s_axis_tvalid && s_axis_tready;

  fifo_rules #(.WIDTH(4), .DEPTH(DEPTH)) u_rules (
      .clk, .rst_n, .mark(take && mark), .item(s_axis_tdata), .held(held_q), .upstream('0),
      .valid(m_axis_tvalid), .ready(m_axis_tready), .data(m_axis_tdata),
      .write(inner_write), .read(inner_read), .words(inner_words), .stored
  );

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    held_q    <= rst_n ? held_q + 5'(take) - 5'(give) : '0;
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      assert (held_q == 5'(stored) + 5'(m_axis_tvalid));
      assert (s_axis_tready == (stored != 3'(DEPTH)));
    end
    cover (started_q && rst_n && held_q == 5'(DEPTH + 1) && give);
  end

endmodule

`default_nettype wire
