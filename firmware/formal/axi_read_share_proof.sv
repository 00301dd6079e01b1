// SPDX-License-Identifier: Apache-2.0
//
// axi_read_share: if each master obeys the rules of AXI, the port to memory does too, with at most DEPTH + 1 bursts in flight. The
// port to each master obeys the rules of a memory: it gives beats only for the master's own bursts, from the address requested,
// with RLAST on the last. Masters take turns: while one waits, no other is served twice. And memory never waits while the masters
// take the beats they have requested.
//
// The masters may do all that the rules allow and take beats at any time; memory answers in any way that the rules allow. Two
// masters have two bursts in flight each, of up to two beats of two bytes; DEPTH is 2.
`default_nettype none

module axi_read_share_proof (
    input logic        clk,
    input logic        rst_n,
    input logic [13:0] ar0_addr,
    input logic [13:0] ar1_addr,
    input logic [ 7:0] ar0_len,
    input logic [ 7:0] ar1_len,
    input logic [ 1:0] s_axi_arvalid,
    input logic [ 1:0] s_axi_rready,
    input logic        m_axi_arready,
    input logic [15:0] m_axi_rdata,
    input logic [ 1:0] m_axi_rresp,
    input logic        m_axi_rlast,
    input logic        m_axi_rvalid
);

  logic [ 1:0] s_axi_arready;
  logic [15:0] s_axi_rdata;
  logic [ 1:0] s_axi_rresp;
  logic        s_axi_rlast;
  logic [ 1:0] s_axi_rvalid;
  logic [13:0] m_axi_araddr;
  logic [ 7:0] m_axi_arlen;
  logic        m_axi_arvalid;
  logic        m_axi_rready;

  axi_read_share #(
      .N         (2),
      .ADDR_WIDTH(14),
      .DATA_WIDTH(16),
      .DEPTH     (2)
  ) u_axi_read_share (
      .*,
      .s_axi_araddr({ar1_addr, ar0_addr}),
      .s_axi_arlen ({ar1_len, ar0_len})
  );

  wire [13:0] memory_address;
  wire [ 3:0] memory_bursts;
  wire [ 9:0] memory_owed;
  axi_read_rules #(
      .ADDR_WIDTH     (14),
      .DATA_WIDTH     (16),
      .MAX_BURST_BEATS(2),
      .OUTSTANDING    (3)
  ) u_memory (
      .clk,
      .rst_n,
      .araddr      (m_axi_araddr),
      .arlen       (m_axi_arlen),
      .arsize      (3'd1),
      .arburst     (2'b01),
      .arvalid     (m_axi_arvalid),
      .arready     (m_axi_arready),
      .rdata       (m_axi_rdata),
      .rresp       (m_axi_rresp),
      .rlast       (m_axi_rlast),
      .rvalid      (m_axi_rvalid),
      .rready      (m_axi_rready),
      .beat_address(memory_address),
      .bursts      (memory_bursts),
      .owed        (memory_owed)
  );

  wire [13:0] address_0;
  wire [13:0] address_1;
  wire [ 3:0] bursts_0;
  wire [ 3:0] bursts_1;
  wire [ 9:0] owed_0;
  wire [ 9:0] owed_1;
  axi_read_rules #(
      .ADDR_WIDTH     (14),
      .DATA_WIDTH     (16),
      .MAX_BURST_BEATS(2),
      .OUTSTANDING    (2),
      .ASSUME_MASTER  (1'b1),
      .ASSERT_MEMORY  (1'b1)
  ) u_master_0 (
      .clk,
      .rst_n,
      .araddr      (ar0_addr),
      .arlen       (ar0_len),
      .arsize      (3'd1),
      .arburst     (2'b01),
      .arvalid     (s_axi_arvalid[0]),
      .arready     (s_axi_arready[0]),
      .rdata       (s_axi_rdata),
      .rresp       (s_axi_rresp),
      .rlast       (s_axi_rlast),
      .rvalid      (s_axi_rvalid[0]),
      .rready      (s_axi_rready[0]),
      .beat_address(address_0),
      .bursts      (bursts_0),
      .owed        (owed_0)
  );
  axi_read_rules #(
      .ADDR_WIDTH     (14),
      .DATA_WIDTH     (16),
      .MAX_BURST_BEATS(2),
      .OUTSTANDING    (2),
      .ASSUME_MASTER  (1'b1),
      .ASSERT_MEMORY  (1'b1)
  ) u_master_1 (
      .clk,
      .rst_n,
      .araddr      (ar1_addr),
      .arlen       (ar1_len),
      .arsize      (3'd1),
      .arburst     (2'b01),
      .arvalid     (s_axi_arvalid[1]),
      .arready     (s_axi_arready[1]),
      .rdata       (s_axi_rdata),
      .rresp       (s_axi_rresp),
      .rlast       (s_axi_rlast),
      .rvalid      (s_axi_rvalid[1]),
      .rready      (s_axi_rready[1]),
      .beat_address(address_1),
      .bursts      (bursts_1),
      .owed        (owed_1)
  );

  (* inner = "u_axi_read_share.turn_q" *) wire [1:0] inner_turn;
  (* inner = "u_axi_read_share.u_round_robin.behind_q" *) wire [1:0] inner_behind;
  (* inner = "u_axi_read_share.u_axis_fifo.write_pointer_q" *) wire [1:0] inner_write;
  (* inner = "u_axi_read_share.u_axis_fifo.read_pointer_q" *) wire [1:0] inner_read;
  (* inner = "u_axi_read_share.u_axis_fifo.memory[0]" *) wire [1:0] inner_word_0;
  (* inner = "u_axi_read_share.u_axis_fifo.memory[1]" *) wire [1:0] inner_word_1;
  (* inner = "u_axi_read_share.owner_valid" *) wire inner_owner_valid;
  (* inner = "u_axi_read_share.owner" *) wire [1:0] inner_owner;
  (* inner = "u_memory.queue_q" *) wire [65:0] inner_memory;
  (* inner = "u_master_0.queue_q" *) wire [43:0] inner_master_0;
  (* inner = "u_master_1.queue_q" *) wire [43:0] inner_master_1;
  (* inner = "u_memory.beat_q" *) wire [7:0] inner_memory_beat;
  (* inner = "u_master_0.beat_q" *) wire [7:0] inner_master_0_beat;
  (* inner = "u_master_1.beat_q" *) wire [7:0] inner_master_1_beat;

  logic started_q = 1'b0;
  always_ff @(posedge clk) started_q <= 1'b1;

  // The masters of the bursts, the oldest first, and each request
  wire [1:0] stored = inner_write - inner_read;
  wire [2:0] held = 3'(stored) + 3'(inner_owner_valid);
  wire [1:0] next = inner_read[0] ? inner_word_1 : inner_word_0;
  wire [1:0] after = inner_read[0] ? inner_word_0 : inner_word_1;
  wire [1:0] whose_0 = inner_owner_valid ? inner_owner : next;
  wire [1:0] whose_1 = inner_owner_valid ? next : after;
  wire [1:0] whose_2 = after;

  wire [21:0] ar = {m_axi_araddr, m_axi_arlen};
  wire [21:0] what_0 = memory_bursts == 4'd0 ? ar : inner_memory[21:0];
  wire [21:0] what_1 = memory_bursts == 4'd1 ? ar : inner_memory[43:22];
  wire [21:0] what_2 = memory_bursts == 4'd2 ? ar : inner_memory[65:44];

  // the number of a master's bursts among the oldest one and two
  wire of_0 = whose_0[0];
  wire of_1 = whose_1[0];
  wire [1:0] count_0 = 2'(held > 3'd0 && whose_0[0]) + 2'(held > 3'd1 && whose_1[0]) + 2'(held > 3'd2 && whose_2[0]);
  wire [1:0] count_1 = 2'(held > 3'd0 && whose_0[1]) + 2'(held > 3'd1 && whose_1[1]) + 2'(held > 3'd2 && whose_2[1]);

  // Turns
  logic [1:0] other_0_q;
  logic [1:0] other_1_q;
  logic [1:0] idle_q;  // clocks in which a master waits and nothing else does
  wire  [1:0] ask = s_axi_arvalid & s_axi_arready;
  always_ff @(posedge clk) begin
    other_0_q <= s_axi_arvalid[0] && !ask[0] ? other_0_q + 2'(ask[1]) : '0;
    other_1_q <= s_axi_arvalid[1] && !ask[1] ? other_1_q + 2'(ask[0]) : '0;
    idle_q    <= rst_n && s_axi_arvalid != '0 && stored != 2'd2 && !m_axi_arvalid && ask == '0 ? idle_q + 1'b1 : '0;
    if (!rst_n) {other_0_q, other_1_q} <= '0;
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      // each beat belongs to the burst that its master is owed
      if (s_axi_rvalid[0]) assert (address_0 == memory_address);
      if (s_axi_rvalid[1]) assert (address_1 == memory_address);
      assert (s_axi_rvalid != 2'b11 && ask != 2'b11);
      // a beat is offered to its master in the clock in which memory offers it, whatever RREADY is (AXI4, A3.3.1)
      assert ((s_axi_rvalid != '0) == m_axi_rvalid);
      if (m_axi_rvalid && s_axi_rready == 2'b11) assert (m_axi_rready);
      assert (other_0_q <= 2'd1 && other_1_q <= 2'd1);
      assert (idle_q < 2'd2);  // whatever ARREADY is

      // the places of the bursts
      assert (stored <= 2'd2);
      assert (4'(held) == memory_bursts + 4'(m_axi_arvalid));
      if (!inner_owner_valid) assert (memory_bursts == '0);
      if (held > 3'd0) assert (whose_0 == 2'b01 || whose_0 == 2'b10);
      if (held > 3'd1) assert (whose_1 == 2'b01 || whose_1 == 2'b10);
      if (held > 3'd2) assert (whose_2 == 2'b01 || whose_2 == 2'b10);
      assert (4'(count_0) == bursts_0 && 4'(count_1) == bursts_1);
      if (held > 3'd0) assert (what_0 == (of_0 ? inner_master_0[21:0] : inner_master_1[21:0]));
      if (held > 3'd1 && of_1) assert (what_1 == (of_0 ? inner_master_0[43:22] : inner_master_0[21:0]));
      if (held > 3'd1 && !of_1) assert (what_1 == (of_0 ? inner_master_1[21:0] : inner_master_1[43:22]));
      if (held > 3'd2 && whose_2[0]) assert (what_2 == (of_0 || of_1 ? inner_master_0[43:22] : inner_master_0[21:0]));
      if (held > 3'd2 && !whose_2[0]) assert (what_2 == (of_0 && of_1 ? inner_master_1[21:0] : inner_master_1[43:22]));
      assert (inner_master_0_beat == (held != '0 && of_0 ? inner_memory_beat : 8'd0));
      assert (inner_master_1_beat == (held != '0 && !of_0 ? inner_memory_beat : 8'd0));
      if (held == '0) assert (inner_memory_beat == '0);
      if (inner_turn != '0) assert (inner_turn == 2'b01 || inner_turn == 2'b10);
      if (inner_turn != '0) assert (!m_axi_arvalid && stored != 2'd2 && ask == inner_turn);
      if (inner_turn == 2'b10 || (inner_turn == '0 && other_0_q != '0)) assert (inner_behind == 2'b00);
      if (inner_turn == 2'b01 || (inner_turn == '0 && other_1_q != '0)) assert (inner_behind == 2'b10);
      assert (!(other_0_q != '0 && inner_turn == 2'b10) && !(other_1_q != '0 && inner_turn == 2'b01));
    end
    cover (started_q && rst_n && held == 3'd3 && whose_0 == 2'b10 && whose_1 == 2'b01 && whose_2 == 2'b10);
    cover (started_q && rst_n && s_axi_rvalid[1] && s_axi_rready[1] && s_axi_rlast && inner_master_1_beat == 8'd1 && bursts_0 == 4'd1);
    cover (started_q && rst_n && other_0_q == 2'd1);
  end

endmodule

`default_nettype wire
