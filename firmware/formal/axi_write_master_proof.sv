// SPDX-License-Identifier: Apache-2.0
//
// axi_write_master obeys the rules of AXI; its bursts are those of its descriptors, contiguous and in order, and their strobes end
// where the descriptor ends: no byte outside [address, address + bytes) is written; each beat is sent once, in order; each
// descriptor is answered once, in order, after the response to its last burst; and there is no deadlock.
//
// The solver sets three marks: a descriptor, followed to AW (`front_q` beats before it, then its own); a beat, followed through the
// FIFO; and a descriptor, followed to its answer (`before_q` answers before it, `beats_q` beats to be requested up to its end,
// and `responses_q` responses). Beats have four bytes, bursts two beats, and two bursts are in flight.
`default_nettype none

module axi_write_master_proof (
    input logic        clk,
    input logic        rst_n,
    input logic        s_axis_desc_tvalid,
    input logic [13:0] s_axis_desc_address,
    input logic [ 4:0] s_axis_desc_beats,
    input logic [ 1:0] s_axis_desc_tail,
    input logic        s_axis_tvalid,
    input logic [31:0] s_axis_tdata,
    input logic        m_axis_done_tready,
    input logic        m_axi_awready,
    input logic        m_axi_wready,
    input logic [ 1:0] m_axi_bresp,
    input logic        m_axi_bvalid,
    input logic        mark,
    input logic        mark_beat,
    input logic        mark_answer
);

  localparam int MAX_BURST_BEATS = 2;
  localparam int OUTSTANDING = 2;
  localparam int DEPTH = 2 * MAX_BURST_BEATS;

  logic        s_axis_desc_tready;
  logic        s_axis_tready;
  logic        m_axis_done_tvalid;
  logic [13:0] m_axi_awaddr;
  logic [ 7:0] m_axi_awlen;
  logic [ 2:0] m_axi_awsize;
  logic [ 1:0] m_axi_awburst;
  logic        m_axi_awvalid;
  logic [31:0] m_axi_wdata;
  logic [ 3:0] m_axi_wstrb;
  logic        m_axi_wlast;
  logic        m_axi_wvalid;
  logic        m_axi_bready;
  logic        data_waits;
  logic        error;

  axi_write_master #(
      .ADDR_WIDTH     (14),
      .DATA_WIDTH     (32),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .OUTSTANDING    (OUTSTANDING),
      .COUNT_WIDTH    (5)
  ) u_axi_write_master (
      .*,
      .m_axi_awid   (),
      .m_axi_awcache(),
      .m_axi_awprot (),
      .m_axi_bid    (1'b0),
      .address_waits()
  );

  (* inner = "u_axi_write_master.unclaimed_q" *) wire [2:0] inner_unclaimed;
  (* inner = "u_axi_write_master.claimed_q" *) wire inner_claimed;
  (* inner = "u_axi_write_master.buffered_q" *) wire inner_buffered;
  (* inner = "u_axi_write_master.left_q" *) wire inner_gone;
  (* inner = "u_axi_write_master.due_q" *) wire [1:0] inner_due;
  (* inner = "u_axi_write_master.u_axi_burst_split.busy_q" *) wire inner_work;
  (* inner = "u_axi_write_master.u_axi_burst_split.beat_q" *) wire [11:0] inner_work_beat;
  (* inner = "u_axi_write_master.u_axi_burst_split.left_q" *) wire [4:0] inner_left;
  (* inner = "u_axi_write_master.u_axi_burst_split.user_q" *) wire [1:0] inner_work_end;
  (* inner = "u_axi_write_master.u_axi_burst_split.known_q" *) wire inner_known;
  (* inner = "u_axi_write_master.u_axi_burst_split.burst_valid_q" *) wire inner_burst;
  (* inner = "u_axi_write_master.u_axi_burst_split.burst_beat_q" *) wire [11:0] inner_burst_beat;
  (* inner = "u_axi_write_master.u_axi_burst_split.burst_beats_q" *) wire [1:0] inner_burst_beats;
  (* inner = "u_axi_write_master.u_axi_burst_split.burst_last_q" *) wire inner_burst_last;
  (* inner = "u_axi_write_master.u_axi_burst_split.burst_user_q" *) wire [1:0] inner_burst_end;
  (* inner = "u_axi_write_master.ask" *) wire inner_ask;
  (* inner = "u_axi_write_master.data_valid" *) wire inner_data_valid;
  (* inner = "u_axi_write_master.u_axis_fifo_data.write_pointer_q" *) wire [2:0] inner_data_write;
  (* inner = "u_axi_write_master.u_axis_fifo_data.read_pointer_q" *) wire [2:0] inner_data_read;
  (* inner = "u_axi_write_master.u_axis_fifo_data.memory[3:0]" *) wire [127:0] inner_words;
  (* inner = "u_axi_write_master.data" *) wire [31:0] inner_data;
  (* inner = "u_axi_write_master.w_valid" *) wire inner_w_valid;
  (* inner = "u_axi_write_master.u_axis_fifo_w.write_pointer_q" *) wire [1:0] inner_w_write;
  (* inner = "u_axi_write_master.u_axis_fifo_w.read_pointer_q" *) wire [1:0] inner_w_read;
  (* inner = "u_axi_write_master.u_axis_fifo_w.memory[0]" *) wire [12:0] inner_w_0;
  (* inner = "u_axi_write_master.u_axis_fifo_w.memory[1]" *) wire [12:0] inner_w_1;
  (* inner = "u_axi_write_master.w_len" *) wire [7:0] inner_w_len;
  (* inner = "u_axi_write_master.w_single" *) wire inner_w_single;
  (* inner = "u_axi_write_master.w_strobes" *) wire [3:0] inner_w_strobes;
  (* inner = "u_axi_write_master.unwritten_q" *) wire [1:0] inner_unwritten;
  (* inner = "u_axi_write_master.first_q" *) wire inner_first;
  (* inner = "u_axi_write_master.after_q" *) wire [7:0] inner_after;
  (* inner = "u_axi_write_master.last_q" *) wire inner_last;
  (* inner = "u_axi_write_master.order_valid" *) wire inner_order_valid;
  (* inner = "u_axi_write_master.order_last" *) wire inner_order_last;
  (* inner = "u_axi_write_master.order_empty" *) wire inner_order_empty;
  (* inner = "u_axi_write_master.u_axis_fifo_order.write_pointer_q" *) wire [1:0] inner_order_write;
  (* inner = "u_axi_write_master.u_axis_fifo_order.read_pointer_q" *) wire [1:0] inner_order_read;
  (* inner = "u_axi_write_master.u_axis_fifo_order.memory[0]" *) wire [1:0] inner_order_0;
  (* inner = "u_axi_write_master.u_axis_fifo_order.memory[1]" *) wire [1:0] inner_order_1;

  // the bytes in the last beat of the burst that AW offers, 0: all
  logic [1:0] aw_tail_q;
  always_ff @(posedge clk) if (inner_ask) aw_tail_q <= inner_burst_last ? inner_burst_end + 2'd1 : 2'd0;

  wire [13:0] beat_address;
  wire [ 7:0] beat;
  wire [ 9:0] burst;
  wire [ 9:0] next_burst;
  wire [ 3:0] bursts;
  wire [ 3:0] written;
  wire [ 9:0] owed;

  axi_write_rules #(
      .ADDR_WIDTH     (14),
      .DATA_WIDTH     (32),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .OUTSTANDING    (OUTSTANDING),
      .USER_WIDTH     (2)
  ) u_memory (
      .clk,
      .rst_n,
      .awaddr (m_axi_awaddr),
      .awlen  (m_axi_awlen),
      .awsize (m_axi_awsize),
      .awburst(m_axi_awburst),
      .awuser (aw_tail_q),
      .awvalid(m_axi_awvalid),
      .awready(m_axi_awready),
      .wdata  (m_axi_wdata),
      .wstrb  (m_axi_wstrb),
      .wlast  (m_axi_wlast),
      .wvalid (m_axi_wvalid),
      .wready (m_axi_wready),
      .bresp  (m_axi_bresp),
      .bvalid (m_axi_bvalid),
      .bready (m_axi_bready),
      .beat_address,
      .beat,
      .burst,
      .next_burst,
      .bursts,
      .written,
      .owed
  );

  wire [20:0] desc = {s_axis_desc_address, s_axis_desc_beats, s_axis_desc_tail};
  stream_rules #(.WIDTH(21), .ASSUME(1'b1)) u_desc (.clk, .rst_n, .tvalid(s_axis_desc_tvalid), .tready(s_axis_desc_tready), .tdata(desc));
  stream_rules #(.WIDTH(32), .ASSUME(1'b1)) u_in (.clk, .rst_n, .tvalid(s_axis_tvalid), .tready(s_axis_tready), .tdata(s_axis_tdata));
  stream_rules #(.WIDTH(1)) u_done (.clk, .rst_n, .tvalid(m_axis_done_tvalid), .tready(m_axis_done_tready), .tdata(1'b0));

  logic started_q = 1'b0;
  wire  take = s_axis_desc_tvalid && s_axis_desc_tready;
  wire  store = s_axis_tvalid && s_axis_tready;
  wire  aw = m_axi_awvalid && m_axi_awready;
  wire  give = m_axi_wvalid && m_axi_wready;
  wire  answered = m_axi_bvalid && m_axi_bready;
  wire  done = m_axis_done_tvalid && m_axis_done_tready;

  // 1. AW. The beats before it: in its register, in the stage before that, in the splitter
  wire [6:0] aw_beats = m_axi_awvalid ? 7'(m_axi_awlen) + 7'd1 : 7'd0;
  wire [6:0] burst_beats = inner_burst ? 7'(inner_burst_beats) : 7'd0;
  wire [6:0] work_beats = inner_work ? 7'(inner_left) : 7'd0;
  wire [6:0] to_burst = aw_beats;
  wire [6:0] to_work = aw_beats + burst_beats;
  wire [6:0] split = burst_beats + work_beats;

  logic        marked_q;
  logic [ 6:0] front_q;
  logic [ 6:0] own_q;
  logic [11:0] beat_q;
  logic [ 1:0] tail_q;
  wire  [ 6:0] end_q = front_q + own_q;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (take && mark && !marked_q && s_axis_desc_beats != '0) begin
      marked_q <= 1'b1;
      front_q  <= aw_beats + split - (aw ? aw_beats : 7'd0);
      own_q    <= 7'(s_axis_desc_beats);
      beat_q   <= s_axis_desc_address[13:2];
      tail_q   <= s_axis_desc_tail;
    end else if (marked_q && aw) begin
      if (front_q != '0) front_q <= front_q - aw_beats;
      else begin
        own_q    <= own_q - aw_beats;
        beat_q   <= beat_q + 12'(aw_beats);
        marked_q <= own_q != aw_beats;
      end
    end
    if (!rst_n) marked_q <= 1'b0;
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      if (inner_burst) begin
        assert (inner_burst_beats <= 2'(MAX_BURST_BEATS));
        assert ({1'b0, inner_burst_beat[0]} + inner_burst_beats <= 2'(MAX_BURST_BEATS) || inner_burst_beats == '0);
        assert (inner_burst_last || inner_work);
      end
      if (m_axi_awvalid) assert (2'(m_axi_awaddr[2]) + 2'(m_axi_awlen) < 2'(MAX_BURST_BEATS));
      if (marked_q) begin
        assert (own_q != '0 && own_q < 7'd32);
        assert (front_q < aw_beats + split && end_q <= aw_beats + split);
        // the marked descriptor's beats are at their addresses, and no burst has beats of two descriptors
        if (aw_beats != '0 && front_q != '0) assert (aw_beats <= front_q);
        if (aw_beats != '0 && front_q == '0) begin
          assert (m_axi_awaddr == {beat_q, 2'b00});
          assert (aw_beats <= own_q);
          assert (aw_tail_q == (aw_beats == own_q ? tail_q : 2'd0));
        end
        if (burst_beats != '0 && to_burst < front_q) assert (to_burst + burst_beats <= front_q);
        if (burst_beats != '0 && to_burst >= front_q && to_burst < end_q) begin
          assert (inner_burst_beat == beat_q + 12'(to_burst - front_q));
          assert (to_burst + burst_beats <= end_q);
          assert (inner_burst_last == (to_burst + burst_beats == end_q));
          assert (inner_burst_end == tail_q - 2'd1);
        end
        if (work_beats != '0 && to_work < front_q) assert (to_work + work_beats <= front_q);
        if (work_beats != '0 && to_work >= front_q && to_work < end_q) begin
          assert (inner_work_beat == beat_q + 12'(to_work - front_q));
          assert (to_work + work_beats == end_q);
          assert (inner_work_end == tail_q - 2'd1);
        end
      end
    end
    cover (started_q && rst_n && aw && marked_q && front_q == '0 && own_q == 7'd1 && tail_q == 2'd3);
    cover (started_q && rst_n && marked_q && front_q != '0 && bursts == 4'(OUTSTANDING));
  end

  // 2. W: the lengths and tails of the current bursts, their beats, and the marked beat
  wire  [2:0] unclaimed = inner_unclaimed - (inner_claimed ? 3'(m_axi_awlen) + 3'd1 : 3'd0);
  wire  [1:0] w_stored = inner_w_write - inner_w_read;
  wire [12:0] w_first = inner_w_read[0] ? inner_w_1 : inner_w_0;
  wire [12:0] w_second = inner_w_read[0] ? inner_w_0 : inner_w_1;
  // a burst as it is queued for W: its length, whether that is one beat, and the strobes of its last beat
  function automatic logic [12:0] queued(input logic [9:0] given);
    queued = {given[7:0], given[7:0] == '0, given[9:8] != '0 ? ~(4'hf << given[9:8]) : 4'hf};
  endfunction
  wire  [3:0] unwritten = bursts + 4'(m_axi_awvalid) - written;
  wire  [1:0] tail = burst[9:8];
  wire  [2:0] stored;
  wire        through_q;
  wire  [4:0] ahead_q;
  wire [31:0] data_q;
  fifo_rules #(.WIDTH(32), .DEPTH(DEPTH)) u_fifo (
      .clk, .rst_n, .mark(store && mark_beat), .item(s_axis_tdata), .held(5'(stored) + 5'(inner_data_valid)), .upstream('0),
      .valid(inner_data_valid), .ready(give), .data(inner_data), .write(inner_data_write), .read(inner_data_read),
      .words(inner_words), .marked_q(through_q), .front_q(ahead_q), .item_q(data_q), .stored
  );

  always_comb begin
    if (started_q && rst_n) begin
      assert (unwritten == 4'(w_stored) + 4'(inner_w_valid) && unwritten == 4'(inner_unwritten) + 4'(inner_claimed));
      assert (data_waits == (m_axi_wvalid && !m_axi_wready && written < bursts));
      assert (w_stored <= 2'd2);
      if (inner_w_valid) assert ({inner_w_len, inner_w_single, inner_w_strobes} == queued(burst));
      if (inner_w_valid && w_stored == 2'd1) assert (w_first == queued(next_burst));
      if (!inner_w_valid && w_stored != '0) assert (w_first == queued(burst));
      if (!inner_w_valid && w_stored == 2'd2) assert (w_second == queued(next_burst));
      assert (inner_first == (beat == '0));
      if (!inner_first) assert (inner_after == burst[7:0] - beat && inner_last == (inner_after == '0));
      if (m_axi_wvalid) assert (m_axi_wstrb == (m_axi_wlast && tail != '0 ? ~(4'hf << tail) : 4'hf));
      // every beat that a burst has claimed is in the FIFO
      if (inner_claimed) assert (m_axi_awvalid && !inner_burst);
      assert (10'(unclaimed) + owed == 10'(stored) + 10'(inner_data_valid));
      if (inner_w_valid) assert (inner_data_valid);
      if (through_q && m_axi_wvalid && ahead_q == '0) assert (m_axi_wdata == data_q);
    end
    cover (started_q && rst_n && give && through_q && ahead_q == '0 && m_axi_wlast && m_axi_wstrb == 4'h1 && beat == 8'd1);
    cover (started_q && rst_n && stored == 3'(DEPTH));
    cover (started_q && rst_n && m_axi_awvalid && written > bursts && bursts != '0);
  end

  // 3. B and the answers. The queue of bursts and empty descriptors with a response or an answer due, the oldest first
  wire [1:0] order_stored = inner_order_write - inner_order_read;
  wire [2:0] entry;
  wire [2:0] entry_last;
  wire [2:0] entry_burst;
  wire [3:0][2:0] lasts;  // descriptors that end before an entry
  wire [3:0][2:0] ahead_of;  // bursts before an entry
  wire [3:0][2:0] up_to;  // those of them up to the end of the marked descriptor

  logic [3:0] flight_q;  // descriptors taken and not answered
  logic       followed_q;
  logic [3:0] before_q;
  logic [6:0] beats_q;
  logic [2:0] responses_q;

  assign entry[0]       = inner_order_valid;
  assign entry_last[0]  = inner_order_valid && inner_order_last;
  assign entry_burst[0] = inner_order_valid && !inner_order_empty;
  for (genvar i = 0; i < OUTSTANDING; i++) begin : gen_entry
    wire       place = inner_order_read[0] ^ 1'(i);
    wire [1:0] bits = place ? inner_order_1 : inner_order_0;
    assign entry[i+1]       = order_stored > 2'(i);
    assign entry_last[i+1]  = entry[i+1] && bits[1];
    assign entry_burst[i+1] = entry[i+1] && !bits[0];
  end
  wire [3:0] wanted = before_q - 4'(m_axis_done_tvalid);
  assign lasts[0]  = '0;
  assign ahead_of[0] = '0;
  assign up_to[0]  = '0;
  for (genvar i = 0; i <= OUTSTANDING; i++) begin : gen_sum
    assign lasts[i+1]  = lasts[i] + 3'(entry_last[i]);
    assign ahead_of[i+1] = ahead_of[i] + 3'(entry_burst[i]);
    assign up_to[i+1]  = up_to[i] + 3'(entry_burst[i] && 4'(lasts[i]) <= wanted);
    always_comb if (started_q && rst_n && entry[i] && !entry_burst[i]) assert (entry_last[i]);
  end

  wire [3:0] out = 4'(m_axis_done_tvalid) + 4'(lasts[3]);  // descriptors that the splitter has finished
  wire [3:0] finishing = 4'(inner_burst && inner_burst_last) + 4'(inner_work);
  wire [6:0] asked_beats = inner_ask ? burst_beats : 7'd0;

  always_ff @(posedge clk) begin
    flight_q <= flight_q + 4'(take) - 4'(done);
    if (take && mark_answer && !followed_q) begin
      followed_q  <= 1'b1;
      before_q    <= flight_q - 4'(done);
      beats_q     <= split + 7'(s_axis_desc_beats) - asked_beats;
      responses_q <= ahead_of[3] + 3'(inner_ask) - 3'(answered);
    end else if (followed_q) begin
      if (done) begin
        before_q   <= before_q - 4'd1;
        followed_q <= before_q != '0;
      end
      beats_q     <= beats_q - (beats_q != '0 ? asked_beats : 7'd0);
      responses_q <= responses_q + 3'(inner_ask && beats_q != '0) - 3'(answered && responses_q != '0);
    end
    if (!rst_n) begin
      flight_q   <= '0;
      followed_q <= 1'b0;
    end
  end

  logic error_q;
  always_ff @(posedge clk) begin
    if (answered && m_axi_bresp != 2'b00) error_q <= 1'b1;
    if (!rst_n) error_q <= 1'b0;
  end

  always_comb begin
    if (started_q && rst_n) begin
      assert (order_stored <= 2'(OUTSTANDING) && inner_due <= 2'(OUTSTANDING));
      if (inner_gone) assert (!inner_burst);
      assert (inner_due + 2'(inner_gone) == order_stored + 2'(inner_order_valid));
      assert (4'(ahead_of[3]) == bursts + 4'(m_axi_awvalid));
      assert (flight_q == out + finishing);
      assert (error == error_q);
      if (inner_work && inner_burst && !inner_burst_last) assert (inner_left != '0);
      if (inner_burst && inner_burst_beats == '0) assert (inner_burst_last);
      if (followed_q) begin
        assert (before_q < flight_q);
        if (before_q < out) begin
          assert (beats_q == '0);
          assert (responses_q == (m_axis_done_tvalid && before_q == '0 ? 3'd0 : up_to[3]));
        end else begin
          assert (responses_q == ahead_of[3]);
          if (inner_burst && inner_burst_last && before_q == out) assert (beats_q == burst_beats);
          else assert (beats_q == split);
        end
        // at the answer, nothing of the descriptor is left to be written or unanswered
        if (m_axis_done_tvalid && before_q == '0) assert (beats_q == '0 && responses_q == '0);
      end
    end
    cover (started_q && rst_n && done && followed_q && before_q == '0 && flight_q == 4'd3);
    cover (started_q && rst_n && flight_q == 4'd5);
    cover (started_q && rst_n && error);
  end

  // 4. No deadlock: while an answer is due, it offers a beat, an answer, or a burst whose data have been taken, or a response or a
  // beat of the producer is owed, or in the next clock it is one step nearer to that: in the splitter, a burst's length, a burst, or
  // one whose data are there; in the queue of answers, at its head. A burst whose data are not offered does not count: the memory
  // may wait for them before it takes AW
  logic [2:0] idle_q;
  wire        waits = (m_axi_awvalid && written > bursts) || m_axi_wvalid || m_axis_done_tvalid
      || (written != '0 && bursts != '0 && !m_axi_bvalid) || answered || (s_axis_tready && 7'(unclaimed) < split);
  wire  [2:0] step = inner_order_valid ? 3'd5 : order_stored != '0 ? 3'd4 : inner_burst ? 3'd2 + 3'(inner_buffered) : 3'(inner_known);

  always_ff @(posedge clk) idle_q <= (rst_n && flight_q != '0 && !waits) ? idle_q + 1'b1 : '0;

  always_comb begin
    if (started_q && rst_n && flight_q != '0 && !waits) assert (idle_q <= step);
    cover (started_q && rst_n && idle_q == 3'd5);
  end

endmodule

`default_nettype wire
