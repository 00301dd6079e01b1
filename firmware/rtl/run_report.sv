// SPDX-License-Identifier: Apache-2.0
//
// Tells the host by writes to its memory how many runs each compute unit has completed. On AWS F2 a read of a register is not
// ordered behind the writes through PCIM: when ap_done is read, a run's last bytes may still be on their way. A write is ordered
// behind those that were answered before it was sent. So when the host's memory counts a run, it has the run's data too.
//
//   run_done   __/‾\____________/‾\________      after the last B response of a run
//   AW, W      ______[counts]_________[counts]_      one beat
//   B          _____________/‾\_________/‾\_
//
// The beat has 32 bits for each unit, unit 0 in the low bits. One is in flight at a time; runs that end meanwhile are counted in
// the next one. While `enable` is low, nothing is sent, and the counts return to 0.
`default_nettype none

module run_report #(
    // compute units, at most 16
    parameter int UNITS = 2
) (
    input  logic             clk,
    input  logic             rst_n,

    input  logic             enable,
    // of the beat, a multiple of 64
    input  logic [     63:0] address,
    input  logic [UNITS-1:0] run_done,

    output logic [     63:0] m_axi_awaddr,
    output logic             m_axi_awvalid,
    input  logic             m_axi_awready,
    output logic [    511:0] m_axi_wdata,
    output logic             m_axi_wvalid,
    input  logic             m_axi_wready,
    input  logic             m_axi_bvalid
);

  if (UNITS < 1 || UNITS > 16) begin : g_check_units
    $error("run_report %m: UNITS is %0d, expected 1 to 16", UNITS);
  end

  logic [UNITS-1:0][31:0] counts_q;
  logic [UNITS-1:0][31:0] shown_q;  // the counts in the beat
  logic                   news_q;  // a run was counted that no beat has
  logic                   busy_q;  // a beat was sent and is not answered

  wire start = enable && news_q && !busy_q;

  always_ff @(posedge clk) begin
    for (int i = 0; i < UNITS; i++) counts_q[i] <= enable ? counts_q[i] + 32'(run_done[i]) : '0;
    if (start) begin
      shown_q      <= counts_q;
      m_axi_awaddr <= address;
    end
    news_q        <= enable && ((news_q && !start) || run_done != '0);
    m_axi_awvalid <= start || (m_axi_awvalid && !m_axi_awready);
    m_axi_wvalid  <= start || (m_axi_wvalid && !m_axi_wready);
    busy_q        <= start || (busy_q && !m_axi_bvalid);
    if (!rst_n) begin
      counts_q      <= '0;
      news_q        <= 1'b0;
      m_axi_awvalid <= 1'b0;
      m_axi_wvalid  <= 1'b0;
      busy_q        <= 1'b0;
    end
  end

  assign m_axi_wdata = 512'(shown_q);

endmodule

`default_nettype wire
