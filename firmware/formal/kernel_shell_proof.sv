// SPDX-License-Identifier: Apache-2.0
//
// kernel_shell writes nothing outside [y, y + rows x ROW_OUT_BYTES) of the runs given to it: the solver chooses a byte outside the
// regions of all runs, and no write has its strobe set. The proof uses the real wiring of kernel_shell and kernel_read, the real
// kernel_runs and axi_write_master, beats of 64 bytes and rows of 12 bytes. kernel_control, the modules with which kernel_read
// reads and unpacks, and the packing of rows may do anything (kernel_shell_stubs.sv). Bursts of two beats, two in flight, two runs
// of up to 31 rows.
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
      .clk                  (clk),
      .rst_n                (rst_n),
      .irq                  (),
      .s_axi_control_awaddr (12'd0),
      .s_axi_control_awvalid(1'b0),
      .s_axi_control_awready(),
      .s_axi_control_wdata  (32'd0),
      .s_axi_control_wstrb  (4'd0),
      .s_axi_control_wvalid (1'b0),
      .s_axi_control_wready (),
      .s_axi_control_bresp  (),
      .s_axi_control_bvalid (),
      .s_axi_control_bready (1'b0),
      .s_axi_control_araddr (12'd0),
      .s_axi_control_arvalid(1'b0),
      .s_axi_control_arready(),
      .s_axi_control_rdata  (),
      .s_axi_control_rresp  (),
      .s_axi_control_rvalid (),
      .s_axi_control_rready (1'b0),
      .m_axi_gmem0_araddr   (),
      .m_axi_gmem0_arid     (),
      .m_axi_gmem0_arlen    (),
      .m_axi_gmem0_arsize   (),
      .m_axi_gmem0_arburst  (),
      .m_axi_gmem0_arcache  (),
      .m_axi_gmem0_arprot   (),
      .m_axi_gmem0_arvalid  (),
      .m_axi_gmem0_arready  (1'b0),
      .m_axi_gmem0_rdata    (512'd0),
      .m_axi_gmem0_rid      (1'b0),
      .m_axi_gmem0_rresp    (2'd0),
      .m_axi_gmem0_rlast    (1'b0),
      .m_axi_gmem0_rvalid   (1'b0),
      .m_axi_gmem0_rready   (),
      .m_axi_gmem1_awaddr   (awaddr),
      .m_axi_gmem1_awid     (),
      .m_axi_gmem1_awlen    (awlen),
      .m_axi_gmem1_awsize   (awsize),
      .m_axi_gmem1_awburst  (awburst),
      .m_axi_gmem1_awcache  (),
      .m_axi_gmem1_awprot   (),
      .m_axi_gmem1_awvalid  (awvalid),
      .m_axi_gmem1_awready  (awready),
      .m_axi_gmem1_wdata    (),
      .m_axi_gmem1_wstrb    (wstrb),
      .m_axi_gmem1_wlast    (wlast),
      .m_axi_gmem1_wvalid   (wvalid),
      .m_axi_gmem1_wready   (wready),
      .m_axi_gmem1_bid      (1'b0),
      .m_axi_gmem1_bresp    (2'd0),
      .m_axi_gmem1_bvalid   (bvalid),
      .m_axi_gmem1_bready   (bready),
      .m_axis_x_tvalid      (),
      .m_axis_x_tready      (1'b0),
      .m_axis_x_tdata       (),
      .m_axis_x_tlast       (),
      .s_axis_y_tvalid      (1'b0),
      .s_axis_y_tready      (),
      .s_axis_y_tdata       (96'd0),
      .s_axis_y_tlast       (1'b0),
      .core_rst_n           (),
      .m_axis_w_tvalid      (),
      .m_axis_w_tready      (1'b0),
      .m_axis_w_tdata       (),
      .results_valid        (1'b0),
      .results_ready        (1'b0)
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

  // The runs passed to kernel_runs, which the .sby connects
  (* keep *) wire        inner_run_valid;
  (* keep *) wire        inner_run_ready;
  (* keep *) wire [63:0] inner_run_y;
  (* keep *) wire [31:0] inner_run_rows;

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
