// SPDX-License-Identifier: Apache-2.0
//
// The logic between UNITS kernels and the AWS F2 shell, all in the clock of the shell's interfaces (250 MHz):
//
//   ocl (BAR0) ------> ocl_decode -------> s_axi_control of each unit
//   pcim AR, R <-----> axi_read_merge <--> m_axi_gmem0 of each unit
//   pcim AW, W, B <--> axi_write_merge <-> m_axi_gmem1 of each unit, run_report <- run_done of each unit
//   irq_req, irq_ack <- irq_request <----- interrupt of each unit
//
// The shell's rules for PCIM, and the modules that obey them: beats of 64 bytes, INCR, not across 4 KiB (axi_burst_split, the
// units); at most 32 reads in flight, no two with the same ID, data taken at once (axi_read_merge); the data of a write right
// after its address (axi_write_merge); strobes without holes (axi_write_master).
`default_nettype none

module f2_shell #(
    // number of kernels
    parameter int UNITS = 2,
    // beats of the longest burst, a power of two, at most 64; the same as in the kernels
    parameter int MAX_BURST_BEATS = 64,
    // identifies the build, in the identity block
    parameter logic [127:0] UUID = '0
) (
    input  logic clk,
    input  logic rst_n,

    // The shell's side
    input  logic [31:0] ocl_awaddr,
    input  logic        ocl_awvalid,
    output logic        ocl_awready,
    input  logic [31:0] ocl_wdata,
    input  logic [ 3:0] ocl_wstrb,
    input  logic        ocl_wvalid,
    output logic        ocl_wready,
    output logic [ 1:0] ocl_bresp,
    output logic        ocl_bvalid,
    input  logic        ocl_bready,
    input  logic [31:0] ocl_araddr,
    input  logic        ocl_arvalid,
    output logic        ocl_arready,
    output logic [31:0] ocl_rdata,
    output logic [ 1:0] ocl_rresp,
    output logic        ocl_rvalid,
    input  logic        ocl_rready,

    output logic [ 63:0] pcim_awaddr,
    output logic [ 15:0] pcim_awid,
    output logic [  7:0] pcim_awlen,
    output logic [  2:0] pcim_awsize,
    output logic [  1:0] pcim_awburst,
    output logic         pcim_awvalid,
    input  logic         pcim_awready,
    output logic [511:0] pcim_wdata,
    output logic [ 63:0] pcim_wstrb,
    output logic         pcim_wlast,
    output logic         pcim_wvalid,
    input  logic         pcim_wready,
    input  logic [ 15:0] pcim_bid,
    input  logic [  1:0] pcim_bresp,
    input  logic         pcim_bvalid,
    output logic         pcim_bready,
    output logic [ 63:0] pcim_araddr,
    output logic [ 15:0] pcim_arid,
    output logic [  7:0] pcim_arlen,
    output logic [  2:0] pcim_arsize,
    output logic [  1:0] pcim_arburst,
    output logic         pcim_arvalid,
    input  logic         pcim_arready,
    input  logic [511:0] pcim_rdata,
    input  logic [ 15:0] pcim_rid,
    input  logic [  1:0] pcim_rresp,
    input  logic         pcim_rlast,
    input  logic         pcim_rvalid,
    output logic         pcim_rready,

    output logic [15:0] irq_req,
    input  logic [15:0] irq_ack,

    // The kernels' side
    input  logic [UNITS-1:0] unit_interrupt,
    // a run of the unit is complete: each of its writes was answered
    input  logic [UNITS-1:0] unit_run_done,

    output logic [     11:0]       unit_control_awaddr,
    output logic [UNITS-1:0]       unit_control_awvalid,
    input  logic [UNITS-1:0]       unit_control_awready,
    output logic [     31:0]       unit_control_wdata,
    output logic [      3:0]       unit_control_wstrb,
    output logic [UNITS-1:0]       unit_control_wvalid,
    input  logic [UNITS-1:0]       unit_control_wready,
    input  logic [UNITS-1:0]       unit_control_bvalid,
    output logic [UNITS-1:0]       unit_control_bready,
    output logic [     11:0]       unit_control_araddr,
    output logic [UNITS-1:0]       unit_control_arvalid,
    input  logic [UNITS-1:0]       unit_control_arready,
    input  logic [UNITS-1:0][31:0] unit_control_rdata,
    input  logic [UNITS-1:0]       unit_control_rvalid,
    output logic [UNITS-1:0]       unit_control_rready,

    input  logic [UNITS-1:0][ 63:0] unit_araddr,
    input  logic [UNITS-1:0][  7:0] unit_arlen,
    input  logic [UNITS-1:0]        unit_arvalid,
    output logic [UNITS-1:0]        unit_arready,
    output logic            [511:0] unit_rdata,
    output logic            [  1:0] unit_rresp,
    output logic                    unit_rlast,
    output logic [UNITS-1:0]        unit_rvalid,
    input  logic [UNITS-1:0]        unit_rready,

    input  logic [UNITS-1:0][ 63:0] unit_awaddr,
    input  logic [UNITS-1:0][  7:0] unit_awlen,
    input  logic [UNITS-1:0]        unit_awvalid,
    output logic [UNITS-1:0]        unit_awready,
    input  logic [UNITS-1:0][511:0] unit_wdata,
    input  logic [UNITS-1:0][ 63:0] unit_wstrb,
    input  logic [UNITS-1:0]        unit_wlast,
    input  logic [UNITS-1:0]        unit_wvalid,
    output logic [UNITS-1:0]        unit_wready,
    output logic            [  1:0] unit_bresp,
    output logic [UNITS-1:0]        unit_bvalid,
    input  logic [UNITS-1:0]        unit_bready
);

  logic [ 63:0] report_address;
  logic         report_enable;
  logic [ 63:0] report_awaddr;
  logic         report_awvalid;
  logic         report_awready;
  logic [511:0] report_wdata;
  logic         report_wvalid;
  logic         report_wready;
  logic         report_bvalid;

  ocl_decode #(
      .UNITS(UNITS),
      .UUID (UUID)
  ) u_ocl_decode (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axi_awaddr (ocl_awaddr),
      .s_axi_awvalid(ocl_awvalid),
      .s_axi_awready(ocl_awready),
      .s_axi_wdata  (ocl_wdata),
      .s_axi_wstrb  (ocl_wstrb),
      .s_axi_wvalid (ocl_wvalid),
      .s_axi_wready (ocl_wready),
      .s_axi_bresp  (ocl_bresp),
      .s_axi_bvalid (ocl_bvalid),
      .s_axi_bready (ocl_bready),
      .s_axi_araddr (ocl_araddr),
      .s_axi_arvalid(ocl_arvalid),
      .s_axi_arready(ocl_arready),
      .s_axi_rdata  (ocl_rdata),
      .s_axi_rresp  (ocl_rresp),
      .s_axi_rvalid (ocl_rvalid),
      .s_axi_rready (ocl_rready),
      .m_axi_awaddr (unit_control_awaddr),
      .m_axi_awvalid(unit_control_awvalid),
      .m_axi_awready(unit_control_awready),
      .m_axi_wdata  (unit_control_wdata),
      .m_axi_wstrb  (unit_control_wstrb),
      .m_axi_wvalid (unit_control_wvalid),
      .m_axi_wready (unit_control_wready),
      .m_axi_bvalid (unit_control_bvalid),
      .m_axi_bready (unit_control_bready),
      .m_axi_araddr (unit_control_araddr),
      .m_axi_arvalid(unit_control_arvalid),
      .m_axi_arready(unit_control_arready),
      .m_axi_rdata  (unit_control_rdata),
      .m_axi_rvalid (unit_control_rvalid),
      .m_axi_rready (unit_control_rready),

      .report_address(report_address),
      .report_enable (report_enable)
  );

  run_report #(
      .UNITS(UNITS)
  ) u_run_report (
      .clk          (clk),
      .rst_n        (rst_n),
      .enable       (report_enable),
      .address      (report_address),
      .run_done     (unit_run_done),
      .m_axi_awaddr (report_awaddr),
      .m_axi_awvalid(report_awvalid),
      .m_axi_awready(report_awready),
      .m_axi_wdata  (report_wdata),
      .m_axi_wvalid (report_wvalid),
      .m_axi_wready (report_wready),
      .m_axi_bvalid (report_bvalid)
  );

  axi_read_merge #(
      .UNITS          (UNITS),
      .ADDR_WIDTH     (64),
      .DATA_WIDTH     (512),
      .ID_WIDTH       (16),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .SLOTS          (32)
  ) u_axi_read_merge (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axi_araddr (unit_araddr),
      .s_axi_arlen  (unit_arlen),
      .s_axi_arvalid(unit_arvalid),
      .s_axi_arready(unit_arready),
      .s_axi_rdata  (unit_rdata),
      .s_axi_rresp  (unit_rresp),
      .s_axi_rlast  (unit_rlast),
      .s_axi_rvalid (unit_rvalid),
      .s_axi_rready (unit_rready),
      .m_axi_araddr (pcim_araddr),
      .m_axi_arid   (pcim_arid),
      .m_axi_arlen  (pcim_arlen),
      .m_axi_arsize (pcim_arsize),
      .m_axi_arburst(pcim_arburst),
      .m_axi_arvalid(pcim_arvalid),
      .m_axi_arready(pcim_arready),
      .m_axi_rdata  (pcim_rdata),
      .m_axi_rid    (pcim_rid),
      .m_axi_rresp  (pcim_rresp),
      .m_axi_rlast  (pcim_rlast),
      .m_axi_rvalid (pcim_rvalid),
      .m_axi_rready (pcim_rready)
  );

  // after the units, the reports
  axi_write_merge #(
      .UNITS          (UNITS + 1),
      .ADDR_WIDTH     (64),
      .DATA_WIDTH     (512),
      .ID_WIDTH       (16),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .OUTSTANDING    (32)
  ) u_axi_write_merge (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axi_awaddr ({report_awaddr, unit_awaddr}),
      .s_axi_awlen  ({8'd0, unit_awlen}),
      .s_axi_awvalid({report_awvalid, unit_awvalid}),
      .s_axi_awready({report_awready, unit_awready}),
      .s_axi_wdata  ({report_wdata, unit_wdata}),
      .s_axi_wstrb  ({~64'd0, unit_wstrb}),
      .s_axi_wlast  ({1'b1, unit_wlast}),
      .s_axi_wvalid ({report_wvalid, unit_wvalid}),
      .s_axi_wready ({report_wready, unit_wready}),
      .s_axi_bresp  (unit_bresp),
      .s_axi_bvalid ({report_bvalid, unit_bvalid}),
      .s_axi_bready ({1'b1, unit_bready}),
      .m_axi_awaddr (pcim_awaddr),
      .m_axi_awid   (pcim_awid),
      .m_axi_awlen  (pcim_awlen),
      .m_axi_awsize (pcim_awsize),
      .m_axi_awburst(pcim_awburst),
      .m_axi_awvalid(pcim_awvalid),
      .m_axi_awready(pcim_awready),
      .m_axi_wdata  (pcim_wdata),
      .m_axi_wstrb  (pcim_wstrb),
      .m_axi_wlast  (pcim_wlast),
      .m_axi_wvalid (pcim_wvalid),
      .m_axi_wready (pcim_wready),
      .m_axi_bid    (pcim_bid),
      .m_axi_bresp  (pcim_bresp),
      .m_axi_bvalid (pcim_bvalid),
      .m_axi_bready (pcim_bready)
  );

  for (genvar i = 0; i < 16; i++) begin : gen_irq
    if (i < UNITS) begin : gen_used
      irq_request u_irq_request (
          .clk    (clk),
          .rst_n  (rst_n),
          .irq    (unit_interrupt[i]),
          .request(irq_req[i]),
          .ack    (irq_ack[i])
      );
    end else begin : gen_unused
      assign irq_req[i] = 1'b0;
      wire unused = &{1'b0, irq_ack[i]};
    end
  end

endmodule

`default_nettype wire
