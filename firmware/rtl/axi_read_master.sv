// SPDX-License-Identifier: Apache-2.0
//
// Reads the data of descriptors (address, number of beats) over AXI4 and gives them as a stream of beats, in order.
//
// A burst is requested only when the data FIFO has room for all of it, so RREADY never falls and a slow consumer never
// blocks the interconnect. Up to OUTSTANDING bursts are in flight at once, which hides a memory latency of
// OUTSTANDING * MAX_BURST_BEATS clocks; the bursts of the next descriptor follow without a pause.
//
// The stream does not mark the end of a descriptor: the consumer knows the number of beats. All bursts have one ID, so the
// data arrive in order. `error` stays set from the first RRESP that is not OKAY until reset.
`default_nettype none

module axi_read_master #(
    // bits of an address
    parameter int ADDR_WIDTH = 64,
    // bits of a beat
    parameter int DATA_WIDTH = 512,
    // beats of the longest burst, a power of two, at most 4 KiB in all
    parameter int MAX_BURST_BEATS = 64,
    // bursts in flight at once, a power of two; the data FIFO has room for them all
    parameter int OUTSTANDING = 16,
    // bits of a descriptor's number of beats
    parameter int COUNT_WIDTH = 42
) (
    input  logic clk,
    input  logic rst_n,

    input  logic                   s_axis_desc_tvalid,
    output logic                   s_axis_desc_tready,
    input  logic [ ADDR_WIDTH-1:0] s_axis_desc_address,
    input  logic [COUNT_WIDTH-1:0] s_axis_desc_beats,

    output logic                   m_axis_tvalid,
    input  logic                   m_axis_tready,
    output logic [ DATA_WIDTH-1:0] m_axis_tdata,

    output logic [ADDR_WIDTH-1:0]  m_axi_araddr,
    output logic [           0:0]  m_axi_arid,
    output logic [           7:0]  m_axi_arlen,
    output logic [           2:0]  m_axi_arsize,
    output logic [           1:0]  m_axi_arburst,
    output logic [           3:0]  m_axi_arcache,
    output logic [           2:0]  m_axi_arprot,
    output logic                   m_axi_arvalid,
    input  logic                   m_axi_arready,
    input  logic [DATA_WIDTH-1:0]  m_axi_rdata,
    input  logic [           0:0]  m_axi_rid,
    input  logic [           1:0]  m_axi_rresp,
    input  logic                   m_axi_rlast,
    input  logic                   m_axi_rvalid,
    output logic                   m_axi_rready,

    output logic                   error
);

  localparam int BURST_BITS = $clog2(MAX_BURST_BEATS);
  localparam int DEPTH = OUTSTANDING * MAX_BURST_BEATS;
  localparam int DEPTH_BITS = $clog2(DEPTH);
  localparam int OUTSTANDING_BITS = $clog2(OUTSTANDING);

  if (OUTSTANDING < 2 || (OUTSTANDING & (OUTSTANDING - 1)) != 0) begin : g_check_outstanding
    $error("axi_read_master %m: OUTSTANDING is %0d, expected a power of two from 2", OUTSTANDING);
  end

  logic                  burst_valid;
  logic                  burst_ready;
  logic [ADDR_WIDTH-1:0] burst_address;
  logic [  BURST_BITS:0] burst_beats;
  logic                  burst_last;
  logic                  burst_user;

  axi_burst_split #(
      .ADDR_WIDTH     (ADDR_WIDTH),
      .BEAT_BYTES     (DATA_WIDTH / 8),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .COUNT_WIDTH    (COUNT_WIDTH),
      .USER_WIDTH     (1)
  ) u_axi_burst_split (
      .clk                 (clk),
      .rst_n               (rst_n),
      .s_axis_desc_tvalid  (s_axis_desc_tvalid),
      .s_axis_desc_tready  (s_axis_desc_tready),
      .s_axis_desc_address (s_axis_desc_address),
      .s_axis_desc_beats   (s_axis_desc_beats),
      .s_axis_desc_user    (1'b0),
      .m_axis_burst_tvalid (burst_valid),
      .m_axis_burst_tready (burst_ready),
      .m_axis_burst_address(burst_address),
      .m_axis_burst_beats  (burst_beats),
      .m_axis_burst_last   (burst_last),
      .m_axis_burst_user   (burst_user)
  );

  // Address channel: a burst leaves the splitter when the FIFO has room for it.
  logic                      ar_valid_q;
  logic [    ADDR_WIDTH-1:0] ar_address_q;
  logic [               7:0] ar_len_q;
  logic                      claimed_q;  // AR has been asked for in the clock before
  logic [      DEPTH_BITS:0] free_q;  // beats of the FIFO that no burst has claimed, or only that of claimed_q
  logic [OUTSTANDING_BITS:0] bursts_q;  // bursts requested and not yet answered completely, without that of claimed_q

  wire empty = burst_beats == '0;
  wire room = free_q >= (DEPTH_BITS + 1)'(burst_beats);
  wire below = bursts_q != (OUTSTANDING_BITS + 1)'(OUTSTANDING);
  wire ask = burst_valid && !empty && room && below && (!ar_valid_q || m_axi_arready);
  wire answered = m_axi_rvalid && m_axi_rlast;
  wire taken = m_axis_tvalid && m_axis_tready;

  // A burst is counted, and its beats are subtracted, in the clock after it leaves, in which the splitter offers none. So the
  // comparison and the subtraction are not in one clock. x - n is x + the complement of n - 1.
  wire [DEPTH_BITS:0] claim = (DEPTH_BITS + 1)'(ar_len_q) ^ {(DEPTH_BITS + 1){1'b1}};

  assign burst_ready = ask || empty;

  always_ff @(posedge clk) begin
    if (ask) begin
      ar_address_q <= burst_address;
      ar_len_q     <= 8'(burst_beats - 1'b1);
    end
    if (!ar_valid_q || m_axi_arready) ar_valid_q <= ask;
    claimed_q <= ask;
    free_q    <= free_q + (claimed_q ? claim : '0) + (DEPTH_BITS + 1)'(taken);
    bursts_q  <= bursts_q + (OUTSTANDING_BITS + 1)'(claimed_q) - (OUTSTANDING_BITS + 1)'(answered);
    if (m_axi_rvalid && m_axi_rresp != 2'b00) error <= 1'b1;
    if (!rst_n) begin
      ar_valid_q <= 1'b0;
      claimed_q  <= 1'b0;
      free_q     <= (DEPTH_BITS + 1)'(DEPTH);
      bursts_q   <= '0;
      error      <= 1'b0;
    end
  end

  assign m_axi_araddr  = ar_address_q;
  assign m_axi_arid    = 1'b0;
  assign m_axi_arlen   = ar_len_q;
  assign m_axi_arsize  = 3'($clog2(DATA_WIDTH / 8));
  assign m_axi_arburst = 2'b01;  // INCR
  assign m_axi_arcache = 4'b0011;  // normal, bufferable, as Vitis kernels send it
  assign m_axi_arprot  = 3'b000;
  assign m_axi_arvalid = ar_valid_q;

  // Every beat that is asked for has its place, so none waits
  logic stored_ready;
  assign m_axi_rready = 1'b1;
  always_comb if (rst_n && m_axi_rvalid) assert (stored_ready);

  axis_fifo #(
      .WIDTH(DATA_WIDTH),
      .DEPTH(DEPTH)
  ) u_axis_fifo (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(m_axi_rvalid),
      .s_axis_tready(stored_ready),
      .s_axis_tdata (m_axi_rdata),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata (m_axis_tdata)
  );

  wire unused = &{1'b0, m_axi_rid, burst_last, burst_user};

endmodule

`default_nettype wire
