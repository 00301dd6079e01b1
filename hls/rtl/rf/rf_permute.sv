// SPDX-License-Identifier: Apache-2.0
//
// Sends beats of a row in another order, and perhaps not all of them: beat j of the result is beat places[j] of the input. A row
// is received as a whole before it is sent, and the next one is received meanwhile:
//
//   s_axis --> memory of two rows --> m_axis
//                    ^
//   places -- address+
`default_nettype none

module rf_permute #(
    parameter int WIDTH = 8,  // bits of a beat
    parameter int IN_BEATS = 4,  // beats of a row
    parameter int OUT_BEATS = 4,  // beats of a row's result
    parameter FILE = ""  // $readmemh: OUT_BEATS words of $clog2(IN_BEATS) bits, at least one: places
) (
    input  logic             clk,
    input  logic             rst_n,
    input  logic             s_axis_tvalid,
    output logic             s_axis_tready,
    input  logic [WIDTH-1:0] s_axis_tdata,
    input  logic             s_axis_tlast,
    output logic             m_axis_tvalid,
    input  logic             m_axis_tready,
    output logic [WIDTH-1:0] m_axis_tdata,
    output logic             m_axis_tlast
);

  if (IN_BEATS < 1 || OUT_BEATS < 1) begin : g_check_beats
    $error("rf_permute %m: IN_BEATS is %0d and OUT_BEATS %0d, expected 1 or more", IN_BEATS, OUT_BEATS);
  end

  localparam int PLACE_WIDTH = IN_BEATS > 1 ? $clog2(IN_BEATS) : 1;
  localparam int INDEX_WIDTH = OUT_BEATS > 1 ? $clog2(OUT_BEATS) : 1;

  logic [WIDTH-1:0] beats[2<<PLACE_WIDTH];
  logic [PLACE_WIDTH-1:0] count_q, place;
  logic [INDEX_WIDTH-1:0] index_q;
  logic [1:0] full_q;
  logic write_q, read_q;  // which row
  logic place_tready;
  logic [WIDTH-1:0] beat_q;
  wire write = s_axis_tvalid && s_axis_tready;
  wire write_last = count_q == PLACE_WIDTH'(IN_BEATS - 1);
  wire issue = full_q[read_q] && place_tready;
  wire issue_last = index_q == INDEX_WIDTH'(OUT_BEATS - 1);
  wire [INDEX_WIDTH-1:0] next = !issue ? index_q : issue_last ? '0 : index_q + 1'b1;

  assign s_axis_tready = !full_q[write_q];

  always_ff @(posedge clk) begin
    if (write) count_q <= write_last ? '0 : count_q + 1'b1;
    if (write && write_last) begin
      full_q[write_q] <= 1'b1;
      write_q <= !write_q;
    end
    index_q <= next;
    if (issue && issue_last) begin
      full_q[read_q] <= 1'b0;
      read_q <= !read_q;
    end
    if (!rst_n) begin
      count_q <= '0;
      index_q <= '0;
      full_q  <= '0;
      write_q <= 1'b0;
      read_q  <= 1'b0;
    end
  end

  rf_rom #(
      .WIDTH(PLACE_WIDTH),
      .DEPTH(OUT_BEATS),
      .FILE (FILE),
      .STYLE("auto")
  ) u_places (
      .clk(clk),
      .enable(1'b1),
      .address(next),
      .word(place)
  );

  always_ff @(posedge clk) if (write) beats[{write_q, count_q}] <= s_axis_tdata;
  always_ff @(posedge clk) beat_q <= beats[{read_q, place}];

  axis_free_running #(
      .WIDTH  (WIDTH),
      .LATENCY(1)
  ) u_axis_free_running (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(full_q[read_q]),
      .s_axis_tready(place_tready),
      .s_axis_tlast(issue_last),
      .pipeline_tdata(beat_q),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

  wire unused = &{1'b0, s_axis_tlast};

endmodule

`default_nettype wire
