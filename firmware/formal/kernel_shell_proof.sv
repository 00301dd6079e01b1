// SPDX-License-Identifier: Apache-2.0
//
// kernel_shell writes nothing outside [y, y + rows x ROW_OUT_BYTES) of the runs given to it: the solver chooses a byte outside the
// regions of all runs, and no write has its strobe set. The proof uses the real wiring of kernel_shell and kernel_read, the real
// kernel_runs and axi_write_master, beats of 64 bytes and rows of 12 bytes. kernel_control, the modules with which kernel_read
// reads and unpacks, and the packing of rows may do anything (`free` in proofs.toml), but a run waits unchanged until it is taken.
// Their ports are not connected. Bursts of two beats, two in flight, two runs of up to 31 rows.
//
// As everywhere, y is a multiple of a beat, which the host ensures.
`default_nettype none

module kernel_shell_proof (
    input logic clk,
    input logic rst_n,
    input logic awready,
    input logic wready,
    input logic bvalid
);

  logic [63:0] awaddr;
  logic [ 7:0] awlen;
  logic [ 2:0] awsize;
  logic [ 1:0] awburst;
  logic        awvalid;
  logic [63:0] wstrb;
  logic        wlast;
  logic        wvalid;
  logic        bready;

  kernel_shell #(
      .ROW_OUT_BYTES  (12),
      .MAX_BURST_BEATS(2),
      .OUTSTANDING    (2),
      .MAX_RUNS       (2)
  ) u_kernel_shell (
      .clk,
      .rst_n,
      .m_axi_gmem1_awaddr (awaddr),
      .m_axi_gmem1_awlen  (awlen),
      .m_axi_gmem1_awsize (awsize),
      .m_axi_gmem1_awburst(awburst),
      .m_axi_gmem1_awvalid(awvalid),
      .m_axi_gmem1_awready(awready),
      .m_axi_gmem1_wstrb  (wstrb),
      .m_axi_gmem1_wlast  (wlast),
      .m_axi_gmem1_wvalid (wvalid),
      .m_axi_gmem1_wready (wready),
      .m_axi_gmem1_bid    (1'b0),
      .m_axi_gmem1_bresp  (2'd0),
      .m_axi_gmem1_bvalid (bvalid),
      .m_axi_gmem1_bready (bready)
  );

  wire [63:0] beat_address;
  wire [ 7:0] beat;
  axi_write_rules #(
      .ADDR_WIDTH     (64),
      .DATA_WIDTH     (512),
      .MAX_BURST_BEATS(2),
      .OUTSTANDING    (2)
  ) u_memory (
      .clk,
      .rst_n,
      .awaddr,
      .awlen,
      .awsize,
      .awburst,
      .awuser(1'b0),
      .awvalid,
      .awready,
      .wdata(512'd0),
      .wstrb,
      .wlast,
      .wvalid,
      .wready,
      .bresp(2'd0),
      .bvalid,
      .bready,
      .beat_address,
      .beat,
      .burst(),
      .next_burst(),
      .bursts(),
      .written(),
      .owed()
  );

  // The runs passed to kernel_runs
  (* inner = "u_kernel_shell.run_valid" *) wire inner_run_valid;
  (* inner = "u_kernel_shell.run_ready" *) wire inner_run_ready;
  (* inner = "u_kernel_shell.run_y" *) wire [63:0] inner_run_y;
  (* inner = "u_kernel_shell.run_rows" *) wire [31:0] inner_run_rows;
  wire [95:0] run = {inner_run_y, inner_run_rows};
  stream_rules #(.WIDTH(96), .ASSUME(1'b1)) u_run (.clk, .rst_n, .tvalid(inner_run_valid), .tready(inner_run_ready), .tdata(run));

  (* anyconst *) logic [63:0] watched;
  logic       started_q = 1'b0;
  logic [2:0] runs_q;
  wire [63:0] end_of_run = inner_run_y + 64'(inner_run_rows) * 64'd12;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    runs_q    <= runs_q + 3'(inner_run_valid && inner_run_ready && runs_q != 3'd7);
    if (!rst_n) runs_q <= '0;
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (inner_run_valid) begin
      assume (inner_run_y[5:0] == '0 && inner_run_rows < 32'd32);
      assume (end_of_run >= inner_run_y);
      assume (watched < inner_run_y || watched >= end_of_run);
    end
    if (started_q && rst_n && wvalid && watched[63:6] == beat_address[63:6]) begin
      assert (!wstrb[watched[5:0]]);
    end
    cover (started_q && rst_n && wvalid && wlast && beat == 8'd1 && !wstrb[63] && watched[63:6] == beat_address[63:6]);
    cover (started_q && rst_n && wvalid && !wstrb[63] && runs_q == 3'd2 && beat_address == 64'h8000);
  end

endmodule

`default_nettype wire
