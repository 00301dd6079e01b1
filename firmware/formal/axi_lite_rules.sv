// SPDX-License-Identifier: Apache-2.0
//
// The rules of an AXI4-Lite interface, for proofs (AXI4, A3.1.2, A3.2.1, A3.3.1, B1.1): valid and its payload stay until ready;
// each pair of address and data gets one response, and each read one answer. The host's rules are assumed and the slave's are
// asserted; with ASSUME_SLAVE it is the other way round. Stricter than AXI: at most two writes and one read are open, and
// answers are OKAY and arrive within PATIENCE clocks, whatever BREADY and RREADY do; and the slave takes nothing during its reset,
// which may end some clocks after the host's. A host whose rules are asserted offers an
// address and its data together, so that neither waits for the other's ready (A3.3.1).
`default_nettype none

module axi_lite_rules #(
    parameter int ADDR_WIDTH = 12,
    parameter bit ASSUME_SLAVE = 1'b0,
    parameter int PATIENCE = 2
) (
    input logic                  clk,
    input logic                  rst_n,
    input logic [ADDR_WIDTH-1:0] awaddr,
    input logic                  awvalid,
    input logic                  awready,
    input logic [          31:0] wdata,
    input logic [           3:0] wstrb,
    input logic                  wvalid,
    input logic                  wready,
    input logic [           1:0] bresp,
    input logic                  bvalid,
    input logic                  bready,
    input logic [ADDR_WIDTH-1:0] araddr,
    input logic                  arvalid,
    input logic                  arready,
    input logic [          31:0] rdata,
    input logic [           1:0] rresp,
    input logic                  rvalid,
    input logic                  rready,

    // addresses, data and reads taken and not answered
    output logic [2:0] addresses,
    output logic [2:0] words,
    output logic [2:0] reads
);

  logic [2:0] addresses_q;
  logic [2:0] words_q;
  logic [2:0] reads_q;
  logic [3:0] b_wait_q;
  logic [3:0] r_wait_q;
  logic       after_reset_q = 1'b1;
  logic       in_reset_q = 1'b0;

  stream_rules #(.WIDTH(ADDR_WIDTH), .ASSUME(!ASSUME_SLAVE)) u_aw (.clk, .rst_n, .tvalid(awvalid), .tready(awready), .tdata(awaddr));
  stream_rules #(.WIDTH(36), .ASSUME(!ASSUME_SLAVE)) u_w (.clk, .rst_n, .tvalid(wvalid), .tready(wready), .tdata({wdata, wstrb}));
  stream_rules #(.WIDTH(ADDR_WIDTH), .ASSUME(!ASSUME_SLAVE)) u_ar (.clk, .rst_n, .tvalid(arvalid), .tready(arready), .tdata(araddr));
  stream_rules #(.WIDTH(2), .ASSUME(ASSUME_SLAVE)) u_b (.clk, .rst_n, .tvalid(bvalid), .tready(bready), .tdata(bresp));
  stream_rules #(.WIDTH(34), .ASSUME(ASSUME_SLAVE)) u_r (.clk, .rst_n, .tvalid(rvalid), .tready(rready), .tdata({rdata, rresp}));

  always_ff @(posedge clk) begin
    addresses_q <= addresses_q + 3'(awvalid && awready) - 3'(bvalid && bready);
    words_q     <= words_q + 3'(wvalid && wready) - 3'(bvalid && bready);
    reads_q     <= reads_q + 3'(arvalid && arready) - 3'(rvalid && rready);
    b_wait_q    <= (addresses_q != '0 && words_q != '0 && !bvalid) ? b_wait_q + 1'b1 : '0;
    r_wait_q    <= (reads_q != '0 && !rvalid) ? r_wait_q + 1'b1 : '0;
    if (!rst_n) begin
      addresses_q <= '0;
      words_q     <= '0;
      reads_q     <= '0;
      b_wait_q    <= '0;
      r_wait_q    <= '0;
    end
    after_reset_q <= !rst_n;
    in_reset_q    <= !rst_n;
  end

  assign addresses = addresses_q;
  assign words     = words_q;
  assign reads     = reads_q;

  // The host's rules
  wire host_quiet = !after_reset_q || (!awvalid && !wvalid && !arvalid);
  wire together = addresses_q + 3'(awvalid) == words_q + 3'(wvalid);
  // The slave's rules
  wire quiet = !after_reset_q || (!bvalid && !rvalid);
  wire b_asked = !bvalid || (addresses_q != '0 && words_q != '0);
  wire r_asked = !rvalid || reads_q != '0;
  wire okay = (!bvalid || bresp == 2'b00) && (!rvalid || rresp == 2'b00);
  wire few = addresses_q <= 3'd2 && words_q <= 3'd2 && reads_q <= 3'd1;
  wire prompt = b_wait_q <= 4'(PATIENCE) && r_wait_q <= 4'(PATIENCE);

  if (ASSUME_SLAVE) begin : gen_assert_host
    always_comb begin
      if (rst_n) begin
        assume (quiet && b_asked && r_asked && okay && few && prompt);
        assert (host_quiet);
        assert (together);
      end
    end
  end else begin : gen_assert_slave
    always_comb begin
      if (rst_n) begin
        assert (quiet);
        assert (b_asked);
        assert (r_asked);
        assert (okay);
        assert (few);
        assert (prompt);
      end
      if (in_reset_q) assert (!awready && !wready && !arready);
    end
  end

endmodule

`default_nettype wire
