// SPDX-License-Identifier: Apache-2.0
//
// axis_free_running with a latency of 2: each row taken gives its result once, in order and with its tlast, for any stall of the
// output; the FIFO has a place for every result (also asserted in the module); and while a place is free, a row is taken. The
// pipeline of the proof delays its input. The solver marks a row; `front_q` rows are before it. The .sby connects registers of the
// module, for the invariants of the induction.
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

  axis_free_running #(
      .WIDTH  (4),
      .LATENCY(2)
  ) u_axis_free_running (
      .clk,
      .rst_n,
      .s_axis_tvalid,
      .s_axis_tready,
      .s_axis_tlast,
      .pipeline_tdata(second_q),
      .m_axis_tvalid,
      .m_axis_tready,
      .m_axis_tdata,
      .m_axis_tlast
  );

  wire [4:0] result = {m_axis_tlast, m_axis_tdata};
  stream_rules #(.WIDTH(5)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(result));

  // Registers of u_axis_free_running, which the .sby connects
  (* keep *) wire [1:0] inner_valid;
  (* keep *) wire [1:0] inner_last;
  (* keep *) wire [3:0] inner_free;
  (* keep *) wire [3:0] inner_write;
  (* keep *) wire [3:0] inner_read;
  (* keep *) wire [4:0] inner_word_0;
  (* keep *) wire [4:0] inner_word_1;
  (* keep *) wire [4:0] inner_word_2;
  (* keep *) wire [4:0] inner_word_3;
  (* keep *) wire [4:0] inner_word_4;
  (* keep *) wire [4:0] inner_word_5;
  (* keep *) wire [4:0] inner_word_6;
  (* keep *) wire [4:0] inner_word_7;

  logic       started_q = 1'b0;
  logic [4:0] held_q;  // rows inside
  logic       marked_q;
  logic [4:0] front_q;
  logic [4:0] data_q;
  wire        take = s_axis_tvalid && s_axis_tready;
  wire        give = m_axis_tvalid && m_axis_tready;
  wire  [3:0] stored = inner_write - inner_read;
  wire  [4:0] ready = 5'(stored) + 5'(m_axis_tvalid);  // after the pipeline

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    held_q    <= held_q + 5'(take) - 5'(give);
    if (take && mark && !marked_q) begin
      marked_q <= 1'b1;
      front_q  <= held_q - 5'(give);
      data_q   <= {s_axis_tlast, s_axis_tdata};
    end else if (give && marked_q) begin
      front_q  <= front_q - 5'd1;
      marked_q <= front_q != '0;
    end
    if (!rst_n) begin
      held_q   <= '0;
      marked_q <= 1'b0;
    end
  end

  wire [2:0] slot = inner_read[2:0] + front_q[2:0] - 3'(m_axis_tvalid);
  wire [4:0] low = slot[1] ? (slot[0] ? inner_word_3 : inner_word_2) : (slot[0] ? inner_word_1 : inner_word_0);
  wire [4:0] high = slot[1] ? (slot[0] ? inner_word_7 : inner_word_6) : (slot[0] ? inner_word_5 : inner_word_4);

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      assert (stored <= 4'(DEPTH));
      assert (held_q == ready + 5'(inner_valid[0]) + 5'(inner_valid[1]));
      assert (5'(inner_free) + held_q == 5'(DEPTH));
      assert (s_axis_tready == (held_q != 5'(DEPTH)));
      if (marked_q) begin
        assert (front_q < held_q);
        if (m_axis_tvalid && front_q == '0) assert (result == data_q);
        else if (front_q < ready) assert ((slot[2] ? high : low) == data_q);
        else if (inner_valid[1] && front_q == ready) assert ({inner_last[1], second_q} == data_q);
        else assert ({inner_last[0], first_q} == data_q);
      end
    end
    cover (started_q && rst_n && held_q == 5'(DEPTH) && m_axis_tvalid && marked_q);
    cover (started_q && rst_n && give && marked_q && front_q == '0 && m_axis_tlast);
  end

endmodule

`default_nettype wire
