// SPDX-License-Identifier: Apache-2.0
//
// ONE at the first maximum of a vector of N elements, in beats of LANES, and zeros elsewhere. One beat per clock; a vector is held
// until its maximum is known.
`default_nettype none

module rf_argmax #(
    parameter int N = 4,  // elements of a vector
    parameter int LANES = 2,  // elements of a beat, a divisor of N
    parameter int X_WIDTH = 8,  // bits of an element
    parameter bit X_SIGNED = 1'b1,  // it is two's complement
    parameter int Y_WIDTH = 8,  // bits of a result
    parameter logic signed [63:0] ONE = 1  // the raw result at the maximum
) (
    input  logic                     clk,
    input  logic                     rst_n,
    input  logic                     s_axis_tvalid,
    output logic                     s_axis_tready,
    input  logic [LANES*X_WIDTH-1:0] s_axis_tdata,
    input  logic                     s_axis_tlast,
    output logic                     m_axis_tvalid,
    input  logic                     m_axis_tready,
    output logic [LANES*Y_WIDTH-1:0] m_axis_tdata,
    output logic                     m_axis_tlast
);

  localparam int BEATS = N / LANES;
  localparam int COUNT_WIDTH = BEATS > 1 ? $clog2(BEATS) : 1;
  localparam int INDEX_WIDTH = N > 1 ? $clog2(N) : 1;

  logic x_tvalid, x_tready, x_tlast;
  logic [LANES*X_WIDTH-1:0] x_tdata;
  logic [X_WIDTH-1:0] x_max;
  logic [INDEX_WIDTH-1:0] x_place;

  rf_maximum #(
      .N(N),
      .LANES(LANES),
      .X_WIDTH(X_WIDTH),
      .X_SIGNED(X_SIGNED)
  ) u_rf_maximum (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(s_axis_tready),
      .s_axis_tdata(s_axis_tdata),
      .s_axis_tlast(s_axis_tlast),
      .m_axis_tvalid(x_tvalid),
      .m_axis_tready(x_tready),
      .m_axis_tdata(x_tdata),
      .m_axis_tlast(x_tlast),
      .m_max(x_max),
      .m_place(x_place)
  );

  logic [COUNT_WIDTH-1:0] count_q;
  logic [INDEX_WIDTH-1:0] index_q;  // of the beat's first element
  wire count_last = count_q == COUNT_WIDTH'(BEATS - 1);

  always_ff @(posedge clk) begin
    if (x_tvalid && x_tready) begin
      count_q <= count_last ? '0 : count_q + 1'b1;
      index_q <= count_last ? '0 : index_q + INDEX_WIDTH'(LANES);
    end
    if (!rst_n) begin
      count_q <= '0;
      index_q <= '0;
    end
  end

  logic [LANES*Y_WIDTH-1:0] y;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    assign y[lane*Y_WIDTH+:Y_WIDTH] = x_place == index_q + INDEX_WIDTH'(lane) ? Y_WIDTH'(ONE) : '0;
  end

  axis_skid #(
      .WIDTH(LANES * Y_WIDTH + 1)
  ) u_axis_skid (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(x_tvalid),
      .s_axis_tready(x_tready),
      .s_axis_tdata({x_tlast, y}),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata({m_axis_tlast, m_axis_tdata})
  );

  wire unused = &{1'b0, x_tdata, x_max};

endmodule

`default_nettype wire
