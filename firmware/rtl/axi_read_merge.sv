// SPDX-License-Identifier: Apache-2.0
//
// Merges the AXI4 reads of several masters onto one bus that answers in any order and allows only one read of an ID in flight
// (the AWS F2 shell's PCIM).
//
//   unit 0 AR --.                                                  .-> unit 0 R
//               round_robin -> axi_burst_split -> m_axi AR         |
//   unit 1 AR --'              slot = ID = tail   m_axi R -> beats -'-> unit 1 R
//
// A burst takes the next slot of a ring, and the slot's number is its ID. So an ID is used again only when the beats of its
// last burst have been received and passed on. There are SLOTS slots, at most 32. Each has room for MAX_BURST_BEATS beats, so
// RREADY never falls. Beats are stored in the slot of their ID, in any order of arrival, and are passed on in the order of the
// slots as soon as they are there. So each unit receives the answers in the order of its requests.
//
// A unit that does not take its beats blocks the others; axi_read_master always takes the beats it has requested. Bursts longer
// than MAX_BURST_BEATS, or across a multiple of it, are split; the unit sees the answer to the whole burst.
`default_nettype none

module axi_read_merge #(
    // masters
    parameter int UNITS = 2,
    // bits of an address
    parameter int ADDR_WIDTH = 64,
    // bits of a beat
    parameter int DATA_WIDTH = 512,
    // bits of an ID of the bus
    parameter int ID_WIDTH = 16,
    // beats of the longest burst on the bus, a power of two, at most 4 KiB in all
    parameter int MAX_BURST_BEATS = 64,
    // bursts in flight at once, a power of two from 2 to 32
    parameter int SLOTS = 32
) (
    input  logic clk,
    input  logic rst_n,

    input  logic [UNITS-1:0][ADDR_WIDTH-1:0] s_axi_araddr,
    input  logic [UNITS-1:0][           7:0] s_axi_arlen,
    input  logic [UNITS-1:0]                 s_axi_arvalid,
    output logic [UNITS-1:0]                 s_axi_arready,
    // one beat for all units; rvalid selects the unit
    output logic [DATA_WIDTH-1:0]            s_axi_rdata,
    output logic [           1:0]            s_axi_rresp,
    output logic                             s_axi_rlast,
    output logic [UNITS-1:0]                 s_axi_rvalid,
    input  logic [UNITS-1:0]                 s_axi_rready,

    output logic [ADDR_WIDTH-1:0] m_axi_araddr,
    output logic [  ID_WIDTH-1:0] m_axi_arid,
    output logic [           7:0] m_axi_arlen,
    output logic [           2:0] m_axi_arsize,
    output logic [           1:0] m_axi_arburst,
    output logic                  m_axi_arvalid,
    input  logic                  m_axi_arready,
    input  logic [DATA_WIDTH-1:0] m_axi_rdata,
    input  logic [  ID_WIDTH-1:0] m_axi_rid,
    input  logic [           1:0] m_axi_rresp,
    input  logic                  m_axi_rlast,
    input  logic                  m_axi_rvalid,
    output logic                  m_axi_rready
);

  localparam int UNIT_BITS = UNITS > 1 ? $clog2(UNITS) : 1;
  localparam int SLOT_BITS = $clog2(SLOTS);
  localparam int BEAT_BITS = $clog2(MAX_BURST_BEATS);
  localparam int COUNT_WIDTH = 9;  // ARLEN + 1

  if (SLOTS < 2 || SLOTS > 32 || (SLOTS & (SLOTS - 1)) != 0 || SLOT_BITS > ID_WIDTH) begin : g_check_slots
    $error("axi_read_merge %m: SLOTS is %0d, expected a power of two from 2 to 32 that ID_WIDTH %0d can tell", SLOTS, ID_WIDTH);
  end

  // Address channel of the units: one at a time to the splitter
  logic [     UNITS-1:0] grant;
  logic                  desc_ready;
  logic [ADDR_WIDTH-1:0] desc_address;
  logic [           7:0] desc_len;
  logic [ UNIT_BITS-1:0] desc_unit;

  wire desc_valid = s_axi_arvalid != '0;

  round_robin #(
      .COUNT(UNITS)
  ) u_round_robin (
      .clk    (clk),
      .rst_n  (rst_n),
      .request(s_axi_arvalid),
      .taken  (desc_valid && desc_ready),
      .grant  (grant)
  );

  always_comb begin
    desc_address = '0;
    desc_len     = '0;
    desc_unit    = '0;
    for (int i = 0; i < UNITS; i++) begin
      if (grant[i]) begin
        desc_address = s_axi_araddr[i];
        desc_len     = s_axi_arlen[i];
        desc_unit    = UNIT_BITS'(i);
      end
    end
  end

  assign s_axi_arready = grant & {UNITS{desc_ready}};

  logic                  burst_valid;
  logic                  burst_ready;
  logic [ADDR_WIDTH-1:0] burst_address;
  logic [   BEAT_BITS:0] burst_beats;
  logic                  burst_last;
  logic [ UNIT_BITS-1:0] burst_unit;

  axi_burst_split #(
      .ADDR_WIDTH     (ADDR_WIDTH),
      .BEAT_BYTES     (DATA_WIDTH / 8),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .COUNT_WIDTH    (COUNT_WIDTH),
      .USER_WIDTH     (UNIT_BITS)
  ) u_axi_burst_split (
      .clk                 (clk),
      .rst_n               (rst_n),
      .s_axis_desc_tvalid  (desc_valid),
      .s_axis_desc_tready  (desc_ready),
      .s_axis_desc_address (desc_address),
      .s_axis_desc_beats   (COUNT_WIDTH'(desc_len) + 1'b1),
      .s_axis_desc_user    (desc_unit),
      .m_axis_burst_tvalid (burst_valid),
      .m_axis_burst_tready (burst_ready),
      .m_axis_burst_address(burst_address),
      .m_axis_burst_beats  (burst_beats),
      .m_axis_burst_last   (burst_last),
      .m_axis_burst_user   (burst_unit)
  );

  // Slots: a request takes the one at the tail, and beats are passed on from the head. The pointers have one bit more than the
  // number of a slot.
  logic [          SLOT_BITS:0] tail_q;
  logic [          SLOT_BITS:0] head_q;
  logic [          SLOT_BITS:0] used_q;  // slots from the head to the tail; one more in the clock after the head moves
  logic                         moved_q;  // the head has moved in the last clock
  logic [            SLOTS-1:0] gone_q;  // a bit for each slot: from this one
  logic [UNIT_BITS+BEAT_BITS:0] order[SLOTS];  // the unit, whether the unit's burst ends with it, and its beats less one

  wire [SLOT_BITS-1:0] tail = tail_q[SLOT_BITS-1:0];
  wire [SLOT_BITS-1:0] head = head_q[SLOT_BITS-1:0];

  logic                  ar_valid_q;
  logic [ADDR_WIDTH-1:0] ar_address_q;
  logic [           7:0] ar_len_q;
  logic [ SLOT_BITS-1:0] ar_slot_q;

  wire [BEAT_BITS-1:0] burst_len = BEAT_BITS'(burst_beats - 1'b1);
  wire                 ask = burst_valid && !used_q[SLOT_BITS] && (!ar_valid_q || m_axi_arready);

  assign burst_ready = ask;

  always_ff @(posedge clk) begin
    if (ask) begin
      ar_address_q <= burst_address;
      ar_len_q     <= 8'(burst_len);
      ar_slot_q    <= tail;
      order[tail]  <= {burst_unit, burst_last, burst_len};
      tail_q       <= tail_q + 1'b1;
    end
    if (!ar_valid_q || m_axi_arready) ar_valid_q <= ask;
    used_q <= used_q + (SLOT_BITS + 1)'(ask) - (SLOT_BITS + 1)'(moved_q);
    if (!rst_n) begin
      ar_valid_q <= 1'b0;
      tail_q     <= '0;
      used_q     <= '0;
    end
  end

  assign m_axi_araddr  = ar_address_q;
  assign m_axi_arid    = ID_WIDTH'(ar_slot_q);
  assign m_axi_arlen   = ar_len_q;
  assign m_axi_arsize  = 3'($clog2(DATA_WIDTH / 8));
  assign m_axi_arburst = 2'b01;  // INCR
  assign m_axi_arvalid = ar_valid_q;

  // Beats received: a register, and then the slot of their ID
  logic                  come_q;
  logic [ SLOT_BITS-1:0] come_slot_q;
  logic [     SLOTS-1:0] come_at_q;  // a bit for each slot: the same slot
  logic [DATA_WIDTH+1:0] come_beat_q;  // RRESP and data
  logic [   BEAT_BITS:0] there_q[SLOTS];  // beats received in each slot
  logic [ BEAT_BITS-1:0] place;  // those in the slot of the beat
  logic [DATA_WIDTH+1:0] beats[SLOTS*MAX_BURST_BEATS];

  assign m_axi_rready = 1'b1;

  always_comb begin
    place = '0;
    for (int i = 0; i < SLOTS; i++) place = place | (there_q[i][BEAT_BITS-1:0] & {BEAT_BITS{come_at_q[i]}});
  end

  always_ff @(posedge clk) begin
    come_q      <= m_axi_rvalid && rst_n;
    come_slot_q <= m_axi_rid[SLOT_BITS-1:0];
    come_at_q   <= SLOTS'(1) << m_axi_rid[SLOT_BITS-1:0];
    come_beat_q <= {m_axi_rresp, m_axi_rdata};
    if (come_q) beats[{come_slot_q, place}] <= come_beat_q;
  end

  for (genvar i = 0; i < SLOTS; i++) begin : gen_slot
    always_ff @(posedge clk) begin
      if (gone_q[i] || !rst_n) there_q[i] <= '0;
      else if (come_q && come_at_q[i]) there_q[i] <= there_q[i] + 1'b1;
    end
  end

  always_comb if (rst_n && come_q) assert (come_at_q == SLOTS'(1) << come_slot_q);

  // Beats passed on, from the slot at the head. What is known of it is read a clock earlier, because selecting one of the slots takes
  // time; so each new head costs a clock.
  logic [            SLOTS-1:0] head_at_q;  // a bit for each slot: the head
  logic [          BEAT_BITS:0] there;  // beats received in the head
  logic                         known_q;  // entry_q, left_q and ends_q are those of the head
  logic [          UNIT_BITS:0] entry_q;  // the head's in `order`, without its beats
  logic [          BEAT_BITS:0] seen_q;  // `there` a clock ago; none when the head has just moved
  logic [          BEAT_BITS:0] beat_q;  // beats of the head that have been read
  logic [        BEAT_BITS-1:0] left_q;  // those that have not been read, less one
  logic                         ends_q;  // it is one
  logic                         out_valid_q;
  logic                         out_last_q;
  logic [        UNIT_BITS-1:0] out_unit_q;
  logic [       DATA_WIDTH+1:0] out_beat_q;

  wire [UNIT_BITS-1:0] head_unit;
  wire                 head_last;
  wire [BEAT_BITS-1:0] head_len = order[head][BEAT_BITS-1:0];
  assign {head_unit, head_last} = entry_q;
  wire                 waits = seen_q != beat_q;
  wire                 moves = !out_valid_q || s_axi_rready[out_unit_q];
  wire                 read = waits && moves;

  always_comb begin
    there = '0;
    for (int i = 0; i < SLOTS; i++) there = there | (there_q[i] & {(BEAT_BITS + 1) {head_at_q[i]}});
  end

  always_ff @(posedge clk) begin
    seen_q  <= read && ends_q ? '0 : there;
    entry_q <= order[head][UNIT_BITS+BEAT_BITS:BEAT_BITS];
    known_q <= head_q != tail_q && !(read && ends_q);
    moved_q <= read && ends_q;
    gone_q  <= head_at_q & {SLOTS{read && ends_q}};
    if (read || !known_q) begin
      left_q <= read ? left_q - 1'b1 : head_len;
      ends_q <= read ? left_q == BEAT_BITS'(1) : head_len == '0;
    end
    if (moves) begin  // whether or not the beat is there: out_valid_q says so, and the comparison does not drive the memory
      out_valid_q <= waits;
      out_unit_q  <= head_unit;
      out_last_q  <= head_last && ends_q;
      out_beat_q  <= beats[{head, beat_q[BEAT_BITS-1:0]}];
    end
    if (read) begin
      beat_q <= ends_q ? '0 : beat_q + 1'b1;
      if (ends_q) begin
        head_q    <= head_q + 1'b1;
        head_at_q <= {head_at_q[SLOTS-2:0], head_at_q[SLOTS-1]};
      end
    end
    if (!rst_n) begin
      seen_q      <= '0;
      known_q     <= 1'b0;
      out_valid_q <= 1'b0;
      head_q      <= '0;
      head_at_q   <= SLOTS'(1);
      moved_q     <= 1'b0;
      gone_q      <= '0;
      beat_q      <= '0;
    end
  end

  always_comb begin
    if (rst_n) assert (head_at_q == SLOTS'(1) << head && used_q == (SLOT_BITS + 1)'(tail_q - head_q) + (SLOT_BITS + 1)'(moved_q));
    if (rst_n) assert (moved_q == (gone_q != '0) && (known_q || !waits));
    if (rst_n && known_q) begin
      assert ({entry_q, BEAT_BITS'(beat_q[BEAT_BITS-1:0] + left_q)} == order[head]);
      assert (ends_q == (left_q == '0));
    end
  end

  assign s_axi_rdata = out_beat_q[DATA_WIDTH-1:0];
  assign s_axi_rresp = out_beat_q[DATA_WIDTH+1:DATA_WIDTH];
  assign s_axi_rlast = out_last_q;

  for (genvar i = 0; i < UNITS; i++) begin : gen_unit
    assign s_axi_rvalid[i] = out_valid_q && out_unit_q == UNIT_BITS'(i);
  end

  // the beats of a burst are counted, so RLAST is not needed
  wire unused = &{1'b0, m_axi_rlast, m_axi_rid};

endmodule

`default_nettype wire
