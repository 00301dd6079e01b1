// SPDX-License-Identifier: Apache-2.0
//
// The rules of an AXI4 read interface with one ID, for proofs (AXI4, A3.1.2, A3.2.1, A3.3.1, A3.4.1, A5.3). The master's rules
// are asserted (ASSUME_MASTER: assumed), the memory's rules are assumed (ASSERT_MEMORY: asserted). Stricter than AXI, as this
// project's masters are: aligned INCR bursts of full beats, at most MAX_BURST_BEATS and OUTSTANDING.
//
// With FAIR_CLOCKS above 0, the memory makes nothing wait for that many clocks.
`default_nettype none

module axi_read_rules #(
    parameter int ADDR_WIDTH = 16,
    parameter int DATA_WIDTH = 16,
    parameter int MAX_BURST_BEATS = 4,
    // the most bursts in flight at once
    parameter int OUTSTANDING = 2,
    parameter bit ASSUME_MASTER = 1'b0,
    parameter bit ASSERT_MEMORY = 1'b0,
    parameter int FAIR_CLOCKS = 0
) (
    input logic                  clk,
    input logic                  rst_n,
    input logic [ADDR_WIDTH-1:0] araddr,
    input logic [           7:0] arlen,
    input logic [           2:0] arsize,
    input logic [           1:0] arburst,
    input logic                  arvalid,
    input logic                  arready,
    input logic [DATA_WIDTH-1:0] rdata,
    input logic [           1:0] rresp,
    input logic                  rlast,
    input logic                  rvalid,
    input logic                  rready,

    // address of the next beat to arrive; meaningless if none is owed
    output logic [ADDR_WIDTH-1:0] beat_address,
    // bursts requested and not answered completely, and their beats that have not arrived
    output logic [           3:0] bursts,
    output logic [           9:0] owed
);

  localparam int BEAT_BYTES = DATA_WIDTH / 8;
  localparam int BYTE_BITS = $clog2(BEAT_BYTES);
  localparam int ENTRY = ADDR_WIDTH + 8;

  // The bursts in flight, the oldest in the low bits
  logic [OUTSTANDING*ENTRY-1:0] queue_q;
  logic [                  3:0] bursts_q;
  logic [                  7:0] beat_q;

  wire                  ask = arvalid && arready;
  wire                  come = rvalid && rready;
  wire                  answered = come && rlast;
  wire [           7:0] head_len = queue_q[7:0];
  wire [ADDR_WIDTH-1:0] head_address = queue_q[ENTRY-1:8];
  wire [           3:0] kept = bursts_q - 4'(answered);

  wire [OUTSTANDING*ENTRY-1:0] rest = answered ? queue_q >> ENTRY : queue_q;
  wire [OUTSTANDING:0][9:0] sum;  // beats of the oldest i bursts

  assign sum[0] = '0;
  for (genvar i = 0; i < OUTSTANDING; i++) begin : gen_entry
    assign sum[i+1] = sum[i] + (4'(i) < bursts_q ? 10'(queue_q[ENTRY*i+:8]) + 10'd1 : 10'd0);
    always_ff @(posedge clk) begin
      queue_q[ENTRY*i+:ENTRY] <= (ask && kept == 4'(i)) ? {araddr, arlen} : rest[ENTRY*i+:ENTRY];
    end
  end

  wire [ADDR_WIDTH+8+5-1:0] ar = {araddr, arlen, arsize, arburst};
  stream_rules #(.WIDTH(ADDR_WIDTH + 8 + 5), .ASSUME(ASSUME_MASTER)) u_ar (.clk, .rst_n, .tvalid(arvalid), .tready(arready), .tdata(ar));
  wire [DATA_WIDTH+3-1:0] r = {rdata, rresp, rlast};
  stream_rules #(.WIDTH(DATA_WIDTH + 3), .ASSUME(!ASSERT_MEMORY)) u_r (.clk, .rst_n, .tvalid(rvalid), .tready(rready), .tdata(r));

  logic       after_reset_q = 1'b1;
  logic [3:0] ar_wait_q;
  logic [3:0] r_wait_q;

  always_ff @(posedge clk) begin
    bursts_q <= kept + 4'(ask);
    if (come) beat_q <= rlast ? '0 : beat_q + 1'b1;
    ar_wait_q <= (arvalid && !arready) ? ar_wait_q + 1'b1 : '0;
    r_wait_q  <= (bursts_q != '0 && !rvalid) ? r_wait_q + 1'b1 : '0;
    if (!rst_n) begin
      bursts_q  <= '0;
      beat_q    <= '0;
      ar_wait_q <= '0;
      r_wait_q  <= '0;
    end
    after_reset_q <= !rst_n;
  end

  assign bursts       = bursts_q;
  assign owed         = sum[OUTSTANDING] - 10'(beat_q);
  assign beat_address = head_address + (ADDR_WIDTH'(beat_q) << BYTE_BITS);

  // The master's rules
  wire ar_quiet = !after_reset_q || !arvalid;
  wire ar_shape = !arvalid || (arburst == 2'b01 && arsize == 3'(BYTE_BITS) && araddr[BYTE_BITS-1:0] == '0);
  wire ar_length = !arvalid || arlen < 8'(MAX_BURST_BEATS);
  wire ar_border = !arvalid || 14'(araddr[11:0]) + ((14'(arlen) + 14'd1) << BYTE_BITS) <= 14'd4096;
  wire ar_bound = 5'(bursts_q) + 5'(arvalid) <= 5'(OUTSTANDING);
  // The memory's rules
  wire r_quiet = !after_reset_q || !rvalid;
  wire r_asked = !rvalid || bursts_q != '0;
  wire r_last = !rvalid || rlast == (beat_q == head_len);
  wire fair = FAIR_CLOCKS == 0 || (ar_wait_q < 4'(FAIR_CLOCKS) && r_wait_q < 4'(FAIR_CLOCKS));

  always_comb if (!after_reset_q && rst_n) assert (bursts_q == '0 ? beat_q == '0 : beat_q <= head_len);

  if (ASSUME_MASTER) begin : gen_assume_master
    always_comb if (rst_n) assume (ar_quiet && ar_shape && ar_length && ar_border && ar_bound);
  end else begin : gen_assert_master
    always_comb begin
      if (rst_n) begin
        assert (ar_quiet);
        assert (ar_shape);
        assert (ar_length);
        assert (ar_border);
        assert (ar_bound);
      end
    end
  end

  if (ASSERT_MEMORY) begin : gen_assert_memory
    always_comb begin
      if (rst_n) begin
        assert (r_quiet);
        assert (r_asked);
        assert (r_last);
        assert (fair);
      end
    end
  end else begin : gen_assume_memory
    always_comb if (rst_n) assume (r_quiet && r_asked && r_last && fair);
  end

endmodule

`default_nettype wire
