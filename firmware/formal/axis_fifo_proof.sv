// SPDX-License-Identifier: Apache-2.0
//
// axis_fifo with a depth of 4: every beat taken is given once, in order; valid and its payload stay until ready; the FIFO holds
// DEPTH beats and one more. The solver marks a beat when it is taken; the number of beats before it determines when it must be
// given. The .sby connects registers and memory words of the FIFO, for the invariants of the induction.
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

  (* keep *) wire [2:0] inner_write;
  (* keep *) wire [2:0] inner_read;
  (* keep *) wire [3:0] inner_word_0;
  (* keep *) wire [3:0] inner_word_1;
  (* keep *) wire [3:0] inner_word_2;
  (* keep *) wire [3:0] inner_word_3;

  logic       s_axis_tready;
  logic       m_axis_tvalid;
  logic [3:0] m_axis_tdata;

  axis_fifo #(
      .WIDTH(4),
      .DEPTH(DEPTH)
  ) u_axis_fifo (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(s_axis_tready),
      .s_axis_tdata (s_axis_tdata),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata (m_axis_tdata)
  );

  stream_rules #(.WIDTH(4), .ASSUME(1'b1)) u_in (.clk, .rst_n, .tvalid(s_axis_tvalid), .tready(s_axis_tready), .tdata(s_axis_tdata));
  stream_rules #(.WIDTH(4)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(m_axis_tdata));

  logic       started_q = 1'b0;
  logic [3:0] held_q;  // beats inside
  logic       marked_q;  // the marked beat is inside
  logic [3:0] front_q;  // beats before it
  logic [3:0] data_q;

  wire give = m_axis_tvalid && m_axis_tready;
  wire take = s_axis_tvalid && s_axis_tready;
  // the address of the marked beat, unless it is in the output register
  wire [2:0] stored = inner_write - inner_read;
  wire [1:0] slot = inner_read[1:0] + front_q[1:0] - 2'(m_axis_tvalid);
  wire [3:0] word = slot[1] ? (slot[0] ? inner_word_3 : inner_word_2) : (slot[0] ? inner_word_1 : inner_word_0);

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    held_q    <= held_q + 4'(take) - 4'(give);
    if (take && mark && !marked_q) begin
      marked_q <= 1'b1;
      front_q  <= held_q - 4'(give);
      data_q   <= s_axis_tdata;
    end else if (give && marked_q) begin
      front_q  <= front_q - 4'd1;
      marked_q <= front_q != '0;
    end
    if (!rst_n) begin
      held_q   <= '0;
      marked_q <= 1'b0;
    end
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      assert (stored <= 3'(DEPTH));
      assert (held_q == 4'(stored) + 4'(m_axis_tvalid));
      assert (s_axis_tready == (stored != 3'(DEPTH)));
      if (marked_q) assert (front_q < held_q);
      if (marked_q && m_axis_tvalid && front_q == '0) assert (m_axis_tdata == data_q);
      if (marked_q && !(m_axis_tvalid && front_q == '0)) assert (word == data_q);
    end
    cover (started_q && rst_n && held_q == 4'(DEPTH + 1) && give);
  end

endmodule

`default_nettype wire
