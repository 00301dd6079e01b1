// SPDX-License-Identifier: Apache-2.0
//
// axi_write_merge obeys the rules of PCIM: valid and its payload stay until ready; an address is offered only when its whole burst
// is buffered; its data are offered with it, whether or not it is taken, without a pause, with WLAST on the last of them, and
// without other data; one burst at a time; at most OUTSTANDING bursts are unanswered. Responses are sent to the unit that their ID
// names. WREADY is high for the unit whose address was taken last until its last beat, and there is a place for each beat.
//
// The beats in the buffer are those of the burst being sent, of the bursts that wait, and of the burst being taken, in this order.
// Two units, bursts of two beats of one byte, eight unanswered. The proof of axis_fifo shows that a FIFO keeps the order and the data
// of its beats.
`default_nettype none

module axi_write_merge_proof (
    input logic        clk,
    input logic        rst_n,
    input logic [ 3:0] aw0_addr,
    input logic [ 3:0] aw1_addr,
    input logic        aw0_len,
    input logic        aw1_len,
    input logic [ 1:0] s_axi_awvalid,
    input logic [ 8:0] w0,  // strobe and data
    input logic [ 8:0] w1,
    input logic [ 1:0] s_axi_wvalid,
    input logic [ 1:0] s_axi_bready,
    input logic        m_axi_awready,
    input logic        m_axi_wready,
    input logic        m_axi_bid,
    input logic [ 1:0] m_axi_bresp,
    input logic        m_axi_bvalid
);

  localparam int MAX_BURST_BEATS = 2;
  localparam int OUTSTANDING = 8;

  logic [1:0] s_axi_awready;
  logic [1:0] s_axi_wready;
  logic [1:0] s_axi_bresp;
  logic [1:0] s_axi_bvalid;
  logic [3:0] m_axi_awaddr;
  logic       m_axi_awid;
  logic [7:0] m_axi_awlen;
  logic [2:0] m_axi_awsize;
  logic [1:0] m_axi_awburst;
  logic       m_axi_awvalid;
  logic [7:0] m_axi_wdata;
  logic       m_axi_wstrb;
  logic       m_axi_wlast;
  logic       m_axi_wvalid;
  logic       m_axi_bready;

  // The units: the beats of the burst taken last, and the number of them that have been taken
  logic in_len_q;
  logic in_beat_q;
  wire  in_last = in_beat_q == in_len_q;

  axi_write_merge #(
      .UNITS          (2),
      .ADDR_WIDTH     (4),
      .DATA_WIDTH     (8),
      .ID_WIDTH       (1),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .OUTSTANDING    (OUTSTANDING)
  ) u_axi_write_merge (
      .*,
      .s_axi_awaddr({aw1_addr, aw0_addr}),
      .s_axi_awlen ({7'd0, aw1_len, 7'd0, aw0_len}),
      .s_axi_wdata ({w1[7:0], w0[7:0]}),
      .s_axi_wstrb ({w1[8], w0[8]}),
      .s_axi_wlast ({in_last, in_last})
  );

  stream_rules #(.WIDTH(5), .ASSUME(1'b1)) u_aw0 (.clk, .rst_n, .tvalid(s_axi_awvalid[0]), .tready(s_axi_awready[0]), .tdata({aw0_addr, aw0_len}));
  stream_rules #(.WIDTH(5), .ASSUME(1'b1)) u_aw1 (.clk, .rst_n, .tvalid(s_axi_awvalid[1]), .tready(s_axi_awready[1]), .tdata({aw1_addr, aw1_len}));
  stream_rules #(.WIDTH(9), .ASSUME(1'b1)) u_w0 (.clk, .rst_n, .tvalid(s_axi_wvalid[0]), .tready(s_axi_wready[0]), .tdata(w0));
  stream_rules #(.WIDTH(9), .ASSUME(1'b1)) u_w1 (.clk, .rst_n, .tvalid(s_axi_wvalid[1]), .tready(s_axi_wready[1]), .tdata(w1));
  stream_rules #(.WIDTH(3), .ASSUME(1'b1)) u_b (.clk, .rst_n, .tvalid(m_axi_bvalid), .tready(m_axi_bready), .tdata({m_axi_bid, m_axi_bresp}));
  stream_rules #(.WIDTH(13)) u_aw (.clk, .rst_n, .tvalid(m_axi_awvalid), .tready(m_axi_awready), .tdata({m_axi_awaddr, m_axi_awlen, m_axi_awid}));
  stream_rules #(.WIDTH(10)) u_w (.clk, .rst_n, .tvalid(m_axi_wvalid), .tready(m_axi_wready), .tdata({m_axi_wdata, m_axi_wstrb, m_axi_wlast}));

  (* inner = "u_axi_write_merge.taking_q" *) wire inner_taking;
  (* inner = "u_axi_write_merge.in_len_q" *) wire [7:0] inner_in_len;
  (* inner = "u_axi_write_merge.in_grant_q" *) wire [1:0] inner_in_grant;
  (* inner = "u_axi_write_merge.in_unit_q" *) wire inner_in_unit;
  (* inner = "u_axi_write_merge.giving_q" *) wire inner_giving;
  (* inner = "u_axi_write_merge.left_q" *) wire [7:0] inner_left;
  (* inner = "u_axi_write_merge.last_q" *) wire inner_last;
  (* inner = "u_axi_write_merge.beats_q" *) wire [3:0] inner_beats;
  (* inner = "u_axi_write_merge.bursts_q" *) wire [3:0] inner_bursts;
  (* inner = "u_axi_write_merge.took_q" *) wire inner_took;
  (* inner = "u_axi_write_merge.room_q" *) wire inner_room;
  (* inner = "u_axi_write_merge.come_q" *) wire inner_come;
  (* inner = "u_axi_write_merge.come_last_q" *) wire inner_come_last;
  (* inner = "u_axi_write_merge.beat_valid" *) wire inner_beat;
  (* inner = "u_axi_write_merge.u_axis_fifo_beats.write_pointer_q" *) wire [3:0] inner_beats_write;
  (* inner = "u_axi_write_merge.u_axis_fifo_beats.read_pointer_q" *) wire [3:0] inner_beats_read;
  (* inner = "u_axi_write_merge.burst_valid" *) wire inner_burst;
  (* inner = "u_axi_write_merge.burst_len" *) wire [7:0] inner_burst_len;
  (* inner = "u_axi_write_merge.u_axis_fifo_bursts.write_pointer_q" *) wire [3:0] inner_bursts_write;
  (* inner = "u_axi_write_merge.u_axis_fifo_bursts.read_pointer_q" *) wire [3:0] inner_bursts_read;
  (* inner = "u_axi_write_merge.u_axis_fifo_bursts.memory[7:0]" *) wire [103:0] inner_waiting;

  logic       started_q = 1'b0;
  logic [1:0] taken_q;  // the unit that owes beats of the burst in in_*_q
  logic       out_beat_q;
  logic       sent_q;  // all data of the address offered have been taken
  logic       owed_q;  // an address has been taken, and not all of its data
  logic [3:0] open_q;  // bursts whose address and data have been taken and that are not answered

  wire [1:0] take = s_axi_awvalid & s_axi_awready;
  wire [1:0] store = s_axi_wvalid & s_axi_wready;
  wire       ask = m_axi_awvalid && m_axi_awready;
  wire       give = m_axi_wvalid && m_axi_wready;
  wire       answer = m_axi_bvalid && m_axi_bready;
  wire       last = give && m_axi_wlast;
  wire       due = m_axi_awvalid ? !sent_q : owed_q;  // a beat of the burst that leaves

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (take != '0) begin
      in_len_q  <= take[1] ? aw1_len : aw0_len;
      in_beat_q <= 1'b0;
    end else if (store != '0) in_beat_q <= in_beat_q + 1'b1;
    taken_q <= take != '0 ? take : taken_q & ~(store & {2{in_last}});
    if (give) out_beat_q <= m_axi_wlast ? 1'b0 : out_beat_q + 1'b1;
    sent_q <= m_axi_awvalid && !ask && (sent_q || last);
    owed_q <= (ask ? !sent_q : owed_q) && !last;
    open_q <= open_q + 4'(ask ? sent_q || last : owed_q && last) - 4'(answer);
    if (!rst_n) begin
      taken_q    <= '0;
      out_beat_q <= 1'b0;
      sent_q     <= 1'b0;
      owed_q     <= 1'b0;
      open_q     <= '0;
    end
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (m_axi_bvalid) assume (rst_n && open_q != '0);
  end

  // The rules of PCIM
  wire [3:0] stored = inner_beats_write - inner_beats_read;
  wire [3:0] buffered = stored + 4'(inner_beat);
  wire [3:0] leaving = due ? 4'(m_axi_awlen) + 4'd1 - 4'(out_beat_q) : 4'd0;  // beats of the burst that leaves

  logic leaves_q;
  always_ff @(posedge clk) leaves_q <= rst_n && inner_burst && !m_axi_awvalid && !owed_q;

  always_comb begin
    if (started_q && rst_n) begin
      assert (take != 2'b11 && s_axi_wready == taken_q);
      if (m_axi_awvalid) begin
        assert (m_axi_awburst == 2'b01 && m_axi_awsize == 3'd0);
        assert (!owed_q);  // one burst at a time
        assert (buffered >= leaving);  // the whole burst is buffered
      end
      // with AW, and without a pause; not before AW, and whether or not AW is taken (AXI4, A3.3.1)
      assert (m_axi_wvalid == due);
      if (m_axi_wvalid) assert (m_axi_wlast == (8'(out_beat_q) == m_axi_awlen));
      assert (6'(open_q) + 6'(m_axi_awvalid || owed_q) <= 6'(OUTSTANDING));
      // an address follows in the next clock when a burst can leave, whatever AWREADY and WREADY are
      if (leaves_q) assert (m_axi_awvalid);
      assert (s_axi_bvalid == {m_axi_bvalid && m_axi_bid, m_axi_bvalid && !m_axi_bid});
      assert (s_axi_bresp == m_axi_bresp && m_axi_bready == s_axi_bready[m_axi_bid]);
    end
    cover (started_q && rst_n && last && out_beat_q && inner_burst);
    cover (started_q && rst_n && m_axi_awvalid && sent_q && inner_burst);
    cover (started_q && rst_n && buffered == 4'd7 && s_axi_awvalid != '0 && s_axi_awready == '0 && s_axi_wready == '0 && inner_bursts < 4'd8);
    cover (started_q && rst_n && inner_bursts == 4'd4 && answer && m_axi_bid && s_axi_awvalid != '0);
  end

  // Invariants of its registers
  wire [3:0] waiting = inner_bursts_write - inner_bursts_read;  // in the memory of their FIFO
  logic [5:0] of_waiting;  // their beats
  logic       fitting;  // none of them is longer than MAX_BURST_BEATS
  logic [7:0] len;
  always_comb begin
    of_waiting = '0;
    fitting    = 1'b1;
    for (int i = 0; i < OUTSTANDING; i++) begin
      len = 8'(inner_waiting >> (13 * 3'(inner_bursts_read + 4'(i)) + 4));
      if (4'(i) < waiting) begin
        of_waiting = of_waiting + 6'(len) + 6'd1;
        fitting    = fitting && len < 8'd2;
      end
    end
  end
  wire [5:0] of_output = inner_burst ? 6'(inner_burst_len) + 6'd1 : 6'd0;
  wire [3:0] of_taken = inner_come_last ? 4'(in_len_q) + 4'd1 : inner_taking ? 4'(in_beat_q) : 4'd0;
  wire [3:0] to_take = inner_taking ? 4'(in_len_q) + 4'd1 - 4'(in_beat_q) : 4'd0;
  wire [5:0] buffered_bursts = 6'(inner_burst) + 6'(waiting) + 6'(inner_come_last) + 6'(inner_taking);

  always_comb begin
    if (started_q && rst_n) begin
      assert (stored <= 4'd8 && waiting <= 4'd8 && fitting);
      assert (6'(buffered) + 6'(inner_come) == 6'(leaving) + of_output + of_waiting + 6'(of_taken));
      assert (6'(inner_beats) + (inner_took ? 6'(in_len_q) + 6'd1 : 6'd0) == 6'(buffered) + 6'(inner_come) + 6'(to_take));
      assert (6'(buffered) + 6'(inner_come) + 6'(to_take) <= 6'd8);
      assert (6'(inner_bursts) + 6'(inner_took) <= 6'd8);
      if (inner_took) assert (inner_taking && !inner_room && inner_in_len == 8'(in_len_q));
      if (inner_room) assert (inner_beats <= 4'd6 && inner_bursts < 4'd8);
      if (inner_come_last) assert (inner_come && !inner_taking);
      if (inner_taking || inner_come_last) assert (inner_in_len == 8'(in_len_q) && inner_in_grant == (inner_in_unit ? 2'b10 : 2'b01));
      assert (taken_q == (inner_taking ? inner_in_grant : 2'b00));
      if (inner_taking) assert (in_beat_q <= in_len_q);
      if (m_axi_awvalid || owed_q) assert (m_axi_awlen < 8'd2);
      assert (inner_giving == due && !(sent_q && !m_axi_awvalid));
      assert (due ? 8'(out_beat_q) <= m_axi_awlen : !out_beat_q);
      if (due) assert (inner_left == m_axi_awlen - 8'(out_beat_q) && inner_last == (inner_left == '0));
      if (inner_burst) assert (inner_burst_len < 8'd2);
      if (due || inner_burst) assert (inner_beat);
      assert (6'(inner_bursts) + 6'(inner_took) == 6'(open_q) + 6'(m_axi_awvalid || owed_q) + buffered_bursts);
    end
  end

endmodule

`default_nettype wire
