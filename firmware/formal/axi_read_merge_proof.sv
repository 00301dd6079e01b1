// SPDX-License-Identifier: Apache-2.0
//
// axi_read_merge obeys the rules of PCIM: aligned INCR bursts of full beats that do not cross a multiple of MAX_BURST_BEATS (and
// so not 4 KiB); valid and its payload stay until ready; never two reads of one ID in flight, never more than SLOTS; RREADY never
// low. Each beat is passed on once, burst after burst in the order of the requests, for any order of arrival.
//
// The bus answers IDs in any order and interleaves them beat by beat: any ID that is owed a beat may receive one. `shadow_q` has
// the beats received, by ID and beat; `at_q` and `beat_q` are the burst and beat that must be read out next, and `want_q` the
// output expected then. Two units, two slots, bursts of two beats of two bytes.
`default_nettype none

module axi_read_merge_proof (
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
    input logic        m_axi_rid,
    input logic [ 1:0] m_axi_rresp,
    input logic        m_axi_rvalid
);

  logic [ 1:0] s_axi_arready;
  logic [15:0] s_axi_rdata;
  logic [ 1:0] s_axi_rresp;
  logic        s_axi_rlast;
  logic [ 1:0] s_axi_rvalid;
  logic [13:0] m_axi_araddr;
  logic        m_axi_arid;
  logic [ 7:0] m_axi_arlen;
  logic [ 2:0] m_axi_arsize;
  logic [ 1:0] m_axi_arburst;
  logic        m_axi_arvalid;
  logic        m_axi_rready;

  // The bus: beats owed to each ID, and beats received
  logic [1:0] owed0_q;
  logic [1:0] owed1_q;
  wire  [1:0] owed = m_axi_rid ? owed1_q : owed0_q;
  wire        ask = m_axi_arvalid && m_axi_arready;

  axi_read_merge #(
      .UNITS          (2),
      .ADDR_WIDTH     (14),
      .DATA_WIDTH     (16),
      .ID_WIDTH       (1),
      .MAX_BURST_BEATS(2),
      .SLOTS          (2)
  ) u_axi_read_merge (
      .*,
      .s_axi_araddr({ar1_addr, ar0_addr}),
      .s_axi_arlen ({ar1_len, ar0_len}),
      .m_axi_rlast (owed == 2'd1)
  );

  stream_rules #(.WIDTH(22), .ASSUME(1'b1)) u_ar0 (.clk, .rst_n, .tvalid(s_axi_arvalid[0]), .tready(s_axi_arready[0]), .tdata({ar0_addr, ar0_len}));
  stream_rules #(.WIDTH(22), .ASSUME(1'b1)) u_ar1 (.clk, .rst_n, .tvalid(s_axi_arvalid[1]), .tready(s_axi_arready[1]), .tdata({ar1_addr, ar1_len}));
  stream_rules #(.WIDTH(23)) u_ar (.clk, .rst_n, .tvalid(m_axi_arvalid), .tready(m_axi_arready), .tdata({m_axi_araddr, m_axi_arlen, m_axi_arid}));
  stream_rules #(.WIDTH(19)) u_r0 (.clk, .rst_n, .tvalid(s_axi_rvalid[0]), .tready(s_axi_rready[0]), .tdata({s_axi_rdata, s_axi_rresp, s_axi_rlast}));
  stream_rules #(.WIDTH(19)) u_r1 (.clk, .rst_n, .tvalid(s_axi_rvalid[1]), .tready(s_axi_rready[1]), .tdata({s_axi_rdata, s_axi_rresp, s_axi_rlast}));

  (* inner = "u_axi_read_merge.tail_q" *) wire [1:0] inner_tail;
  (* inner = "u_axi_read_merge.head_q" *) wire [1:0] inner_head;
  (* inner = "u_axi_read_merge.used_q" *) wire [1:0] inner_used;
  (* inner = "u_axi_read_merge.gone_q" *) wire [1:0] inner_gone;
  (* inner = "u_axi_read_merge.ar_slot_q" *) wire inner_ar_slot;
  (* inner = "u_axi_read_merge.order[0]" *) wire [2:0] inner_order_0;
  (* inner = "u_axi_read_merge.order[1]" *) wire [2:0] inner_order_1;
  (* inner = "u_axi_read_merge.come_q" *) wire inner_come;
  (* inner = "u_axi_read_merge.come_slot_q" *) wire inner_come_slot;
  (* inner = "u_axi_read_merge.come_beat_q" *) wire [17:0] inner_come_beat;
  (* inner = "u_axi_read_merge.there_q[0]" *) wire [1:0] inner_there_0;
  (* inner = "u_axi_read_merge.there_q[1]" *) wire [1:0] inner_there_1;
  (* inner = "u_axi_read_merge.beats[0]" *) wire [17:0] inner_beat_0;
  (* inner = "u_axi_read_merge.beats[1]" *) wire [17:0] inner_beat_1;
  (* inner = "u_axi_read_merge.beats[2]" *) wire [17:0] inner_beat_2;
  (* inner = "u_axi_read_merge.beats[3]" *) wire [17:0] inner_beat_3;
  (* inner = "u_axi_read_merge.beat_q" *) wire [1:0] inner_beat;
  (* inner = "u_axi_read_merge.read" *) wire inner_read;
  (* inner = "u_axi_read_merge.known_q" *) wire inner_known;
  (* inner = "u_axi_read_merge.seen_q" *) wire [1:0] inner_seen;
  (* inner = "u_axi_read_merge.u_axi_burst_split.burst_valid_q" *) wire inner_burst;
  (* inner = "u_axi_read_merge.u_axi_burst_split.burst_beat_q" *) wire [12:0] inner_burst_beat;
  (* inner = "u_axi_read_merge.u_axi_burst_split.burst_beats_q" *) wire [1:0] inner_burst_beats;
  (* inner = "u_axi_read_merge.u_axi_burst_split.busy_q" *) wire inner_work;
  (* inner = "u_axi_read_merge.u_axi_burst_split.left_q" *) wire [8:0] inner_left;

  logic        started_q = 1'b0;
  logic [17:0] shadow_q[4];  // by {ID, beat}
  logic [ 1:0] got0_q;  // beats received since the ID's request
  logic [ 1:0] got1_q;
  logic        next_id_q;
  wire  [ 1:0] got = m_axi_rid ? got1_q : got0_q;

  // The burst, as a number modulo 4, and the beat that must be read out next; and the beat read out last, with its unit and
  // whether it is a last beat, because its slot may be used again before it is taken
  logic [ 1:0] at_q;
  logic        beat_q;
  logic [19:0] want_q;
  wire  [ 2:0] at_order = at_q[0] ? inner_order_1 : inner_order_0;
  wire         at_ends = beat_q == at_order[0];

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (ask) begin
      next_id_q <= !next_id_q;
      if (m_axi_arid) {owed1_q, got1_q} <= {m_axi_arlen[1:0] + 2'd1, 2'd0};
      else {owed0_q, got0_q} <= {m_axi_arlen[1:0] + 2'd1, 2'd0};
    end
    if (m_axi_rvalid) begin
      shadow_q[{m_axi_rid, got[0]}] <= {m_axi_rresp, m_axi_rdata};
      if (m_axi_rid) {owed1_q, got1_q} <= {owed1_q - 2'd1, got1_q + 2'd1};
      else {owed0_q, got0_q} <= {owed0_q - 2'd1, got0_q + 2'd1};
    end
    if (inner_read) begin
      want_q <= {at_order[2], at_order[1] && at_ends, shadow_q[{at_q[0], beat_q}]};
      beat_q <= at_ends ? 1'b0 : beat_q + 1'b1;
      if (at_ends) at_q <= at_q + 2'd1;
    end
    if (!rst_n) begin
      owed0_q   <= '0;
      owed1_q   <= '0;
      got0_q    <= '0;
      got1_q    <= '0;
      next_id_q <= 1'b0;
      at_q      <= '0;
      beat_q    <= 1'b0;
    end
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (m_axi_rvalid) assume (rst_n && owed != '0);
  end

  wire [1:0] used = inner_tail - inner_head;

  // a burst that has a slot, and a beat at the head, when nothing is offered: then they are offered in the next clock, whatever
  // ARREADY and RREADY are (AXI4, A3.3.1)
  logic ar_next_q;
  logic r_next_q;
  always_ff @(posedge clk) begin
    ar_next_q <= rst_n && inner_burst && inner_used != 2'd2 && !m_axi_arvalid;
    r_next_q  <= rst_n && inner_seen != inner_beat && s_axi_rvalid == '0;
  end

  // The rules of PCIM
  always_comb begin
    if (started_q && rst_n) begin
      assert (m_axi_rready);
      if (ar_next_q) assert (m_axi_arvalid);
      if (r_next_q) assert (s_axi_rvalid != '0);
      if (m_axi_arvalid) begin
        assert (m_axi_arburst == 2'b01 && m_axi_arsize == 3'd1 && !m_axi_araddr[0]);
        assert (m_axi_arlen < 8'd2 && 9'(m_axi_araddr[1]) + 9'(m_axi_arlen) < 9'd2);
        assert (m_axi_arid ? owed1_q == '0 : owed0_q == '0);  // no two of one ID
        assert (m_axi_arid == next_id_q);
      end
      if (inner_read) assert (beat_q < (at_q[0] ? got1_q : got0_q) && used != '0);
      assert (s_axi_rvalid != 2'b11);
      if (s_axi_rvalid != '0) begin
        assert ({s_axi_rresp, s_axi_rdata} == want_q[17:0]);
        assert (s_axi_rvalid[want_q[19]] && s_axi_rlast == want_q[18]);
      end
    end
    cover (started_q && rst_n && owed0_q == 2'd2 && owed1_q == 2'd1 && m_axi_rvalid && m_axi_rid);
    cover (started_q && rst_n && at_q == 2'd2 && s_axi_rvalid[1] && s_axi_rready[1]);
    cover (started_q && rst_n && s_axi_rvalid[0] && !s_axi_rready[0] && inner_tail - inner_head == 2'd2);
  end

  // Invariants of its registers
  wire       in_ring_0 = used == 2'd2 || (used == 2'd1 && !inner_head[0]);
  wire       in_ring_1 = used == 2'd2 || (used == 2'd1 && inner_head[0]);
  wire       asked_0 = in_ring_0 && !(m_axi_arvalid && !inner_ar_slot);
  wire       asked_1 = in_ring_1 && !(m_axi_arvalid && inner_ar_slot);
  wire [1:0] coming_0 = 2'(inner_come && !inner_come_slot);
  wire [1:0] coming_1 = 2'(inner_come && inner_come_slot);
  wire [1:0] head_there = inner_head[0] ? inner_there_1 : inner_there_0;
  wire [2:0] head_order = inner_head[0] ? inner_order_1 : inner_order_0;

  always_comb begin
    if (started_q && rst_n) begin
      if (inner_work) assert (inner_left != '0);
      if (inner_burst) begin
        assert (inner_burst_beats == 2'd1 || inner_burst_beats == 2'd2);
        assert ({1'b0, inner_burst_beat[0]} + inner_burst_beats <= 2'd2);
      end
      assert (used <= 2'd2 && inner_used <= 2'd2 && inner_gone != 2'b11);
      if (!in_ring_0) assert (inner_there_0 == 2'd0 || inner_gone[0]);
      if (!in_ring_1) assert (inner_there_1 == 2'd0 || inner_gone[1]);
      if (inner_gone != '0) assert (inner_gone == (inner_head[0] ? 2'b01 : 2'b10) && used != 2'd2 && !inner_known);
      if (m_axi_arvalid) begin
        assert (used != 2'd0 && inner_ar_slot == !inner_tail[0]);
        assert (m_axi_arlen == 8'(inner_ar_slot ? inner_order_1[0] : inner_order_0[0]));
        assert ((inner_ar_slot ? inner_there_1 : inner_there_0) == 2'd0);
      end
      assert (next_id_q == (m_axi_arvalid ? inner_ar_slot : inner_tail[0]));
      if (asked_0) begin
        assert (inner_there_0 + coming_0 == got0_q);
        assert (3'(got0_q) + 3'(owed0_q) == 3'(inner_order_0[0]) + 3'd1);
      end else assert (owed0_q == '0 && coming_0 == '0);
      if (asked_1) begin
        assert (inner_there_1 + coming_1 == got1_q);
        assert (3'(got1_q) + 3'(owed1_q) == 3'(inner_order_1[0]) + 3'd1);
      end else assert (owed1_q == '0 && coming_1 == '0);
      // a beat received is in the place of its ID and number, or in the register before it
      if (in_ring_0 && inner_there_0 > 2'd0) assert (inner_beat_0 == shadow_q[0]);
      if (in_ring_0 && inner_there_0 > 2'd1) assert (inner_beat_1 == shadow_q[1]);
      if (in_ring_1 && inner_there_1 > 2'd0) assert (inner_beat_2 == shadow_q[2]);
      if (in_ring_1 && inner_there_1 > 2'd1) assert (inner_beat_3 == shadow_q[3]);
      if (coming_0[0]) assert (inner_come_beat == shadow_q[{1'b0, inner_there_0[0]}]);
      if (coming_1[0]) assert (inner_come_beat == shadow_q[{1'b1, inner_there_1[0]}]);
      // the beat read out next
      if (used == 2'd0) assert (inner_beat == 2'd0);
      else begin
        assert (inner_beat <= head_there && inner_beat <= 2'(head_order[0]));
      end
      assert (inner_head == at_q && inner_beat == 2'(beat_q));
      if (inner_known) assert (used != 2'd0 && inner_beat <= inner_seen && inner_seen <= head_there);
      else assert (inner_seen == 2'd0 && inner_beat == 2'd0);
    end
  end

endmodule

`default_nettype wire
