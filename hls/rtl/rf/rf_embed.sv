// SPDX-License-Identifier: Apache-2.0
//
// Replaces each index, one per input beat, by its row of a table: N_OUT elements in beats of LANES. An index beyond the table's
// end reads the last row. One beat out per clock.
`default_nettype none

module rf_embed #(
    parameter int X_WIDTH = 8,  // bits of an index, unsigned
    parameter int X_FRACTION = 0,  // the lowest bits of an index, which are fraction bits and ignored
    parameter int VOCABULARY = 10,  // rows of the table
    parameter int N_OUT = 4,  // elements of a row
    parameter int LANES = 2,  // elements of a beat, a divisor of N_OUT
    parameter int Y_WIDTH = 8,  // bits of an element
    parameter TABLE_FILE = "",  // $readmemh: VOCABULARY*N_OUT/LANES words of LANES*Y_WIDTH bits, raw results
    parameter RAM_STYLE = "auto"  // of the table
) (
    input  logic                     clk,
    input  logic                     rst_n,
    input  logic                     s_axis_tvalid,
    output logic                     s_axis_tready,
    input  logic [      X_WIDTH-1:0] s_axis_tdata,
    input  logic                     s_axis_tlast,
    output logic                     m_axis_tvalid,
    input  logic                     m_axis_tready,
    output logic [LANES*Y_WIDTH-1:0] m_axis_tdata,
    output logic                     m_axis_tlast
);

  if (LANES < 1 || N_OUT % LANES != 0) begin : g_check_lanes
    $error("rf_embed %m: LANES is %0d, expected a divisor of N_OUT, %0d", LANES, N_OUT);
  end
  if (VOCABULARY < 1 || X_FRACTION < 0 || X_FRACTION >= X_WIDTH) begin : g_check_index
    $error("rf_embed %m: VOCABULARY %0d, X_FRACTION %0d, expected 1 or more, 0 to X_WIDTH - 1", VOCABULARY, X_FRACTION);
  end

  localparam int BEATS = N_OUT / LANES;
  localparam int WORDS = VOCABULARY * BEATS;
  localparam int BW = BEATS > 1 ? $clog2(BEATS) : 1;
  localparam int AW = WORDS > 1 ? $clog2(WORDS) : 1;
  localparam int WHOLE = X_WIDTH - X_FRACTION;
  localparam int IW = (WHOLE > AW ? WHOLE : AW) + 1;  // wide enough for an index and for the largest address

  logic [BW-1:0] beat_q, beat_1_q;
  logic [AW-1:0] index_q, address_q;
  logic [LANES*Y_WIDTH-1:0] word, word_q;
  logic place_tready;
  wire beat_last = beat_q == BW'(BEATS - 1);
  wire [IW-1:0] index = IW'(s_axis_tdata[X_WIDTH-1:X_FRACTION]);

  assign s_axis_tready = place_tready && beat_last;

  always_ff @(posedge clk) begin
    if (s_axis_tvalid && place_tready) beat_q <= beat_last ? '0 : beat_q + 1'b1;
    if (!rst_n) beat_q <= '0;
  end

  always_ff @(posedge clk) begin
    index_q <= index > IW'(VOCABULARY - 1) ? AW'(VOCABULARY - 1) : AW'(index);  // 1
    beat_1_q <= beat_q;
    address_q <= AW'(index_q * AW'(BEATS)) + AW'(beat_1_q);  // 2
    word_q <= word;  // 4
  end

  rf_rom #(  // 3
      .WIDTH(LANES * Y_WIDTH),
      .DEPTH(WORDS),
      .FILE (TABLE_FILE),
      .STYLE(RAM_STYLE)
  ) u_table (
      .clk(clk),
      .enable(1'b1),
      .address(address_q),
      .word(word)
  );

  axis_free_running #(
      .WIDTH  (LANES * Y_WIDTH),
      .LATENCY(4)
  ) u_axis_free_running (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(place_tready),
      .s_axis_tlast(s_axis_tlast && beat_last),
      .pipeline_tdata(word_q),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

  if (X_FRACTION > 0) begin : gen_fraction
    wire unused = &{1'b0, s_axis_tdata[X_FRACTION-1:0]};
  end

endmodule

`default_nettype wire
