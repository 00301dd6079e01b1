// SPDX-License-Identifier: Apache-2.0
//
// Decodes the AWS F2 shell's OCL, an AXI4-Lite bus, to several slaves: unit n at n * 0x10000, 4 KiB each, and the identity block
// (docs/f2-registers.md), whose register REPORT says where run_report writes. Any other address reads 0 and ignores writes. Every
// access is answered, because the shell disables the bus after one that is not.
//
// It handles one write and one read at a time. Address and data of a write arrive in any order and are held until the write is
// answered.
`ifndef F2_REGISTERS_SVH  // not needed by compilers that read it as a source of its own, which need no include path
`include "f2_registers.svh"
`endif
`default_nettype none

module ocl_decode #(
    // number of units, at most f2_registers::MAX_UNITS
    parameter int UNITS = 2,
    // the value of the register UUID, with the first hexadecimal digit in the top bits
    parameter logic [127:0] UUID = '0
) (
    input  logic clk,
    input  logic rst_n,

    input  logic [31:0] s_axi_awaddr,
    input  logic        s_axi_awvalid,
    output logic        s_axi_awready,
    input  logic [31:0] s_axi_wdata,
    input  logic [ 3:0] s_axi_wstrb,
    input  logic        s_axi_wvalid,
    output logic        s_axi_wready,
    output logic [ 1:0] s_axi_bresp,
    output logic        s_axi_bvalid,
    input  logic        s_axi_bready,
    input  logic [31:0] s_axi_araddr,
    input  logic        s_axi_arvalid,
    output logic        s_axi_arready,
    output logic [31:0] s_axi_rdata,
    output logic [ 1:0] s_axi_rresp,
    output logic        s_axi_rvalid,
    input  logic        s_axi_rready,

    // one address and data for all units; valid selects the unit
    output logic [     11:0]       m_axi_awaddr,
    output logic [UNITS-1:0]       m_axi_awvalid,
    input  logic [UNITS-1:0]       m_axi_awready,
    output logic [     31:0]       m_axi_wdata,
    output logic [      3:0]       m_axi_wstrb,
    output logic [UNITS-1:0]       m_axi_wvalid,
    input  logic [UNITS-1:0]       m_axi_wready,
    input  logic [UNITS-1:0]       m_axi_bvalid,
    output logic [UNITS-1:0]       m_axi_bready,
    output logic [     11:0]       m_axi_araddr,
    output logic [UNITS-1:0]       m_axi_arvalid,
    input  logic [UNITS-1:0]       m_axi_arready,
    input  logic [UNITS-1:0][31:0] m_axi_rdata,
    input  logic [UNITS-1:0]       m_axi_rvalid,
    output logic [UNITS-1:0]       m_axi_rready,

    // the register REPORT: an address that is a multiple of 64, and its bit 0
    output logic [63:0] report_address,
    output logic        report_enable
);

  if (UNITS < 1 || UNITS > f2_registers::MAX_UNITS) begin : g_check_units
    $error("ocl_decode %m: UNITS is %0d, expected 1 to %0d", UNITS, f2_registers::MAX_UNITS);
  end

  // Nothing is taken during the reset, which may end some clocks after the host's (AXI4, A3.1.2)
  logic open_q;
  always_ff @(posedge clk) open_q <= rst_n;

  // Write. The address is decoded in the clock after it is taken
  logic             aw_held_q;
  logic             aw_known_q;
  logic             w_held_q;
  logic [     25:0] aw_address_q;
  logic             write_q;  // passed on to the unit
  logic [UNITS-1:0] write_unit_q;
  logic [UNITS-1:0] awaits_b_q;  // the unit that owes the response
  logic             b_valid_q;

  wire write = aw_known_q && w_held_q && !write_q;
  wire [UNITS-1:0] b_taken = m_axi_bvalid & m_axi_bready;

  for (genvar i = 0; i < UNITS; i++) begin : gen_write
    always_ff @(posedge clk) write_unit_q[i] <= aw_address_q[25:16] == 10'(i) && aw_address_q[15:12] == '0;
  end

  always_ff @(posedge clk) begin
    if (s_axi_awvalid && s_axi_awready) begin
      aw_held_q    <= 1'b1;
      aw_address_q <= s_axi_awaddr[25:0];
    end
    if (s_axi_wvalid && s_axi_wready) begin
      w_held_q    <= 1'b1;
      m_axi_wdata <= s_axi_wdata;
      m_axi_wstrb <= s_axi_wstrb;
    end
    aw_known_q    <= aw_held_q;
    m_axi_awvalid <= (m_axi_awvalid & ~m_axi_awready) | (write_unit_q & {UNITS{write}});
    m_axi_wvalid  <= (m_axi_wvalid & ~m_axi_wready) | (write_unit_q & {UNITS{write}});
    awaits_b_q    <= (awaits_b_q & ~b_taken) | (write_unit_q & {UNITS{write}});
    if (write) write_q <= 1'b1;
    b_valid_q <= (write && write_unit_q == '0) || b_taken != '0 || (b_valid_q && !s_axi_bready);
    if (b_valid_q && s_axi_bready) begin
      aw_held_q  <= 1'b0;
      aw_known_q <= 1'b0;
      w_held_q   <= 1'b0;
      write_q    <= 1'b0;
    end
    if (!rst_n) begin
      aw_held_q     <= 1'b0;
      aw_known_q    <= 1'b0;
      w_held_q      <= 1'b0;
      write_q       <= 1'b0;
      m_axi_awvalid <= '0;
      m_axi_wvalid  <= '0;
      awaits_b_q    <= '0;
      b_valid_q     <= 1'b0;
    end
  end

  assign s_axi_awready = open_q && !aw_held_q;
  assign s_axi_wready  = open_q && !w_held_q;
  assign s_axi_bvalid  = b_valid_q;
  assign s_axi_bresp   = 2'b00;
  assign m_axi_awaddr  = aw_address_q[11:0];
  assign m_axi_bready  = awaits_b_q;

  // The register REPORT
  logic [63:0] report_q;

  logic       low_q;
  logic       high_q;
  wire        at_identity = aw_address_q[25:16] == f2_registers::IDENTITY && aw_address_q[15:12] == '0;

  always_ff @(posedge clk) begin
    low_q  <= at_identity && aw_address_q[11:2] == f2_registers::REPORT_LOW;
    high_q <= at_identity && aw_address_q[11:2] == f2_registers::REPORT_HIGH;
    if (write && low_q) report_q[31:0] <= m_axi_wdata;
    if (write && high_q) report_q[63:32] <= m_axi_wdata;
    if (!rst_n) report_q <= '0;
  end

  assign report_address = {report_q[63:6], 6'd0};
  assign report_enable  = report_q[0];

  // Read, likewise
  logic             ar_held_q;
  logic             ar_known_q;
  logic [     25:0] ar_address_q;
  logic             read_q;  // passed on to the unit
  logic [UNITS-1:0] read_unit_q;
  logic [UNITS-1:0] awaits_r_q;  // the unit that owes the data
  logic             r_valid_q;
  logic [     31:0] identity;
  logic [     31:0] identity_q;
  logic [     31:0] unit_data;

  wire read = ar_known_q && !read_q;
  wire [UNITS-1:0] r_taken = m_axi_rvalid & m_axi_rready;

  for (genvar i = 0; i < UNITS; i++) begin : gen_read
    always_ff @(posedge clk) read_unit_q[i] <= ar_address_q[25:16] == 10'(i) && ar_address_q[15:12] == '0;
  end

  always_comb begin
    identity = '0;
    if (ar_address_q[25:16] == f2_registers::IDENTITY && ar_address_q[15:12] == '0) begin
      unique case (ar_address_q[11:2])
        f2_registers::MAGIC:         identity = f2_registers::MAGIC_VALUE;
        f2_registers::VERSION:       identity = f2_registers::MAP_VERSION;
        f2_registers::COMPUTE_UNITS: identity = 32'(UNITS);
        f2_registers::UUID_0:        identity = UUID[127:96];
        f2_registers::UUID_1:        identity = UUID[95:64];
        f2_registers::UUID_2:        identity = UUID[63:32];
        f2_registers::UUID_3:        identity = UUID[31:0];
        default:                     identity = '0;
      endcase
    end
  end

  always_comb begin
    unit_data = '0;
    for (int i = 0; i < UNITS; i++) unit_data |= m_axi_rdata[i] & {32{r_taken[i]}};
  end

  always_ff @(posedge clk) begin
    if (s_axi_arvalid && s_axi_arready) begin
      ar_held_q    <= 1'b1;
      ar_address_q <= s_axi_araddr[25:0];
    end
    ar_known_q    <= ar_held_q;
    identity_q    <= identity;
    m_axi_arvalid <= (m_axi_arvalid & ~m_axi_arready) | (read_unit_q & {UNITS{read}});
    awaits_r_q    <= (awaits_r_q & ~r_taken) | (read_unit_q & {UNITS{read}});
    if (read) read_q <= 1'b1;
    r_valid_q <= (read && read_unit_q == '0) || r_taken != '0 || (r_valid_q && !s_axi_rready);
    if (read) s_axi_rdata <= identity_q;
    else if (r_taken != '0) s_axi_rdata <= unit_data;
    if (r_valid_q && s_axi_rready) begin
      ar_held_q  <= 1'b0;
      ar_known_q <= 1'b0;
      read_q     <= 1'b0;
    end
    if (!rst_n) begin
      ar_held_q     <= 1'b0;
      ar_known_q    <= 1'b0;
      read_q        <= 1'b0;
      m_axi_arvalid <= '0;
      awaits_r_q    <= '0;
      r_valid_q     <= 1'b0;
    end
  end

  assign s_axi_arready = open_q && !ar_held_q;
  assign s_axi_rvalid  = r_valid_q;
  assign s_axi_rresp   = 2'b00;
  assign m_axi_araddr  = ar_address_q[11:0];
  assign m_axi_rready  = awaits_r_q;

  wire unused = &{1'b0, s_axi_awaddr[31:26], s_axi_araddr[31:26], report_q[5:1]};

endmodule

`default_nettype wire
