// SPDX-License-Identifier: Apache-2.0
//
// Converts beats of IN_LANES elements into beats of OUT_LANES elements; one must be a multiple of the other. The elements keep
// their order, with element 0 in the low bits. The narrow side moves one beat per clock without a gap, and neither handshake
// depends on the other combinationally. tlast is on the last beat of a row on both sides; a row is whole beats of both.
`default_nettype none

module rf_lanes #(
    parameter int IN_LANES  = 4,  // elements of an input beat
    parameter int OUT_LANES = 1,  // elements of an output beat
    parameter int WIDTH     = 8   // bits of an element
) (
    input  logic                       clk,
    input  logic                       rst_n,
    input  logic                       s_axis_tvalid,
    output logic                       s_axis_tready,
    input  logic [ IN_LANES*WIDTH-1:0] s_axis_tdata,
    input  logic                       s_axis_tlast,
    output logic                       m_axis_tvalid,
    input  logic                       m_axis_tready,
    output logic [OUT_LANES*WIDTH-1:0] m_axis_tdata,
    output logic                       m_axis_tlast
);
  localparam int RATIO = IN_LANES > OUT_LANES ? IN_LANES / OUT_LANES : OUT_LANES / IN_LANES;
  localparam int COUNT_WIDTH = RATIO > 1 ? $clog2(RATIO) : 1;
  localparam int IN = IN_LANES * WIDTH;
  localparam int OUT = OUT_LANES * WIDTH;

  if (WIDTH < 1 || IN_LANES < 1 || OUT_LANES < 1) begin : g_check_size
    $error("rf_lanes %m: WIDTH %0d, IN_LANES %0d, OUT_LANES %0d, expected 1 or more", WIDTH, IN_LANES, OUT_LANES);
  end
  if (IN_LANES % OUT_LANES != 0 && OUT_LANES % IN_LANES != 0) begin : g_check_ratio
    $error("rf_lanes %m: IN_LANES %0d and OUT_LANES %0d, expected one to divide the other", IN_LANES, OUT_LANES);
  end

  if (RATIO == 1) begin : gen_same
    assign m_axis_tvalid = s_axis_tvalid;
    assign s_axis_tready = m_axis_tready;
    assign m_axis_tdata = s_axis_tdata;
    assign m_axis_tlast = s_axis_tlast;
    wire unused = &{1'b0, clk, rst_n};
  end else if (IN_LANES > OUT_LANES) begin : gen_narrower
    // a beat is taken from the skid register when the last piece of the previous one leaves
    logic wide_tvalid, wide_tready, wide_tlast;
    logic [IN-1:0] wide_tdata;

    axis_skid #(
        .WIDTH(IN + 1)
    ) u_axis_skid (
        .clk(clk),
        .rst_n(rst_n),
        .s_axis_tvalid(s_axis_tvalid),
        .s_axis_tready(s_axis_tready),
        .s_axis_tdata({s_axis_tlast, s_axis_tdata}),
        .m_axis_tvalid(wide_tvalid),
        .m_axis_tready(wide_tready),
        .m_axis_tdata({wide_tlast, wide_tdata})
    );

    logic [COUNT_WIDTH-1:0] left_q;  // pieces after the one on offer
    logic [IN-1:0] data_q;
    logic last_q;
    wire advance = m_axis_tready || !m_axis_tvalid;

    assign wide_tready = advance && left_q == '0;
    assign m_axis_tdata = data_q[OUT-1:0];
    assign m_axis_tlast = last_q && left_q == '0;

    always_ff @(posedge clk) begin
      if (advance) begin
        if (left_q != '0) left_q <= left_q - 1'b1;
        else begin
          m_axis_tvalid <= wide_tvalid;
          if (wide_tvalid) left_q <= COUNT_WIDTH'(RATIO - 1);
        end
      end
      if (!rst_n) begin
        left_q <= '0;
        m_axis_tvalid <= 1'b0;
      end
    end

    always_ff @(posedge clk) begin
      if (advance) data_q <= left_q != '0 ? data_q >> OUT : wide_tdata;
      if (wide_tready) last_q <= wide_tlast;
    end
  end else begin : gen_wider
    // beats are collected while the previous output beat is on offer, and only the last of them waits for it to leave; with two
    // or more beats to collect, a beat that is taken at once has left by then
    logic [COUNT_WIDTH-1:0] count_q;  // beats collected
    logic [OUT-IN-1:0] data_q;
    wire complete = count_q == COUNT_WIDTH'(RATIO - 1);
    wire take = s_axis_tvalid && s_axis_tready;

    assign s_axis_tready = !complete || !m_axis_tvalid;

    always_ff @(posedge clk) begin
      if (take) count_q <= complete ? '0 : count_q + 1'b1;
      if (take && complete) m_axis_tvalid <= 1'b1;
      else if (m_axis_tready) m_axis_tvalid <= 1'b0;
      if (!rst_n) begin
        count_q <= '0;
        m_axis_tvalid <= 1'b0;
      end
    end

    wire [OUT-1:0] collected = {s_axis_tdata, data_q};

    always_ff @(posedge clk) begin
      if (take) data_q <= collected[OUT-1:IN];
      if (take && complete) begin
        m_axis_tdata <= collected;
        m_axis_tlast <= s_axis_tlast;
      end
    end
  end

endmodule

`default_nettype wire
