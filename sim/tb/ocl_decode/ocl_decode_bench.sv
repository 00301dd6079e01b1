// SPDX-License-Identifier: Apache-2.0
// ocl_decode in front of two slaves; s_axi_control is the shell's OCL.
`default_nettype none

module ocl_decode_bench (
    input  logic        clk,
    input  logic        rst_n,
    input  logic [31:0] s_axi_control_awaddr,
    input  logic        s_axi_control_awvalid,
    output logic        s_axi_control_awready,
    input  logic [31:0] s_axi_control_wdata,
    input  logic [ 3:0] s_axi_control_wstrb,
    input  logic        s_axi_control_wvalid,
    output logic        s_axi_control_wready,
    output logic [ 1:0] s_axi_control_bresp,
    output logic        s_axi_control_bvalid,
    input  logic        s_axi_control_bready,
    input  logic [31:0] s_axi_control_araddr,
    input  logic        s_axi_control_arvalid,
    output logic        s_axi_control_arready,
    output logic [31:0] s_axi_control_rdata,
    output logic [ 1:0] s_axi_control_rresp,
    output logic        s_axi_control_rvalid,
    input  logic        s_axi_control_rready,
    output logic [63:0] report_address,
    output logic        report_enable
);

  localparam int UNITS = 2;

  wire [     11:0]       awaddr;
  wire [UNITS-1:0]       awvalid;
  wire [UNITS-1:0]       awready;
  wire [     31:0]       wdata;
  wire [      3:0]       wstrb;
  wire [UNITS-1:0]       wvalid;
  wire [UNITS-1:0]       wready;
  wire [UNITS-1:0]       bvalid;
  wire [UNITS-1:0]       bready;
  wire [     11:0]       araddr;
  wire [UNITS-1:0]       arvalid;
  wire [UNITS-1:0]       arready;
  wire [UNITS-1:0][31:0] rdata;
  wire [UNITS-1:0]       rvalid;
  wire [UNITS-1:0]       rready;

  ocl_decode #(
      .UNITS(UNITS),
      .UUID (128'h00112233445566778899aabbccddeeff)
  ) u_ocl_decode (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axi_awaddr (s_axi_control_awaddr),
      .s_axi_awvalid(s_axi_control_awvalid),
      .s_axi_awready(s_axi_control_awready),
      .s_axi_wdata  (s_axi_control_wdata),
      .s_axi_wstrb  (s_axi_control_wstrb),
      .s_axi_wvalid (s_axi_control_wvalid),
      .s_axi_wready (s_axi_control_wready),
      .s_axi_bresp  (s_axi_control_bresp),
      .s_axi_bvalid (s_axi_control_bvalid),
      .s_axi_bready (s_axi_control_bready),
      .s_axi_araddr (s_axi_control_araddr),
      .s_axi_arvalid(s_axi_control_arvalid),
      .s_axi_arready(s_axi_control_arready),
      .s_axi_rdata  (s_axi_control_rdata),
      .s_axi_rresp  (s_axi_control_rresp),
      .s_axi_rvalid (s_axi_control_rvalid),
      .s_axi_rready (s_axi_control_rready),
      .m_axi_awaddr (awaddr),
      .m_axi_awvalid(awvalid),
      .m_axi_awready(awready),
      .m_axi_wdata  (wdata),
      .m_axi_wstrb  (wstrb),
      .m_axi_wvalid (wvalid),
      .m_axi_wready (wready),
      .m_axi_bvalid (bvalid),
      .m_axi_bready (bready),
      .m_axi_araddr (araddr),
      .m_axi_arvalid(arvalid),
      .m_axi_arready(arready),
      .m_axi_rdata  (rdata),
      .m_axi_rvalid (rvalid),
      .m_axi_rready (rready),

      .report_address(report_address),
      .report_enable (report_enable)
  );

  // A slave of 1024 words that is ready, and answers, at pseudo-random times
  for (genvar i = 0; i < UNITS; i++) begin : gen_unit
    logic [31:0] words[1024];
    logic [15:0] dice_q;
    logic        aw_q;
    logic        w_q;
    logic        b_q;
    logic        ar_q;
    logic        r_q;
    logic [ 9:0] aw_word_q;
    logic [ 9:0] ar_word_q;
    logic [31:0] data_q;
    logic [ 3:0] strb_q;
    wire         unused = &{1'b0, awaddr[1:0], araddr[1:0], strb_q, dice_q[15:9]};

    initial begin
      dice_q = 16'(1 + i);
      for (int k = 0; k < 1024; k++) words[k] = '0;
    end

    assign awready[i] = !aw_q && dice_q[0];
    assign wready[i]  = !w_q && dice_q[3];
    assign bvalid[i]  = b_q;
    assign arready[i] = !ar_q && dice_q[5];
    assign rvalid[i]  = r_q;
    assign rdata[i]   = r_q ? words[ar_word_q] : 32'hdeadbeef;

    always_ff @(posedge clk) begin
      dice_q <= {dice_q[14:0], dice_q[15] ^ dice_q[13] ^ dice_q[12] ^ dice_q[10]};
      if (awvalid[i] && awready[i]) {aw_q, aw_word_q} <= {1'b1, awaddr[11:2]};
      if (wvalid[i] && wready[i]) {w_q, data_q, strb_q} <= {1'b1, wdata, wstrb};
      if (aw_q && w_q && !b_q && dice_q[7]) {b_q, words[aw_word_q]} <= {1'b1, data_q};
      if (b_q && bready[i]) {aw_q, w_q, b_q} <= 3'b000;
      if (arvalid[i] && arready[i]) {ar_q, ar_word_q} <= {1'b1, araddr[11:2]};
      if (ar_q && !r_q && dice_q[8]) r_q <= 1'b1;
      if (r_q && rready[i]) {ar_q, r_q} <= 2'b00;
      if (!rst_n) {aw_q, w_q, b_q, ar_q, r_q} <= '0;
    end
  end

endmodule

`default_nettype wire
