// SPDX-License-Identifier: Apache-2.0
//
// A stream register that cuts every combinational path between its two sides and still moves one beat per clock. When the
// output stalls, a second register takes the beat that is already being transferred, and only then does ready fall:
//
//   clk            __/‾‾\__/‾‾\__/‾‾\__/‾‾\__/‾‾\__
//   s_axis_tdata   --< A >--< B  >--< C        >---
//   m_axis_tready  ‾‾‾‾‾‾‾‾‾‾‾‾\_________/‾‾‾‾‾‾‾‾‾
//   s_axis_tready  ‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾\_____/‾‾‾‾‾
//   m_axis_tdata   --------< A >--< B        >-< C >
//
// A reset drops both beats; the data flops are not reset.
`default_nettype none

module axis_skid #(
    parameter int WIDTH = 32  // bits of one beat
) (
    input  logic             clk,
    input  logic             rst_n,
    input  logic             s_axis_tvalid,
    output logic             s_axis_tready,
    input  logic [WIDTH-1:0] s_axis_tdata,
    output logic             m_axis_tvalid,
    input  logic             m_axis_tready,
    output logic [WIDTH-1:0] m_axis_tdata
);
  if (WIDTH < 1) begin : g_check_width
    $error("axis_skid %m: WIDTH is %0d, expected 1 or more", WIDTH);
  end

  logic skid_valid_q;
  logic ready_q;  // !skid_valid_q, in a register of its own, because that one drives the multiplexer
  logic [WIDTH-1:0] skid_data_q;
  logic advance;

  assign advance = m_axis_tready || !m_axis_tvalid;
  assign s_axis_tready = ready_q;

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      m_axis_tvalid <= 1'b0;
      skid_valid_q <= 1'b0;
      ready_q <= 1'b1;
    end else if (advance) begin
      m_axis_tvalid <= s_axis_tvalid || skid_valid_q;
      skid_valid_q <= 1'b0;
      ready_q <= 1'b1;
    end else if (s_axis_tvalid) begin
      skid_valid_q <= 1'b1;
      ready_q <= 1'b0;
    end
  end

  always_ff @(posedge clk) begin
    if (advance) m_axis_tdata <= skid_valid_q ? skid_data_q : s_axis_tdata;
    if (s_axis_tready) skid_data_q <= s_axis_tdata;
  end

  always_comb if (rst_n) assert (ready_q == !skid_valid_q);
endmodule

`default_nettype wire
