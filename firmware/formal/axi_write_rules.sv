// SPDX-License-Identifier: Apache-2.0
//
// The rules of an AXI4 write interface with one ID, for proofs (AXI4, A3.1.2, A3.2.1, A3.3.1, A3.4.1, A5.3). The master's rules
// are asserted (ASSUME_MASTER: assumed), the memory's rules are assumed (ASSERT_MEMORY: asserted). Stricter than AXI, as this
// project's masters are: aligned INCR bursts of full beats, at most MAX_BURST_BEATS and OUTSTANDING; no W before its AW is
// offered; strobes from byte 0 up without holes, and all set except in the last beat of a burst.
//
// A master must not wait for AWREADY before it offers W (A3.3.1): W is offered at most W_CLOCKS after its AW has been offered and
// the data before it have been taken, whatever AWREADY does. The memory may take W before its AW.
//
// With FAIR_CLOCKS above 0, the memory makes nothing wait for that many clocks. It may wait for WVALID before it takes an address,
// and for an address before it takes data.
`default_nettype none

module axi_write_rules #(
    parameter int ADDR_WIDTH = 16,
    parameter int DATA_WIDTH = 16,
    parameter int MAX_BURST_BEATS = 2,
    // the most bursts without a response
    parameter int OUTSTANDING = 2,
    // bits that the proof attaches to each burst
    parameter int USER_WIDTH = 1,
    parameter bit ASSUME_MASTER = 1'b0,
    parameter bit ASSERT_MEMORY = 1'b0,
    // the most clocks without W while a beat of an address offered is due
    parameter int W_CLOCKS = 1,
    parameter int FAIR_CLOCKS = 0
) (
    input logic                    clk,
    input logic                    rst_n,
    input logic [  ADDR_WIDTH-1:0] awaddr,
    input logic [             7:0] awlen,
    input logic [             2:0] awsize,
    input logic [             1:0] awburst,
    input logic [  USER_WIDTH-1:0] awuser,
    input logic                    awvalid,
    input logic                    awready,
    input logic [  DATA_WIDTH-1:0] wdata,
    input logic [DATA_WIDTH/8-1:0] wstrb,
    input logic                    wlast,
    input logic                    wvalid,
    input logic                    wready,
    input logic [             1:0] bresp,
    input logic                    bvalid,
    input logic                    bready,

    // the next beat: its address and its index in its burst; the length of that burst, and of the next
    output logic [  ADDR_WIDTH-1:0] beat_address,
    output logic [             7:0] beat,
    output logic [USER_WIDTH+8-1:0] burst,
    output logic [USER_WIDTH+8-1:0] next_burst,
    // bursts whose AW has been taken, but not their response; and those whose data have been taken: of these, and of the one
    // whose AW is offered
    output logic [             3:0] bursts,
    output logic [             3:0] written,
    // beats not taken yet, of bursts whose AW has been taken or is offered
    output logic [             9:0] owed
);

  localparam int BEAT_BYTES = DATA_WIDTH / 8;
  localparam int BYTE_BITS = $clog2(BEAT_BYTES);
  localparam int ENTRY = ADDR_WIDTH + USER_WIDTH + 8;
  localparam int WIDTH = OUTSTANDING * ENTRY;

  // The bursts in flight, the oldest in the low bits
  logic [WIDTH-1:0] queue_q;
  logic [      3:0] bursts_q;
  logic [      3:0] written_q;
  logic [      7:0] beat_q;

  wire             ask = awvalid && awready;
  wire             give = wvalid && wready;
  wire             answered = bvalid && bready;
  wire [      3:0] kept = bursts_q - 4'(answered);
  wire [WIDTH-1:0] rest = answered ? queue_q >> ENTRY : queue_q;
  // the bursts in flight, and after them the one whose AW is offered
  wire [      3:0] known = bursts_q + 4'(awvalid);
  wire [OUTSTANDING-1:0][ENTRY-1:0] item;
  wire [OUTSTANDING:0][ENTRY-1:0] chosen;
  wire [OUTSTANDING:0][ENTRY-1:0] chosen_next;
  wire [OUTSTANDING:0][      9:0] sum;  // beats of the oldest i bursts that are not written

  assign chosen[0]      = '0;
  assign chosen_next[0] = '0;
  assign sum[0]         = '0;
  for (genvar i = 0; i < OUTSTANDING; i++) begin : gen_entry
    assign item[i] = bursts_q == 4'(i) ? {awaddr, awuser, awlen} : queue_q[ENTRY*i+:ENTRY];
    assign chosen[i+1] = chosen[i] | (written_q == 4'(i) ? item[i] : '0);
    assign chosen_next[i+1] = chosen_next[i] | (written_q + 4'd1 == 4'(i) ? item[i] : '0);
    assign sum[i+1] = sum[i] + (written_q <= 4'(i) && 4'(i) < known ? 10'(item[i][7:0]) + 10'd1 : 10'd0);
    always_ff @(posedge clk) begin
      queue_q[ENTRY*i+:ENTRY] <= (ask && kept == 4'(i)) ? {awaddr, awuser, awlen} : rest[ENTRY*i+:ENTRY];
    end
  end
  wire [ENTRY-1:0] at_work = chosen[OUTSTANDING];

  wire [ADDR_WIDTH+8+5-1:0] aw = {awaddr, awlen, awsize, awburst};
  stream_rules #(.WIDTH(ADDR_WIDTH + 8 + 5), .ASSUME(ASSUME_MASTER)) u_aw (.clk, .rst_n, .tvalid(awvalid), .tready(awready), .tdata(aw));
  wire [DATA_WIDTH+BEAT_BYTES:0] w = {wdata, wstrb, wlast};
  stream_rules #(.WIDTH(DATA_WIDTH + BEAT_BYTES + 1), .ASSUME(ASSUME_MASTER)) u_w (.clk, .rst_n, .tvalid(wvalid), .tready(wready), .tdata(w));
  stream_rules #(.WIDTH(2), .ASSUME(!ASSERT_MEMORY)) u_b (.clk, .rst_n, .tvalid(bvalid), .tready(bready), .tdata(bresp));

  logic       after_reset_q = 1'b1;
  logic [3:0] aw_wait_q;
  logic [3:0] w_wait_q;
  logic [3:0] b_wait_q;
  logic [3:0] w_late_q;

  // a beat of an address offered is due; the data of the address offered have been offered, or taken
  wire w_due = written_q < known;
  wire w_shown = written_q > bursts_q || (written_q == bursts_q && (wvalid || beat_q != '0));

  always_ff @(posedge clk) begin
    bursts_q  <= kept + 4'(ask);
    written_q <= written_q - 4'(answered) + 4'(give && wlast);
    if (give) beat_q <= wlast ? '0 : beat_q + 1'b1;
    aw_wait_q <= (awvalid && !awready && w_shown) ? aw_wait_q + 1'b1 : '0;
    w_wait_q  <= (wvalid && !wready && written_q < bursts_q) ? w_wait_q + 1'b1 : '0;
    b_wait_q  <= (written_q != '0 && bursts_q != '0 && !bvalid) ? b_wait_q + 1'b1 : '0;
    w_late_q  <= (w_due && !wvalid) ? w_late_q + 1'b1 : '0;
    if (!rst_n) begin
      bursts_q  <= '0;
      written_q <= '0;
      beat_q    <= '0;
      aw_wait_q <= '0;
      w_wait_q  <= '0;
      b_wait_q  <= '0;
      w_late_q  <= '0;
    end
    after_reset_q <= !rst_n;
  end

  assign bursts       = bursts_q;
  assign written      = written_q;
  assign owed         = sum[OUTSTANDING] - 10'(beat_q);
  assign beat         = beat_q;
  assign burst        = at_work[USER_WIDTH+8-1:0];
  assign next_burst   = chosen_next[OUTSTANDING][USER_WIDTH+8-1:0];
  assign beat_address = at_work[ENTRY-1-:ADDR_WIDTH] + (ADDR_WIDTH'(beat_q) << BYTE_BITS);

  // The master's rules
  wire quiet = !after_reset_q || (!awvalid && !wvalid);
  wire aw_shape = !awvalid || (awburst == 2'b01 && awsize == 3'(BYTE_BITS) && awaddr[BYTE_BITS-1:0] == '0);
  wire aw_length = !awvalid || awlen < 8'(MAX_BURST_BEATS);
  wire aw_border = !awvalid || 14'(awaddr[11:0]) + ((14'(awlen) + 14'd1) << BYTE_BITS) <= 14'd4096;
  wire aw_bound = 5'(bursts_q) + 5'(awvalid) <= 5'(OUTSTANDING);
  wire w_asked = !wvalid || w_due;
  wire w_prompt = wvalid || !w_due || w_late_q < 4'(W_CLOCKS);
  wire w_last = !wvalid || wlast == (beat_q == at_work[7:0]);
  wire w_strobe = !wvalid || (wstrb != '0 && (wstrb & (wstrb + 1'b1)) == '0 && (wlast || (&wstrb)));
  // The memory's rules
  wire b_quiet = !after_reset_q || !bvalid;
  wire b_asked = !bvalid || (written_q != '0 && bursts_q != '0);
  wire fair = FAIR_CLOCKS == 0
      || (aw_wait_q < 4'(FAIR_CLOCKS) && w_wait_q < 4'(FAIR_CLOCKS) && b_wait_q < 4'(FAIR_CLOCKS));

  always_comb begin
    if (!after_reset_q && rst_n) begin
      assert (written_q <= known);
      assert (w_due ? beat_q <= at_work[7:0] : beat_q == '0);
    end
  end

  if (ASSUME_MASTER) begin : gen_assume_master
    always_comb begin
      if (rst_n) begin
        assume (quiet && aw_shape && aw_length && aw_border && aw_bound);
        assume (w_asked && w_prompt && w_last && w_strobe);
      end
    end
  end else begin : gen_assert_master
    always_comb begin
      if (rst_n) begin
        assert (quiet);
        assert (aw_shape);
        assert (aw_length);
        assert (aw_border);
        assert (aw_bound);
        assert (w_asked);
        assert (w_prompt);
        assert (w_last);
        assert (w_strobe);
      end
    end
  end

  if (ASSERT_MEMORY) begin : gen_assert_memory
    always_comb begin
      if (rst_n) begin
        assert (b_quiet);
        assert (b_asked);
        assert (fair);
      end
    end
  end else begin : gen_assume_memory
    always_comb if (rst_n) assume (b_quiet && b_asked && fair);
  end

endmodule

`default_nettype wire
