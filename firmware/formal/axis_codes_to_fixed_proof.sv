// SPDX-License-Identifier: Apache-2.0
//
// axis_codes_to_fixed, 2 codes of 2 bits and a selection: the pipeline of 3 clocks gives each row once, keeps each row's
// tlast, and stops and moves as a whole. The solver marks a row; it has passed `age_q` stages. The numbers are not part of this
// proof: the bench compares them with the reference, bit for bit.
// The .sby connects registers of the module, for the invariants of the induction.
`default_nettype none

module axis_codes_to_fixed_proof (
    input logic        clk,
    input logic        rst_n,
    input logic        s_axis_tvalid,
    input logic [ 4:0] s_axis_tdata,
    input logic        s_axis_tlast,
    input logic        m_axis_tready,
    input logic        mark
);

  localparam int LATENCY = 3;
  localparam logic [31:0] TABLE = 32'h5e3f_0c71;

  logic        s_axis_tready;
  logic        m_axis_tvalid;
  logic [ 7:0] m_axis_tdata;
  logic        m_axis_tlast;

  axis_codes_to_fixed #(
      .N            (2),
      .CODE_WIDTH   (2),
      .ADDRESS_WIDTH(2),
      .SELECT_WIDTH (1),
      .ENTRY_WIDTH  (4),
      .TABLE        (TABLE)
  ) u_axis_codes_to_fixed (
      .clk,
      .rst_n,
      .s_axis_tvalid,
      .s_axis_tready,
      .s_axis_tdata,
      .s_axis_tlast,
      .m_axis_tvalid,
      .m_axis_tready,
      .m_axis_tdata,
      .m_axis_tlast
  );

  wire [8:0] result = {m_axis_tlast, m_axis_tdata};
  stream_rules #(.WIDTH(9)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(result));

  // Registers of u_axis_codes_to_fixed, which the .sby connects
  (* keep *) wire [LATENCY-1:0] inner_valid;
  (* keep *) wire [LATENCY-1:0] inner_last;

  logic       started_q = 1'b0;
  logic [3:0] held_q;  // rows inside
  logic       marked_q;
  logic [3:0] age_q;
  logic       last_q;
  wire        take = s_axis_tvalid && s_axis_tready;
  wire        give = m_axis_tvalid && m_axis_tready;

  logic [3:0] inside;
  always_comb begin
    inside = '0;
    for (int i = 0; i < LATENCY; i++) inside = inside + 4'(inner_valid[i]);
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
      assert (held_q == inside);
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
