// SPDX-License-Identifier: Apache-2.0
//
// rf_fork: each of two consumers gets every beat once, in order, whatever the other does.
`default_nettype none

module rf_fork_proof (
    input logic       clk,
    input logic       rst_n,
    input logic       mark,
    input logic       s_axis_tvalid,
    input logic       s_axis_tdata,
    input logic       s_axis_tlast,
    input logic [1:0] m_axis_tready
);

  logic s_axis_tready, m_axis_tdata, m_axis_tlast;
  logic [1:0] m_axis_tvalid;

  rf_fork #(.WIDTH(1), .COUNT(2)) u_rf_fork (.*);

  for (genvar c = 0; c < 2; c++) begin : g_consumer
    stage_rules #(.AT(8'd0), .MOST(2), .WAIT(2)) u_rules (
        .clk, .rst_n, .mark, .s_valid(s_axis_tvalid), .s_ready(s_axis_tready), .s_last(s_axis_tlast), .m_valid(m_axis_tvalid[c]),
        .m_ready(m_axis_tready[c]), .m_data(m_axis_tdata), .m_last(m_axis_tlast), .excused(m_axis_tvalid[1-c]), .item(8'd0),
        .s_item(s_axis_tdata), .m_item(m_axis_tdata)
    );
  end

endmodule

`default_nettype wire
