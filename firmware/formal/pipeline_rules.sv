// SPDX-License-Identifier: Apache-2.0
//
// A pipeline of LATENCY clocks, for proofs: it gives each row once, keeps each row's tlast, and stops and moves as a whole. The
// solver marks a row; it has passed `age_q` stages. The numbers are not part of this proof: the benches compare them with the
// reference, bit for bit.
`default_nettype none

module pipeline_rules #(
    parameter int LATENCY = 3,
    // bits of m_axis_tdata
    parameter int WIDTH = 8
) (
    input logic               clk,
    input logic               rst_n,
    input logic               mark,
    input logic               s_axis_tvalid,
    input logic               s_axis_tready,
    input logic               s_axis_tlast,
    input logic               m_axis_tvalid,
    input logic               m_axis_tready,
    input logic [WIDTH-1:0]   m_axis_tdata,
    input logic               m_axis_tlast,
    // valid and tlast of each stage
    input logic [LATENCY-1:0] inner_valid,
    input logic [LATENCY-1:0] inner_last
);

  wire [WIDTH:0] result = {m_axis_tlast, m_axis_tdata};
  stream_rules #(.WIDTH(WIDTH + 1)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(result));

  logic       started_q = 1'b0;
  logic [3:0] held_q;  // rows inside
  logic       marked_q;
  logic [3:0] age_q;
  logic       last_q;
  wire        take = s_axis_tvalid && s_axis_tready;
  wire        give = m_axis_tvalid && m_axis_tready;

  logic [3:0] occupied;
  always_comb begin
    occupied = '0;
    for (int i = 0; i < LATENCY; i++) occupied = occupied + 4'(inner_valid[i]);
  end

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    held_q    <= held_q + 4'(take) - 4'(give);
    if (take && mark && !marked_q) begin
      marked_q <= 1'b1;
      age_q    <= '0;
      last_q   <= s_axis_tlast;
    end else if (marked_q && (m_axis_tready || !m_axis_tvalid)) begin
      age_q    <= age_q + 1'b1;
      marked_q <= age_q != 4'(LATENCY - 1);
    end
    if (!rst_n) begin
      held_q   <= '0;
      marked_q <= 1'b0;
    end
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      assert (held_q == occupied);
      // no deadlock: it takes a row unless the output stalls
      assert (s_axis_tready == (m_axis_tready || !m_axis_tvalid));
      if (marked_q) begin
        assert (age_q < 4'(LATENCY));
        assert ((inner_valid >> age_q) % 2 == 1 && (inner_last >> age_q) % 2 == LATENCY'(last_q));
        if (age_q == 4'(LATENCY - 1)) assert (m_axis_tvalid && m_axis_tlast == last_q);
      end
    end
    cover (started_q && rst_n && held_q == 4'(LATENCY) && !m_axis_tready && take == 1'b0 && marked_q && age_q == 4'd1);
    cover (started_q && rst_n && give && take && m_axis_tlast && held_q == 4'(LATENCY));
  end

endmodule

`default_nettype wire
