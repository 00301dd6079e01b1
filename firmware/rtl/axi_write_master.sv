// SPDX-License-Identifier: Apache-2.0
//
// Writes a stream of beats over AXI4 to the memory that descriptors (address, number of beats, bytes of the last one) name.
//
// AW is offered only when all data of its burst are buffered, so a slow producer never blocks the interconnect. W is offered in
// the clock after its AW at the latest, whether or not AW has been taken: a memory may wait for WVALID before it gives AWREADY
// (AXI4, A3.3.1). W is never offered before its AW. The strobes of a descriptor's last beat are exact to the byte: nothing after
// the descriptor's end is written. Each descriptor gives one done, in order, when the last of its B responses has arrived. A
// descriptor of 0 beats takes no beat and is done as soon as those before it are.
//
//   data FIFO    ====64 beats====|====64 beats====|==tail==
//   AW                           A1               A2      A3
//   W                             ======64======== =======64==== ==tail=
//   B                                                 B1             B2    B3 -> done
//
// All bursts have one ID, so responses arrive in order. `error` stays set from the first BRESP that is not OKAY until reset.
`default_nettype none

module axi_write_master #(
    // bits of an address
    parameter int ADDR_WIDTH = 64,
    // bits of a beat
    parameter int DATA_WIDTH = 512,
    // beats of the longest burst, a power of two, at most 4 KiB in all; the data FIFO holds two
    parameter int MAX_BURST_BEATS = 64,
    // the most bursts without a response, a power of two
    parameter int OUTSTANDING = 16,
    // bits of a descriptor's number of beats
    parameter int COUNT_WIDTH = 43
) (
    input  logic clk,
    input  logic rst_n,

    // tail: bytes of the last beat, 0: all
    input  logic                            s_axis_desc_tvalid,
    output logic                            s_axis_desc_tready,
    input  logic [          ADDR_WIDTH-1:0] s_axis_desc_address,
    input  logic [         COUNT_WIDTH-1:0] s_axis_desc_beats,
    input  logic [$clog2(DATA_WIDTH/8)-1:0] s_axis_desc_tail,

    input  logic                    s_axis_tvalid,
    output logic                    s_axis_tready,
    input  logic [  DATA_WIDTH-1:0] s_axis_tdata,

    output logic                    m_axis_done_tvalid,
    input  logic                    m_axis_done_tready,

    output logic [  ADDR_WIDTH-1:0] m_axi_awaddr,
    output logic [             0:0] m_axi_awid,
    output logic [             7:0] m_axi_awlen,
    output logic [             2:0] m_axi_awsize,
    output logic [             1:0] m_axi_awburst,
    output logic [             3:0] m_axi_awcache,
    output logic [             2:0] m_axi_awprot,
    output logic                    m_axi_awvalid,
    input  logic                    m_axi_awready,
    output logic [  DATA_WIDTH-1:0] m_axi_wdata,
    output logic [DATA_WIDTH/8-1:0] m_axi_wstrb,
    output logic                    m_axi_wlast,
    output logic                    m_axi_wvalid,
    input  logic                    m_axi_wready,
    input  logic [             0:0] m_axi_bid,
    input  logic [             1:0] m_axi_bresp,
    input  logic                    m_axi_bvalid,
    output logic                    m_axi_bready,

    // an address waits for AWREADY, or a burst with all its data waits for a response because OUTSTANDING are in flight
    output logic                    address_waits,
    // a beat of a burst whose address has been taken waits for WREADY
    output logic                    data_waits,
    output logic                    error
);

  localparam int BEAT_BYTES = DATA_WIDTH / 8;
  localparam int BYTE_BITS = $clog2(BEAT_BYTES);
  localparam int BURST_BITS = $clog2(MAX_BURST_BEATS);
  localparam int DEPTH = 2 * MAX_BURST_BEATS;
  localparam int DEPTH_BITS = $clog2(DEPTH);
  localparam int OUTSTANDING_BITS = $clog2(OUTSTANDING);

  if (OUTSTANDING < 2 || (OUTSTANDING & (OUTSTANDING - 1)) != 0) begin : g_check_outstanding
    $error("axi_write_master %m: OUTSTANDING is %0d, expected a power of two from 2", OUTSTANDING);
  end

  // Descriptors to bursts; each burst has a copy of the index of the last byte of the descriptor's last beat.
  logic                  burst_valid;
  logic                  burst_ready;
  logic [ADDR_WIDTH-1:0] burst_address;
  logic [  BURST_BITS:0] burst_beats;
  logic                  burst_last;
  logic [ BYTE_BITS-1:0] burst_end;

  axi_burst_split #(
      .ADDR_WIDTH     (ADDR_WIDTH),
      .BEAT_BYTES     (BEAT_BYTES),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .COUNT_WIDTH    (COUNT_WIDTH),
      .USER_WIDTH     (BYTE_BITS)
  ) u_axi_burst_split (
      .clk                 (clk),
      .rst_n               (rst_n),
      .s_axis_desc_tvalid  (s_axis_desc_tvalid),
      .s_axis_desc_tready  (s_axis_desc_tready),
      .s_axis_desc_address (s_axis_desc_address),
      .s_axis_desc_beats   (s_axis_desc_beats),
      .s_axis_desc_user    (s_axis_desc_tail - 1'b1),
      .m_axis_burst_tvalid (burst_valid),
      .m_axis_burst_tready (burst_ready),
      .m_axis_burst_address(burst_address),
      .m_axis_burst_beats  (burst_beats),
      .m_axis_burst_last   (burst_last),
      .m_axis_burst_user   (burst_end)
  );

  logic                  data_valid;
  logic                  data_ready;
  logic [DATA_WIDTH-1:0] data;

  axis_fifo #(
      .WIDTH(DATA_WIDTH),
      .DEPTH(DEPTH)
  ) u_axis_fifo_data (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(s_axis_tready),
      .s_axis_tdata (s_axis_tdata),
      .m_axis_tvalid(data_valid),
      .m_axis_tready(data_ready),
      .m_axis_tdata (data)
  );

  // Address channel: a burst leaves the splitter a clock after its data are in the FIFO.
  logic                      aw_valid_q;
  logic [    ADDR_WIDTH-1:0] aw_address_q;
  logic [               7:0] aw_len_q;
  logic                      claimed_q;  // AW has been asked for in the clock before
  logic [      DEPTH_BITS:0] unclaimed_q;  // beats in the FIFO that do not belong to a burst yet, or to that of claimed_q
  logic                      left_q;  // a burst or an empty descriptor has left in the clock before
  logic [OUTSTANDING_BITS:0] due_q;  // bursts without a response, and empty descriptors between them, without that of left_q

  logic order_s_ready;
  logic order_valid;
  logic order_ready;
  logic order_last;
  logic order_empty;

  wire below = !due_q[OUTSTANDING_BITS];
  wire empty = burst_beats == '0;
  logic buffered_q;  // a burst is offered, and its data were in the FIFO in the clock before
  wire ask = buffered_q && below && (!aw_valid_q || m_axi_awready);
  wire stored = s_axis_tvalid && s_axis_tready;
  wire skip = burst_valid && empty && below;
  wire answered = m_axi_bvalid && m_axi_bready;

  // A burst is counted, and its beats are subtracted, in the clock after it leaves, in which the splitter offers none. So the
  // comparison and the subtraction are not in one clock. x - n is x + the complement of n - 1.
  wire [DEPTH_BITS:0] claim = (DEPTH_BITS + 1)'(aw_len_q) ^ {(DEPTH_BITS + 1){1'b1}};

  assign burst_ready   = ask || skip;
  assign address_waits = (aw_valid_q && !m_axi_awready) || (buffered_q && !below);

  always_ff @(posedge clk) begin
    if (ask) begin
      aw_address_q <= burst_address;
      aw_len_q     <= 8'(burst_beats - 1'b1);
    end
    if (!aw_valid_q || m_axi_awready) aw_valid_q <= ask;
    buffered_q  <= burst_valid && !burst_ready && !empty && unclaimed_q >= (DEPTH_BITS + 1)'(burst_beats);
    claimed_q   <= ask;
    unclaimed_q <= unclaimed_q + (claimed_q ? claim : '0) + (DEPTH_BITS + 1)'(stored);
    left_q      <= burst_ready;
    due_q       <= due_q + (OUTSTANDING_BITS + 1)'(left_q) - (OUTSTANDING_BITS + 1)'(order_valid && order_ready);
    if (!rst_n) begin
      aw_valid_q  <= 1'b0;
      buffered_q  <= 1'b0;
      claimed_q   <= 1'b0;
      left_q      <= 1'b0;
      unclaimed_q <= '0;
      due_q       <= '0;
    end
  end

  always_comb if (rst_n && buffered_q) assert (burst_valid && !empty && !claimed_q && unclaimed_q >= (DEPTH_BITS + 1)'(burst_beats));

  assign m_axi_awaddr  = aw_address_q;
  assign m_axi_awid    = 1'b0;
  assign m_axi_awlen   = aw_len_q;
  assign m_axi_awsize  = 3'(BYTE_BITS);
  assign m_axi_awburst = 2'b01;  // INCR
  assign m_axi_awcache = 4'b0011;  // normal, bufferable, as Vitis kernels send it
  assign m_axi_awprot  = 3'b000;
  assign m_axi_awvalid = aw_valid_q;

  // Data channel: the bursts whose AW has been offered, in order, each with the strobes of its last beat. Whether a beat is the last
  // one is known a clock earlier, because that decides all strobes.
  logic                  w_s_ready;
  logic                  w_valid;
  logic                  w_ready;
  logic [           7:0] w_len;
  logic                  w_single;
  logic [BEAT_BYTES-1:0] w_strobes;
  logic                  first_q;  // no beat of the burst has been taken
  logic [           7:0] after_q;  // the beats after the current one, unless it is the first
  logic                  last_q;  // there are none, unless it is the first
  logic [OUTSTANDING_BITS:0] unwritten_q;  // bursts whose AW was offered, and not all of their data taken, without that of claimed_q

  function automatic logic [BEAT_BYTES-1:0] strobes(input logic [BYTE_BITS-1:0] last_byte);
    strobes = ~({{BEAT_BYTES - 1{1'b1}}, 1'b0} << last_byte);
  endfunction

  wire single = burst_beats == (BURST_BITS + 1)'(1);

  axis_fifo #(
      .WIDTH(8 + 1 + BEAT_BYTES),
      .DEPTH(OUTSTANDING)
  ) u_axis_fifo_w (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(ask),
      .s_axis_tready(w_s_ready),  // never low: the FIFO has room for all bursts that due_q counts
      .s_axis_tdata ({8'(burst_beats - 1'b1), single, strobes(burst_end) | {BEAT_BYTES{!burst_last}}}),
      .m_axis_tvalid(w_valid),
      .m_axis_tready(w_ready),
      .m_axis_tdata ({w_len, w_single, w_strobes})
  );

  wire [7:0] after = first_q ? w_len : after_q;

  assign m_axi_wvalid = w_valid && data_valid;
  assign m_axi_wdata  = data;
  assign m_axi_wlast  = first_q ? w_single : last_q;
  assign m_axi_wstrb  = w_strobes | {BEAT_BYTES{!m_axi_wlast}};
  assign data_ready   = w_valid && m_axi_wready;
  assign w_ready      = data_valid && m_axi_wready && m_axi_wlast;

  always_ff @(posedge clk) begin
    if (m_axi_wvalid && m_axi_wready) begin
      first_q <= m_axi_wlast;
      after_q <= after - 1'b1;
      last_q  <= after == 8'd1;
    end
    unwritten_q <= unwritten_q + (OUTSTANDING_BITS + 1)'(claimed_q) - (OUTSTANDING_BITS + 1)'(w_valid && w_ready);
    if (!rst_n) begin
      first_q     <= 1'b1;
      unwritten_q <= '0;
    end
  end

  // if AW waits for the only burst, W waits with it
  assign data_waits = m_axi_wvalid && !m_axi_wready && !(aw_valid_q && unwritten_q == (OUTSTANDING_BITS + 1)'(!claimed_q));

  // Response channel: which responses end a descriptor, and the descriptors without a response.
  axis_fifo #(
      .WIDTH(2),
      .DEPTH(OUTSTANDING)
  ) u_axis_fifo_order (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(burst_ready),
      .s_axis_tready(order_s_ready),  // never low: the FIFO has room for all that due_q counts
      .s_axis_tdata ({burst_last, empty}),
      .m_axis_tvalid(order_valid),
      .m_axis_tready(order_ready),
      .m_axis_tdata ({order_last, order_empty})
  );

  assign m_axi_bready = order_valid && !order_empty && !m_axis_done_tvalid;
  assign order_ready  = !m_axis_done_tvalid && (order_empty || m_axi_bvalid);

  always_ff @(posedge clk) begin
    if (order_valid && order_ready) m_axis_done_tvalid <= order_last;
    else if (m_axis_done_tready) m_axis_done_tvalid <= 1'b0;
    if (answered && m_axi_bresp != 2'b00) error <= 1'b1;
    if (!rst_n) begin
      m_axis_done_tvalid <= 1'b0;
      error              <= 1'b0;
    end
  end

  wire unused = &{1'b0, m_axi_bid, w_s_ready, order_s_ready};

endmodule

`default_nettype wire
