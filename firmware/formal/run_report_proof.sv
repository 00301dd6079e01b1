// SPDX-License-Identifier: Apache-2.0
//
// run_report: a beat has exactly the runs that each unit had completed when it was sent, a run that no beat has yet is in the next,
// and one beat is in flight at a time. AW and W are offered together, stay until they are taken, and wait neither for each other's
// ready nor for anything but the response to the beat before. Two units.
`default_nettype none

module run_report_proof (
    input logic        clk,
    input logic        rst_n,
    input logic        enable,
    input logic [63:0] address,
    input logic [ 1:0] run_done,
    input logic        m_axi_awready,
    input logic        m_axi_wready,
    input logic        m_axi_bvalid
);

  logic [ 63:0] m_axi_awaddr;
  logic         m_axi_awvalid;
  logic [511:0] m_axi_wdata;
  logic         m_axi_wvalid;

  run_report #(.UNITS(2)) u_run_report (.*);

  stream_rules #(.WIDTH(64)) u_aw (.clk, .rst_n, .tvalid(m_axi_awvalid), .tready(m_axi_awready), .tdata(m_axi_awaddr));
  stream_rules #(.WIDTH(512)) u_w (.clk, .rst_n, .tvalid(m_axi_wvalid), .tready(m_axi_wready), .tdata(m_axi_wdata));

  (* inner = "u_run_report.counts_q" *) wire [63:0] inner_counts;
  (* inner = "u_run_report.news_q" *) wire inner_news;
  (* inner = "u_run_report.busy_q" *) wire inner_busy;

  logic        started_q = 1'b0;
  logic [31:0] runs0_q;  // completed since enable
  logic [31:0] runs1_q;
  logic [63:0] before_q;  // both, a clock ago
  logic [63:0] sent_q;  // in the beat sent last; 0 before the first
  logic        aw_open_q;  // AW of the beat in flight has been taken
  logic        w_open_q;
  logic        was_offered_q;  // something was offered a clock ago
  logic        was_due_q;  // a beat was due a clock ago
  wire         offered = m_axi_awvalid || m_axi_wvalid;
  wire         first = offered && !was_offered_q && !aw_open_q && !w_open_q;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    runs0_q   <= enable ? runs0_q + 32'(run_done[0]) : '0;
    runs1_q   <= enable ? runs1_q + 32'(run_done[1]) : '0;
    before_q  <= {runs1_q, runs0_q};
    sent_q    <= !enable ? '0 : first ? m_axi_wdata[63:0] : sent_q;
    if (m_axi_awvalid && m_axi_awready) aw_open_q <= 1'b1;
    if (m_axi_wvalid && m_axi_wready) w_open_q <= 1'b1;
    if (m_axi_bvalid) {aw_open_q, w_open_q} <= 2'b00;
    was_offered_q <= offered;
    was_due_q     <= rst_n && enable && inner_news && !inner_busy;
    if (!rst_n) begin
      runs0_q       <= '0;
      runs1_q       <= '0;
      sent_q        <= '0;
      aw_open_q     <= 1'b0;
      w_open_q      <= 1'b0;
      was_offered_q <= 1'b0;
    end
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (m_axi_bvalid) assume (rst_n && aw_open_q && w_open_q);
    if (started_q && rst_n) begin
      assert (inner_counts == {runs1_q, runs0_q});
      // a new beat has the runs of the clock in which it was decided on, and nothing else
      if (first) assert (m_axi_awvalid && m_axi_wvalid && m_axi_wdata == 512'(before_q));
      // at most one beat in flight, and every part of it is offered or taken
      assert (inner_busy == (m_axi_awvalid || aw_open_q) && inner_busy == (m_axi_wvalid || w_open_q));
      assert (!(m_axi_awvalid && aw_open_q) && !(m_axi_wvalid && w_open_q));
      // a run that no beat has is news, and news are sent in the next clock unless a beat is in flight
      if (!inner_news && !first && enable) assert (sent_q == {runs1_q, runs0_q});
      if (was_due_q) assert (first);
    end
    cover (started_q && rst_n && first && sent_q == 64'h1 && m_axi_wdata[63:0] == 64'h2_0000_0003);
    cover (started_q && rst_n && w_open_q && m_axi_awvalid && inner_news);
  end

endmodule

`default_nettype wire
