// SPDX-License-Identifier: Apache-2.0
//
// Stubs with which kernel_shell_proof replaces the modules that do not write to memory. Each has the ports of its namesake and
// outputs that the solver chooses, so the shell is proved for any behaviour of these modules.
`default_nettype none

module kernel_control #(
    parameter int ROW_IN_BYTES = 72,
    parameter int ROW_OUT_BYTES = 4,
    parameter int WEIGHTS_BEATS = 0,
    parameter int MAX_RUNS = 8
) (
    input  logic        clk,
    input  logic        rst_n,
    input  logic [11:0] s_axi_control_awaddr,
    input  logic        s_axi_control_awvalid,
    output logic        s_axi_control_awready,
    input  logic [31:0] s_axi_control_wdata,
    input  logic [ 3:0] s_axi_control_wstrb,
    input  logic        s_axi_control_wvalid,
    output logic        s_axi_control_wready,
    output logic [ 1:0] s_axi_control_bresp,
    output logic        s_axi_control_bvalid,
    input  logic        s_axi_control_bready,
    input  logic [11:0] s_axi_control_araddr,
    input  logic        s_axi_control_arvalid,
    output logic        s_axi_control_arready,
    output logic [31:0] s_axi_control_rdata,
    output logic [ 1:0] s_axi_control_rresp,
    output logic        s_axi_control_rvalid,
    input  logic        s_axi_control_rready,
    output logic        irq,
    output logic        m_axis_run_tvalid,
    input  logic        m_axis_run_tready,
    output logic [63:0] m_axis_run_x,
    output logic [63:0] m_axis_run_y,
    output logic [31:0] m_axis_run_rows,
    output logic [63:0] m_axis_run_w,
    input  logic        s_axis_done_tvalid,
    output logic        s_axis_done_tready,
    input  logic        read_error,
    input  logic        write_error,
    input  logic        starved,
    input  logic        blocked,
    input  logic        results_valid,
    input  logic        results_ready,
    input  logic        read_address_waits,
    input  logic        write_address_waits,
    input  logic        write_data_waits
);
  (* anyseq *) logic        valid;
  (* anyseq *) logic [63:0] y;
  (* anyseq *) logic [31:0] rows;
  (* anyseq *) logic        ready;
  assign m_axis_run_tvalid  = valid;
  assign m_axis_run_x       = '0;
  assign m_axis_run_y       = y;
  assign m_axis_run_rows    = rows;
  assign m_axis_run_w       = '0;
  assign s_axis_done_tready = ready;
  wire [95:0] run = {y, rows};
  stream_rules #(.WIDTH(96), .ASSUME(1'b1)) u_run (.clk, .rst_n, .tvalid(valid), .tready(m_axis_run_tready), .tdata(run));
endmodule

module axi_read_master #(
    parameter int ADDR_WIDTH = 64,
    parameter int DATA_WIDTH = 512,
    parameter int MAX_BURST_BEATS = 64,
    parameter int OUTSTANDING = 16,
    parameter int COUNT_WIDTH = 42
) (
    input  logic                   clk,
    input  logic                   rst_n,
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
  (* anyseq *) logic ready;
  assign s_axis_desc_tready = ready;
endmodule

module axis_row_unpack #(
    parameter int WORD_WIDTH = 32,
    parameter int BEAT_WORDS = 16,
    parameter int ROW_WORDS = 18,
    parameter int ROWS_WIDTH = 32
) (
    input  logic                             clk,
    input  logic                             rst_n,
    input  logic                             s_axis_desc_tvalid,
    output logic                             s_axis_desc_tready,
    input  logic [           ROWS_WIDTH-1:0] s_axis_desc_rows,
    input  logic                             s_axis_tvalid,
    output logic                             s_axis_tready,
    input  logic [BEAT_WORDS*WORD_WIDTH-1:0] s_axis_tdata,
    output logic                             m_axis_tvalid,
    input  logic                             m_axis_tready,
    output logic [ ROW_WORDS*WORD_WIDTH-1:0] m_axis_tdata,
    output logic                             m_axis_tlast,
    output logic                             starved
);
  (* anyseq *) logic ready;
  assign s_axis_desc_tready = ready;
endmodule

module axis_row_pack #(
    parameter int WORD_WIDTH = 32,
    parameter int ROW_WORDS = 1,
    parameter int BEAT_WORDS = 16
) (
    input  logic                             clk,
    input  logic                             rst_n,
    input  logic                             s_axis_tvalid,
    output logic                             s_axis_tready,
    input  logic [ ROW_WORDS*WORD_WIDTH-1:0] s_axis_tdata,
    input  logic                             s_axis_tlast,
    output logic                             m_axis_tvalid,
    input  logic                             m_axis_tready,
    output logic [BEAT_WORDS*WORD_WIDTH-1:0] m_axis_tdata,
    output logic                             m_axis_tlast
);
  (* anyseq *) logic valid;
  assign m_axis_tvalid = valid;
  assign m_axis_tdata  = '0;
endmodule

`default_nettype wire
