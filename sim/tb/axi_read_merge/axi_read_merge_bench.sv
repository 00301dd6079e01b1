// SPDX-License-Identifier: Apache-2.0
// axi_read_merge with two units and separate ports for each channel, as the bench's agents need them.
`default_nettype none

module axi_read_merge_bench #(
    parameter int DATA_WIDTH = 512,
    parameter int MAX_BURST_BEATS = 64,
    parameter int SLOTS = 32
) (
    input  logic                  clk,
    input  logic                  rst_n,
    input  logic                  s_ar0_tvalid,
    output logic                  s_ar0_tready,
    input  logic [          63:0] s_ar0_addr,
    input  logic [           7:0] s_ar0_len,
    input  logic                  s_ar1_tvalid,
    output logic                  s_ar1_tready,
    input  logic [          63:0] s_ar1_addr,
    input  logic [           7:0] s_ar1_len,
    output logic                  m_r0_tvalid,
    input  logic                  m_r0_tready,
    output logic [DATA_WIDTH-1:0] m_r0_data,
    output logic [           1:0] m_r0_resp,
    output logic                  m_r0_last,
    output logic                  m_r1_tvalid,
    input  logic                  m_r1_tready,
    output logic [DATA_WIDTH-1:0] m_r1_data,
    output logic [           1:0] m_r1_resp,
    output logic                  m_r1_last,
    output logic [          63:0] m_axi_araddr,
    output logic [          15:0] m_axi_arid,
    output logic [           7:0] m_axi_arlen,
    output logic [           2:0] m_axi_arsize,
    output logic [           1:0] m_axi_arburst,
    output logic                  m_axi_arvalid,
    input  logic                  m_axi_arready,
    input  logic [DATA_WIDTH-1:0] m_axi_rdata,
    input  logic [          15:0] m_axi_rid,
    input  logic [           1:0] m_axi_rresp,
    input  logic                  m_axi_rlast,
    input  logic                  m_axi_rvalid,
    output logic                  m_axi_rready
);

  logic [DATA_WIDTH-1:0] rdata;
  logic [           1:0] rresp;
  logic                  rlast;

  axi_read_merge #(
      .UNITS          (2),
      .DATA_WIDTH     (DATA_WIDTH),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .SLOTS          (SLOTS)
  ) u_axi_read_merge (
      .s_axi_araddr ({s_ar1_addr, s_ar0_addr}),
      .s_axi_arlen  ({s_ar1_len, s_ar0_len}),
      .s_axi_arvalid({s_ar1_tvalid, s_ar0_tvalid}),
      .s_axi_arready({s_ar1_tready, s_ar0_tready}),
      .s_axi_rdata  (rdata),
      .s_axi_rresp  (rresp),
      .s_axi_rlast  (rlast),
      .s_axi_rvalid ({m_r1_tvalid, m_r0_tvalid}),
      .s_axi_rready ({m_r1_tready, m_r0_tready}),
      .*
  );

  assign {m_r0_data, m_r0_resp, m_r0_last} = {rdata, rresp, rlast};
  assign {m_r1_data, m_r1_resp, m_r1_last} = {rdata, rresp, rlast};

endmodule

`default_nettype wire
