// SPDX-License-Identifier: Apache-2.0
// axi_write_merge with two units and separate ports for each channel, as the bench's agents need them.
`default_nettype none

module axi_write_merge_bench #(
    parameter int DATA_WIDTH = 512,
    parameter int MAX_BURST_BEATS = 64,
    parameter int OUTSTANDING = 32
) (
    input  logic                    clk,
    input  logic                    rst_n,
    input  logic                    s_aw0_tvalid,
    output logic                    s_aw0_tready,
    input  logic [            63:0] s_aw0_addr,
    input  logic [             7:0] s_aw0_len,
    input  logic                    s_aw1_tvalid,
    output logic                    s_aw1_tready,
    input  logic [            63:0] s_aw1_addr,
    input  logic [             7:0] s_aw1_len,
    input  logic                    s_w0_tvalid,
    output logic                    s_w0_tready,
    input  logic [  DATA_WIDTH-1:0] s_w0_data,
    input  logic [DATA_WIDTH/8-1:0] s_w0_strb,
    input  logic                    s_w0_last,
    input  logic                    s_w1_tvalid,
    output logic                    s_w1_tready,
    input  logic [  DATA_WIDTH-1:0] s_w1_data,
    input  logic [DATA_WIDTH/8-1:0] s_w1_strb,
    input  logic                    s_w1_last,
    output logic                    m_b0_tvalid,
    input  logic                    m_b0_tready,
    output logic [             1:0] m_b0_resp,
    output logic                    m_b1_tvalid,
    input  logic                    m_b1_tready,
    output logic [             1:0] m_b1_resp,
    output logic [            63:0] m_axi_awaddr,
    output logic [            15:0] m_axi_awid,
    output logic [             7:0] m_axi_awlen,
    output logic [             2:0] m_axi_awsize,
    output logic [             1:0] m_axi_awburst,
    output logic                    m_axi_awvalid,
    input  logic                    m_axi_awready,
    output logic [  DATA_WIDTH-1:0] m_axi_wdata,
    output logic [DATA_WIDTH/8-1:0] m_axi_wstrb,
    output logic                    m_axi_wlast,
    output logic                    m_axi_wvalid,
    input  logic                    m_axi_wready,
    input  logic [            15:0] m_axi_bid,
    input  logic [             1:0] m_axi_bresp,
    input  logic                    m_axi_bvalid,
    output logic                    m_axi_bready
);

  logic [1:0] bresp;

  axi_write_merge #(
      .UNITS          (2),
      .DATA_WIDTH     (DATA_WIDTH),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .OUTSTANDING    (OUTSTANDING)
  ) u_axi_write_merge (
      .s_axi_awaddr ({s_aw1_addr, s_aw0_addr}),
      .s_axi_awlen  ({s_aw1_len, s_aw0_len}),
      .s_axi_awvalid({s_aw1_tvalid, s_aw0_tvalid}),
      .s_axi_awready({s_aw1_tready, s_aw0_tready}),
      .s_axi_wdata  ({s_w1_data, s_w0_data}),
      .s_axi_wstrb  ({s_w1_strb, s_w0_strb}),
      .s_axi_wlast  ({s_w1_last, s_w0_last}),
      .s_axi_wvalid ({s_w1_tvalid, s_w0_tvalid}),
      .s_axi_wready ({s_w1_tready, s_w0_tready}),
      .s_axi_bresp  (bresp),
      .s_axi_bvalid ({m_b1_tvalid, m_b0_tvalid}),
      .s_axi_bready ({m_b1_tready, m_b0_tready}),
      .*
  );

  assign m_b0_resp = bresp;
  assign m_b1_resp = bresp;

endmodule

`default_nettype wire
