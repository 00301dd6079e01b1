// SPDX-License-Identifier: Apache-2.0
//
// ocl_decode: every access of the shell is answered once, with OKAY, within PATIENCE clocks if its unit answers within two; valid
// and its payload stay until ready on both sides; and the access reaches the unit of its address with its address and data, or no
// unit.
//
// The shell is any AXI4-Lite host; the units are any slaves that obey the rules. There are two units; the one that a write or a
// read addresses is recorded when it is taken.
`default_nettype none

module ocl_decode_proof (
    input logic        clk,
    input logic        rst_n,
    input logic [31:0] s_axi_awaddr,
    input logic        s_axi_awvalid,
    input logic [31:0] s_axi_wdata,
    input logic [ 3:0] s_axi_wstrb,
    input logic        s_axi_wvalid,
    input logic        s_axi_bready,
    input logic [31:0] s_axi_araddr,
    input logic        s_axi_arvalid,
    input logic        s_axi_rready,
    input logic [ 1:0] m_axi_awready,
    input logic [ 1:0] m_axi_wready,
    input logic [ 1:0] m_axi_bvalid,
    input logic [ 1:0] m_axi_arready,
    input logic [31:0] r0_data,
    input logic [31:0] r1_data,
    input logic [ 1:0] m_axi_rvalid
);

  localparam int PATIENCE = 9;

  logic        s_axi_awready;
  logic        s_axi_wready;
  logic [ 1:0] s_axi_bresp;
  logic        s_axi_bvalid;
  logic        s_axi_arready;
  logic [31:0] s_axi_rdata;
  logic [ 1:0] s_axi_rresp;
  logic        s_axi_rvalid;
  logic [11:0] m_axi_awaddr;
  logic [ 1:0] m_axi_awvalid;
  logic [31:0] m_axi_wdata;
  logic [ 3:0] m_axi_wstrb;
  logic [ 1:0] m_axi_wvalid;
  logic [ 1:0] m_axi_bready;
  logic [11:0] m_axi_araddr;
  logic [ 1:0] m_axi_arvalid;
  logic [ 1:0] m_axi_rready;
  logic [63:0] report_address;
  logic        report_enable;

  ocl_decode #(
      .UNITS(2),
      .UUID (128'h00112233445566778899aabbccddeeff)
  ) u_ocl_decode (
      .*,
      .m_axi_rdata({r1_data, r0_data})
  );

  axi_lite_rules #(
      .ADDR_WIDTH(32),
      .PATIENCE  (PATIENCE)
  ) u_shell (
      .clk,
      .rst_n,
      .awaddr (s_axi_awaddr),
      .awvalid(s_axi_awvalid),
      .awready(s_axi_awready),
      .wdata  (s_axi_wdata),
      .wstrb  (s_axi_wstrb),
      .wvalid (s_axi_wvalid),
      .wready (s_axi_wready),
      .bresp  (s_axi_bresp),
      .bvalid (s_axi_bvalid),
      .bready (s_axi_bready),
      .araddr (s_axi_araddr),
      .arvalid(s_axi_arvalid),
      .arready(s_axi_arready),
      .rdata  (s_axi_rdata),
      .rresp  (s_axi_rresp),
      .rvalid (s_axi_rvalid),
      .rready (s_axi_rready),
      .addresses(),
      .words    (),
      .reads    ()
  );

  for (genvar i = 0; i < 2; i++) begin : gen_unit
    axi_lite_rules #(
        .ASSUME_SLAVE(1'b1)
    ) u_unit (
        .clk,
        .rst_n,
        .awaddr (m_axi_awaddr),
        .awvalid(m_axi_awvalid[i]),
        .awready(m_axi_awready[i]),
        .wdata  (m_axi_wdata),
        .wstrb  (m_axi_wstrb),
        .wvalid (m_axi_wvalid[i]),
        .wready (m_axi_wready[i]),
        .bresp  (2'b00),
        .bvalid (m_axi_bvalid[i]),
        .bready (m_axi_bready[i]),
        .araddr (m_axi_araddr),
        .arvalid(m_axi_arvalid[i]),
        .arready(m_axi_arready[i]),
        .rdata  (i == 1 ? r1_data : r0_data),
        .rresp  (2'b00),
        .rvalid (m_axi_rvalid[i]),
        .rready (m_axi_rready[i]),
        .addresses(),
        .words    (),
        .reads    ()
    );
  end

  // A unit takes an access within two clocks
  logic       started_q = 1'b0;
  logic [1:0] waits_q[6];
  wire  [5:0] waits = {m_axi_awvalid & ~m_axi_awready, m_axi_wvalid & ~m_axi_wready, m_axi_arvalid & ~m_axi_arready};

  for (genvar i = 0; i < 6; i++) begin : gen_wait
    always_ff @(posedge clk) waits_q[i] <= (rst_n && waits[i]) ? waits_q[i] + 1'b1 : 2'd0;
    always_comb if (started_q && rst_n) assume (waits_q[i] < 2'd2);
  end

  // The access taken last, and the unit of its address
  logic [31:0] aw_q;
  logic [35:0] w_q;
  logic [31:0] ar_q;
  logic [31:0] data_q;  // the unit's answer
  logic [64:0] report_q;  // REPORT, a clock ago
  wire  [64:0] report = {report_address, report_enable};
  wire         aw_unit_0 = aw_q[25:12] == 14'h0000;
  wire         aw_unit_1 = aw_q[25:12] == 14'h0010;
  wire         ar_unit_0 = ar_q[25:12] == 14'h0000;
  wire         ar_unit_1 = ar_q[25:12] == 14'h0010;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    report_q  <= rst_n ? report : '0;
    if (s_axi_awvalid && s_axi_awready) aw_q <= s_axi_awaddr;
    if (s_axi_wvalid && s_axi_wready) w_q <= {s_axi_wdata, s_axi_wstrb};
    if (s_axi_arvalid && s_axi_arready) ar_q <= s_axi_araddr;
    if (m_axi_rvalid[0] && m_axi_rready[0]) data_q <= r0_data;
    if (m_axi_rvalid[1] && m_axi_rready[1]) data_q <= r1_data;
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      assert (m_axi_awvalid != 2'b11 && m_axi_wvalid != 2'b11 && m_axi_arvalid != 2'b11);
      if (m_axi_awvalid[0] || m_axi_wvalid[0]) assert (aw_unit_0);
      if (m_axi_awvalid[1] || m_axi_wvalid[1]) assert (aw_unit_1);
      if (m_axi_awvalid != '0) assert (m_axi_awaddr == aw_q[11:0]);
      if (m_axi_wvalid != '0) assert ({m_axi_wdata, m_axi_wstrb} == w_q);
      if (m_axi_arvalid[0]) assert (ar_unit_0 && m_axi_araddr == ar_q[11:0]);
      if (m_axi_arvalid[1]) assert (ar_unit_1 && m_axi_araddr == ar_q[11:0]);
      // REPORT changes only by a write to it, and becomes what was written
      if (report[64:33] != report_q[64:33]) assert (aw_q[25:2] == 24'hffc009 && report_address[63:32] == w_q[35:4]);
      if (report[32:0] != report_q[32:0]) begin
        assert (aw_q[25:2] == 24'hffc008 && report[32:0] == {w_q[35:10], 6'd0, w_q[4]});
      end
      if (s_axi_rvalid && (ar_unit_0 || ar_unit_1)) assert (s_axi_rdata == data_q);
      if (s_axi_rvalid && !ar_unit_0 && !ar_unit_1 && ar_q[25:12] != 14'h3ff0) assert (s_axi_rdata == '0);
    end
    cover (started_q && rst_n && s_axi_bvalid && aw_unit_1 && s_axi_rvalid && ar_unit_0 && s_axi_rdata == 32'h12345678);
    cover (started_q && rst_n && s_axi_rvalid && s_axi_rdata == 32'h44556677);
    cover (started_q && rst_n && s_axi_bvalid && !aw_unit_0 && !aw_unit_1);
    cover (started_q && rst_n && report_address == 64'h5_0000_0040 && report_enable);
  end

endmodule

`default_nettype wire
