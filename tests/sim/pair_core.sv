// SPDX-License-Identifier: Apache-2.0
//
// A core small enough to see through: y = (x0 + x1, x2 - x0), wrapped to 20 bits, one row a clock.
`default_nettype none

module pair_core (
    input  logic        clk,
    input  logic        rst_n,
    input  logic        s_axis_x_tvalid,
    output logic        s_axis_x_tready,
    input  logic [47:0] s_axis_x_tdata,
    input  logic        s_axis_x_tlast,
    output logic        m_axis_y_tvalid,
    input  logic        m_axis_y_tready,
    output logic [39:0] m_axis_y_tdata,
    output logic        m_axis_y_tlast
);

  wire signed [19:0] x0 = 20'($signed(s_axis_x_tdata[15:0]));
  wire signed [19:0] x1 = 20'($signed(s_axis_x_tdata[31:16]));
  wire signed [19:0] x2 = 20'($signed(s_axis_x_tdata[47:32]));

  axis_skid #(
      .WIDTH(41)
  ) u_axis_skid (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(s_axis_x_tvalid),
      .s_axis_tready(s_axis_x_tready),
      .s_axis_tdata ({s_axis_x_tlast, x2 - x0, x0 + x1}),
      .m_axis_tvalid(m_axis_y_tvalid),
      .m_axis_tready(m_axis_y_tready),
      .m_axis_tdata ({m_axis_y_tlast, m_axis_y_tdata})
  );

endmodule

`default_nettype wire
