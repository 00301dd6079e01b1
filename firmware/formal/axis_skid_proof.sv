// SPDX-License-Identifier: Apache-2.0
//
// axis_skid: every beat taken is given once, in order; valid and its payload stay until ready. The solver marks a beat when it is
// taken; the number of beats before it determines when it must be given.
`default_nettype none

module axis_skid_proof (
    input logic       clk,
    input logic       rst_n,
    input logic       s_axis_tvalid,
    input logic [3:0] s_axis_tdata,
    input logic       m_axis_tready,
    input logic       mark
);

  logic       s_axis_tready;
  logic       m_axis_tvalid;
  logic [3:0] m_axis_tdata;

  axis_skid #(.WIDTH(4)) u_axis_skid (.*);

  stream_rules #(.WIDTH(4), .ASSUME(1'b1)) u_in (.clk, .rst_n, .tvalid(s_axis_tvalid), .tready(s_axis_tready), .tdata(s_axis_tdata));
  stream_rules #(.WIDTH(4)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(m_axis_tdata));

  localparam int CAPACITY = 2;

  (* inner = "u_axis_skid.skid_data_q" *) wire [3:0] inner_skid_data;

  logic       started_q = 1'b0;
  logic [1:0] held_q;  // beats inside
  logic       marked_q;  // the marked beat is inside
  logic [1:0] front_q;  // beats before it
  logic [3:0] data_q;

  wire give = m_axis_tvalid && m_axis_tready;
  wire take = s_axis_tvalid && s_axis_tready;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    held_q    <= held_q + 2'(take) - 2'(give);
    if (take && mark && !marked_q) begin
      marked_q <= 1'b1;
      front_q  <= held_q - 2'(give);
      data_q   <= s_axis_tdata;
    end else if (give && marked_q) begin
      front_q  <= front_q - 2'd1;
      marked_q <= front_q != 2'd0;
    end
    if (!rst_n) begin
      held_q   <= '0;
      marked_q <= 1'b0;
    end
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      assert (held_q <= 2'(CAPACITY));
      assert (m_axis_tvalid == (held_q != '0));
      assert (s_axis_tready == (held_q != 2'(CAPACITY)));
      if (marked_q) assert (front_q < held_q);
      if (marked_q && front_q == '0) assert (m_axis_tdata == data_q);
      if (marked_q && front_q == 2'd1) assert (inner_skid_data == data_q);
    end
    cover (started_q && rst_n && held_q == 2'd2 && give);
  end

endmodule

`default_nettype wire
