// SPDX-License-Identifier: Apache-2.0
//
// Merges the AXI4 writes of several masters onto one bus that needs the data of a burst right after its address (the AWS F2
// shell's PCIM disables the bus 8 us after AW).
//
//   unit 0 AW, W --.                .- bursts -.
//                  round_robin ----+            +--> m_axi AW and W, without a pause
//   unit 1 AW, W --'                '- beats  -'     m_axi B --ID--> unit 0 or unit 1
//
// A unit with a grant gives a burst: its address and all its beats. It gets the grant only when the buffer has room for the longest
// burst, so WREADY stays high meanwhile. Only then may the burst leave. One burst leaves at a time: AW and the first beat of W are
// offered together when the previous burst has been taken, W without a pause of this module, because all beats are buffered.
// Neither waits for the other's ready (AXI4, A3.3.1). A unit's number is the ID, which gives each B its unit.
//
// The units obey the rules for bursts (axi_write_master): INCR, full beats, not across 4 KiB, at most MAX_BURST_BEATS.
`default_nettype none

module axi_write_merge #(
    // masters
    parameter int UNITS = 2,
    // bits of an address
    parameter int ADDR_WIDTH = 64,
    // bits of a beat
    parameter int DATA_WIDTH = 512,
    // bits of an ID of the bus
    parameter int ID_WIDTH = 16,
    // beats of the units' longest burst, a power of two; four times that are buffered
    parameter int MAX_BURST_BEATS = 64,
    // the most bursts that are taken and not answered, a power of two
    parameter int OUTSTANDING = 32
) (
    input  logic clk,
    input  logic rst_n,

    input  logic [UNITS-1:0][  ADDR_WIDTH-1:0] s_axi_awaddr,
    input  logic [UNITS-1:0][             7:0] s_axi_awlen,
    input  logic [UNITS-1:0]                   s_axi_awvalid,
    output logic [UNITS-1:0]                   s_axi_awready,
    input  logic [UNITS-1:0][  DATA_WIDTH-1:0] s_axi_wdata,
    input  logic [UNITS-1:0][DATA_WIDTH/8-1:0] s_axi_wstrb,
    input  logic [UNITS-1:0]                   s_axi_wlast,
    input  logic [UNITS-1:0]                   s_axi_wvalid,
    output logic [UNITS-1:0]                   s_axi_wready,
    // one response for all units; bvalid selects the unit
    output logic [           1:0]              s_axi_bresp,
    output logic [UNITS-1:0]                   s_axi_bvalid,
    input  logic [UNITS-1:0]                   s_axi_bready,

    output logic [  ADDR_WIDTH-1:0] m_axi_awaddr,
    output logic [    ID_WIDTH-1:0] m_axi_awid,
    output logic [             7:0] m_axi_awlen,
    output logic [             2:0] m_axi_awsize,
    output logic [             1:0] m_axi_awburst,
    output logic                    m_axi_awvalid,
    input  logic                    m_axi_awready,
    output logic [  DATA_WIDTH-1:0] m_axi_wdata,
    output logic [DATA_WIDTH/8-1:0] m_axi_wstrb,
    output logic                    m_axi_wlast,
    output logic                    m_axi_wvalid,
    input  logic                    m_axi_wready,
    input  logic [    ID_WIDTH-1:0] m_axi_bid,
    input  logic [             1:0] m_axi_bresp,
    input  logic                    m_axi_bvalid,
    output logic                    m_axi_bready
);

  localparam int UNIT_BITS = UNITS > 1 ? $clog2(UNITS) : 1;
  localparam int STRB_WIDTH = DATA_WIDTH / 8;
  localparam int BEAT_WIDTH = STRB_WIDTH + DATA_WIDTH;
  localparam int BURST_WIDTH = UNIT_BITS + 8 + ADDR_WIDTH;
  localparam int OUTSTANDING_BITS = $clog2(OUTSTANDING);
  localparam int BUFFER_BEATS = 4 * MAX_BURST_BEATS;
  localparam int COUNT_BITS = $clog2(BUFFER_BEATS) + 1;

  if (UNIT_BITS > ID_WIDTH) begin : g_check_units
    $error("axi_write_merge %m: UNITS is %0d, expected as many as ID_WIDTH %0d can tell", UNITS, ID_WIDTH);
  end
  if (OUTSTANDING < 2 || (OUTSTANDING & (OUTSTANDING - 1)) != 0) begin : g_check_outstanding
    $error("axi_write_merge %m: OUTSTANDING is %0d, expected a power of two from 2", OUTSTANDING);
  end

  // In: one burst of a unit at a time
  logic                  taking_q;  // taking the beats of the burst in in_*_q
  logic [     UNITS-1:0] in_grant_q;
  logic [ UNIT_BITS-1:0] in_unit_q;
  logic [           7:0] in_len_q;
  logic [ADDR_WIDTH-1:0] in_address_q;

  logic [     UNITS-1:0] grant;
  logic [ UNIT_BITS-1:0] grant_unit;
  logic [           7:0] grant_len;
  logic [ADDR_WIDTH-1:0] grant_address;
  // taken, and not given or not answered; room_q is low until they count the burst taken last
  logic [  COUNT_BITS-1:0]   beats_q;
  logic [OUTSTANDING_BITS:0] bursts_q;
  logic                      took_q;  // a burst was taken
  logic                      room_q;

  wire take = s_axi_awvalid != '0 && !taking_q && room_q;

  round_robin #(
      .COUNT(UNITS)
  ) u_round_robin (
      .clk    (clk),
      .rst_n  (rst_n),
      .request(s_axi_awvalid),
      .taken  (take),
      .grant  (grant)
  );

  always_comb begin
    grant_unit    = '0;
    grant_len     = '0;
    grant_address = '0;
    for (int i = 0; i < UNITS; i++) begin
      if (grant[i]) begin
        grant_unit    = UNIT_BITS'(i);
        grant_len     = s_axi_awlen[i];
        grant_address = s_axi_awaddr[i];
      end
    end
  end

  wire in_valid = taking_q && s_axi_wvalid[in_unit_q];
  wire in_last = s_axi_wlast[in_unit_q];

  assign s_axi_awready = grant & {UNITS{!taking_q && room_q}};
  assign s_axi_wready  = in_grant_q & {UNITS{taking_q}};

  // a beat that was taken, and whether all of its burst were
  logic                  come_q;
  logic                  come_last_q;
  logic [BEAT_WIDTH-1:0] come_beat_q;

  always_ff @(posedge clk) begin
    if (take) begin
      in_grant_q   <= grant;
      in_unit_q    <= grant_unit;
      in_len_q     <= grant_len;
      in_address_q <= grant_address;
    end
    taking_q    <= take || (taking_q && !(in_valid && in_last));
    come_q      <= in_valid;
    come_last_q <= in_valid && in_last;
    come_beat_q <= {s_axi_wstrb[in_unit_q], s_axi_wdata[in_unit_q]};
    if (!rst_n) begin
      taking_q    <= 1'b0;
      come_q      <= 1'b0;
      come_last_q <= 1'b0;
    end
  end

  // The buffer: beats, and the bursts with all their beats. Neither FIFO is ever full
  logic                  beats_ready;
  logic                  bursts_ready;
  logic                  beat_valid;
  logic                  give;
  logic                  burst_valid;
  logic [ UNIT_BITS-1:0] burst_unit;
  logic [           7:0] burst_len;
  logic [ADDR_WIDTH-1:0] burst_address;

  axis_fifo #(
      .WIDTH(BEAT_WIDTH),
      .DEPTH(BUFFER_BEATS)
  ) u_axis_fifo_beats (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(come_q),
      .s_axis_tready(beats_ready),
      .s_axis_tdata (come_beat_q),
      .m_axis_tvalid(beat_valid),
      .m_axis_tready(give),
      .m_axis_tdata ({m_axi_wstrb, m_axi_wdata})
  );

  // Out: AW and its W
  logic       aw_valid_q;
  logic       giving_q;  // giving the beats of the burst that leaves
  logic [7:0] left_q;  // its beats that are not given, less one
  logic       last_q;  // it is one

  wire answered = m_axi_bvalid && m_axi_bready;
  wire leave = burst_valid && !aw_valid_q && !giving_q;

  assign give = m_axi_wvalid && m_axi_wready;

  axis_fifo #(
      .WIDTH(BURST_WIDTH),
      .DEPTH(OUTSTANDING)
  ) u_axis_fifo_bursts (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(come_last_q),
      .s_axis_tready(bursts_ready),
      .s_axis_tdata ({in_unit_q, in_len_q, in_address_q}),
      .m_axis_tvalid(burst_valid),
      .m_axis_tready(leave),
      .m_axis_tdata ({burst_unit, burst_len, burst_address})
  );

  always_ff @(posedge clk) begin
    if (leave) begin
      m_axi_awaddr <= burst_address;
      m_axi_awlen  <= burst_len;
      m_axi_awid   <= ID_WIDTH'(burst_unit);
    end
    if (leave || give) begin
      left_q <= leave ? burst_len : left_q - 1'b1;
      last_q <= leave ? burst_len == '0 : left_q == 8'd1;
    end
    aw_valid_q <= leave || (aw_valid_q && !m_axi_awready);
    giving_q   <= leave || (giving_q && !(give && last_q));
    took_q     <= take;
    beats_q    <= beats_q + (took_q ? COUNT_BITS'(in_len_q) + 1'b1 : '0) - COUNT_BITS'(give);
    bursts_q   <= bursts_q + (OUTSTANDING_BITS + 1)'(took_q) - (OUTSTANDING_BITS + 1)'(answered);
    room_q     <= beats_q <= COUNT_BITS'(BUFFER_BEATS - MAX_BURST_BEATS) && !bursts_q[OUTSTANDING_BITS] && !took_q && !take;
    if (!rst_n) begin
      aw_valid_q <= 1'b0;
      giving_q   <= 1'b0;
      beats_q    <= '0;
      bursts_q   <= '0;
      took_q     <= 1'b0;
      room_q     <= 1'b0;
    end
  end

  always_comb begin
    if (rst_n && come_q) assert (beats_ready);
    if (rst_n && come_last_q) assert (bursts_ready);
    if (rst_n && giving_q) assert (beat_valid && last_q == (left_q == '0));
  end

  assign m_axi_awsize  = 3'($clog2(STRB_WIDTH));
  assign m_axi_awburst = 2'b01;  // INCR
  assign m_axi_awvalid = aw_valid_q;
  assign m_axi_wvalid  = giving_q;
  assign m_axi_wlast   = last_q;

  // Responses
  wire [UNIT_BITS-1:0] b_unit = m_axi_bid[UNIT_BITS-1:0];

  assign s_axi_bresp  = m_axi_bresp;
  assign m_axi_bready = s_axi_bready[b_unit];

  for (genvar i = 0; i < UNITS; i++) begin : gen_unit
    assign s_axi_bvalid[i] = m_axi_bvalid && b_unit == UNIT_BITS'(i);
  end

  wire unused = &{1'b0, m_axi_bid, beats_ready, bursts_ready, beat_valid};

endmodule

`default_nettype wire
