// SPDX-License-Identifier: Apache-2.0
//
// axi_read_master obeys the rules of AXI; the bursts it requests are those of its descriptors, contiguous and in order; RREADY
// never falls while a beat is owed, because every burst has its room; each beat received is passed on once, in order; and there
// is no deadlock.
//
// The solver marks a descriptor: `front_q` beats are requested before it, then its own, `own_q` of them from `beat_q` up. In the
// same way a received beat is marked and followed through the FIFO. Beats have two bytes, bursts two beats, and two bursts are in
// flight.
`default_nettype none

module axi_read_master_proof (
    input logic        clk,
    input logic        rst_n,
    input logic        s_axis_desc_tvalid,
    input logic [13:0] s_axis_desc_address,
    input logic [ 4:0] s_axis_desc_beats,
    input logic        m_axis_tready,
    input logic        m_axi_arready,
    input logic [15:0] m_axi_rdata,
    input logic [ 1:0] m_axi_rresp,
    input logic        m_axi_rlast,
    input logic        m_axi_rvalid,
    input logic        mark,
    input logic        mark_beat
);

  localparam int MAX_BURST_BEATS = 2;
  localparam int OUTSTANDING = 2;
  localparam int DEPTH = MAX_BURST_BEATS * OUTSTANDING;

  logic        s_axis_desc_tready;
  logic        m_axis_tvalid;
  logic [15:0] m_axis_tdata;
  logic [13:0] m_axi_araddr;
  logic [ 7:0] m_axi_arlen;
  logic [ 2:0] m_axi_arsize;
  logic [ 1:0] m_axi_arburst;
  logic        m_axi_arvalid;
  logic        m_axi_rready;
  logic        error;

  axi_read_master #(
      .ADDR_WIDTH     (14),
      .DATA_WIDTH     (16),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .OUTSTANDING    (OUTSTANDING),
      .COUNT_WIDTH    (5)
  ) u_axi_read_master (
      .*,
      .m_axi_arid   (),
      .m_axi_arcache(),
      .m_axi_arprot (),
      .m_axi_rid    (1'b0)
  );

  wire [13:0] beat_address;
  wire [ 3:0] bursts;
  wire [ 9:0] owed;

  axi_read_rules #(
      .ADDR_WIDTH     (14),
      .DATA_WIDTH     (16),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .OUTSTANDING    (OUTSTANDING)
  ) u_memory (
      .clk,
      .rst_n,
      .araddr (m_axi_araddr),
      .arlen  (m_axi_arlen),
      .arsize (m_axi_arsize),
      .arburst(m_axi_arburst),
      .arvalid(m_axi_arvalid),
      .arready(m_axi_arready),
      .rdata  (m_axi_rdata),
      .rresp  (m_axi_rresp),
      .rlast  (m_axi_rlast),
      .rvalid (m_axi_rvalid),
      .rready (m_axi_rready),
      .beat_address,
      .bursts,
      .owed
  );

  wire [18:0] desc = {s_axis_desc_address, s_axis_desc_beats};
  stream_rules #(.WIDTH(19), .ASSUME(1'b1)) u_desc (.clk, .rst_n, .tvalid(s_axis_desc_tvalid), .tready(s_axis_desc_tready), .tdata(desc));
  stream_rules #(.WIDTH(16)) u_out (.clk, .rst_n, .tvalid(m_axis_tvalid), .tready(m_axis_tready), .tdata(m_axis_tdata));

  (* inner = "u_axi_read_master.free_q" *) wire [2:0] inner_free;
  (* inner = "u_axi_read_master.claimed_q" *) wire inner_claimed;
  (* inner = "u_axi_read_master.bursts_q" *) wire [1:0] inner_bursts;
  (* inner = "u_axi_read_master.u_axi_burst_split.busy_q" *) wire inner_work;
  (* inner = "u_axi_read_master.u_axi_burst_split.beat_q" *) wire [12:0] inner_work_beat;
  (* inner = "u_axi_read_master.u_axi_burst_split.left_q" *) wire [4:0] inner_left;
  (* inner = "u_axi_read_master.u_axi_burst_split.burst_valid_q" *) wire inner_burst;
  (* inner = "u_axi_read_master.u_axi_burst_split.burst_beat_q" *) wire [12:0] inner_burst_beat;
  (* inner = "u_axi_read_master.u_axi_burst_split.burst_beats_q" *) wire [1:0] inner_burst_beats;
  (* inner = "u_axi_read_master.u_axis_fifo.write_pointer_q" *) wire [2:0] inner_write;
  (* inner = "u_axi_read_master.u_axis_fifo.read_pointer_q" *) wire [2:0] inner_read;
  (* inner = "u_axi_read_master.u_axis_fifo.memory[3:0]" *) wire [63:0] inner_words;

  logic started_q = 1'b0;
  wire  take = s_axis_desc_tvalid && s_axis_desc_tready;
  wire  ask = m_axi_arvalid && m_axi_arready;
  wire  come = m_axi_rvalid && m_axi_rready;
  wire  give = m_axis_tvalid && m_axis_tready;

  // Beats before AR: in its register, in the stage before that, in the splitter
  wire [6:0] ar_beats = m_axi_arvalid ? 7'(m_axi_arlen) + 7'd1 : 7'd0;
  wire [6:0] burst_beats = inner_burst ? 7'(inner_burst_beats) : 7'd0;
  wire [6:0] work_beats = inner_work ? 7'(inner_left) : 7'd0;
  wire [6:0] to_burst = ar_beats;
  wire [6:0] to_work = ar_beats + burst_beats;
  wire [6:0] unasked = ar_beats + burst_beats + work_beats;
  logic [6:0] asked_beats;  // by the AR of this clock
  assign asked_beats = ask ? ar_beats : 7'd0;

  // The marked descriptor
  logic        marked_q;
  logic [ 6:0] front_q;
  logic [ 6:0] own_q;
  logic [12:0] beat_q;
  wire  [ 6:0] end_q = front_q + own_q;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (take && mark && !marked_q && s_axis_desc_beats != '0) begin
      marked_q <= 1'b1;
      front_q  <= unasked - asked_beats;
      own_q    <= 7'(s_axis_desc_beats);
      beat_q   <= s_axis_desc_address[13:1];
    end else if (marked_q && ask) begin
      if (front_q != '0) front_q <= front_q - ar_beats;
      else begin
        own_q    <= own_q - ar_beats;
        beat_q   <= beat_q + 13'(ar_beats);
        marked_q <= own_q != ar_beats;
      end
    end
    if (!rst_n) marked_q <= 1'b0;
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      assert (!inner_work || inner_left != '0 || s_axis_desc_tready == 1'b0);
      if (inner_burst) begin
        assert (inner_burst_beats <= 2'(MAX_BURST_BEATS));
        assert ({1'b0, inner_burst_beat[0]} + inner_burst_beats <= 2'(MAX_BURST_BEATS) || inner_burst_beats == '0);
      end
      if (m_axi_arvalid) assert (2'(m_axi_araddr[1]) + 2'(m_axi_arlen) < 2'(MAX_BURST_BEATS));
      if (marked_q) begin
        assert (own_q != '0 && own_q < 7'd32);
        assert (front_q < unasked && end_q <= unasked);
        // the marked descriptor's beats are at their addresses, and no burst has beats of two descriptors
        if (ar_beats != '0 && front_q != '0) assert (ar_beats <= front_q);
        if (ar_beats != '0 && front_q == '0) begin
          assert (m_axi_araddr == {beat_q, 1'b0});
          assert (ar_beats <= own_q);
        end
        if (burst_beats != '0 && to_burst < front_q) assert (to_burst + burst_beats <= front_q);
        if (burst_beats != '0 && to_burst >= front_q && to_burst < end_q) begin
          assert (inner_burst_beat == beat_q + 13'(to_burst - front_q));
          assert (to_burst + burst_beats <= end_q);
        end
        if (work_beats != '0 && to_work < front_q) assert (to_work + work_beats <= front_q);
        if (work_beats != '0 && to_work >= front_q && to_work < end_q) begin
          assert (inner_work_beat == beat_q + 13'(to_work - front_q));
          assert (to_work + work_beats == end_q);
        end
      end
    end
    cover (started_q && rst_n && ask && marked_q && front_q == '0 && own_q == 7'd1);
    cover (started_q && rst_n && marked_q && front_q == 7'd2 && bursts == 4'(OUTSTANDING));
  end

  // The marked beat in the FIFO
  wire [2:0] stored;
  wire [4:0] ahead_q;
  wire       through_q;
  fifo_rules #(.WIDTH(16), .DEPTH(DEPTH)) u_fifo (
      .clk, .rst_n, .mark(come && mark_beat), .item(m_axi_rdata), .held(5'(stored) + 5'(m_axis_tvalid)), .upstream('0),
      .valid(m_axis_tvalid), .ready(m_axis_tready), .data(m_axis_tdata),
      .write(inner_write), .read(inner_read), .words(inner_words), .marked_q(through_q), .front_q(ahead_q), .stored
  );

  // Room: there is a place for every beat that may still arrive
  wire [2:0] free = inner_free - (inner_claimed ? 3'(m_axi_arlen) + 3'd1 : 3'd0);

  logic error_q;
  always_ff @(posedge clk) begin
    if (come && m_axi_rresp != 2'b00) error_q <= 1'b1;
    if (!rst_n) error_q <= 1'b0;
  end

  always_comb begin
    if (started_q && rst_n) begin
      if (inner_claimed) assert (m_axi_arvalid && !inner_burst);
      assert (10'(free) + 10'(ar_beats) + owed + 10'(stored) + 10'(m_axis_tvalid) == 10'(DEPTH));
      assert (4'(inner_bursts) + 4'(inner_claimed) == bursts + 4'(m_axi_arvalid));
      if (owed != '0) assert (m_axi_rready);
      assert (error == error_q);
    end
    cover (started_q && rst_n && free == '0 && owed == '0);
    cover (started_q && rst_n && error);
    cover (started_q && rst_n && give && through_q && ahead_q == '0 && marked_q);
  end

  // No deadlock: while beats are due, it offers a burst or a beat, or beats are owed, or it proceeds within four clocks
  logic [2:0] idle_q;
  wire        due = unasked != '0 || stored != '0;
  wire        waits = m_axi_arvalid || m_axis_tvalid || owed != '0;

  always_ff @(posedge clk) idle_q <= (rst_n && due && !waits) ? idle_q + 1'b1 : '0;

  always_comb begin
    if (started_q && rst_n) assert (idle_q < 3'd4);
    cover (started_q && rst_n && idle_q == 3'd3);
  end

endmodule

`default_nettype wire
