// SPDX-License-Identifier: Apache-2.0
//
// rf_hold: each beat of a vector once, in order, together with the number of its vector, which the proof makes of the last beat.
`default_nettype none

module rf_hold_proof (
    input logic clk,
    input logic rst_n,
    input logic mark,
    input logic s_axis_tvalid,
    input logic s_axis_tdata,
    input logic s_axis_tlast,
    input logic m_axis_tready
);

  localparam int LATENCY = 2;

  logic s_axis_tready, m_axis_tvalid, m_axis_tdata, m_axis_tlast, m_number;
  logic number_tvalid, number_tdata;
  logic odd_q;  // one beat of the vector has been taken
  logic [LATENCY-1:0] done_q, number_q;
  (* anyconst *) logic [7:0] item;
  wire take = s_axis_tvalid && s_axis_tready;

  rf_hold #(.WIDTH(1), .BEATS(2), .NUMBER_WIDTH(1), .LATENCY(LATENCY)) u_rf_hold (.*);

  assign number_tvalid = done_q[LATENCY-1];
  assign number_tdata = number_q[LATENCY-1];

  always_ff @(posedge clk) begin
    if (take) odd_q <= !odd_q;
    done_q <= LATENCY'({done_q, take && odd_q});
    number_q <= LATENCY'({number_q, s_axis_tdata});
    if (!rst_n) begin
      odd_q  <= 1'b0;
      done_q <= '0;
    end
  end

  // the beats, then the number beside each
  stage_rules #(
      .IN(2), .OUT(2), .WIDTH(2), .ITEMS(4), .FROM(32'h01010100), .AT(32'h01000100), .MOST(8), .WAIT(8)
  ) u_rules (
      .clk, .rst_n, .mark, .s_valid(s_axis_tvalid), .s_ready(s_axis_tready), .s_last(s_axis_tlast), .m_valid(m_axis_tvalid),
      .m_ready(m_axis_tready), .m_data({m_number, m_axis_tdata}), .m_last(m_axis_tlast), .excused(1'b0), .item,
      .s_item(s_axis_tdata), .m_item(item[1] ? m_number : m_axis_tdata)
  );

endmodule

`default_nettype wire
