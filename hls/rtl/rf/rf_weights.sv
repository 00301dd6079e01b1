// SPDX-License-Identifier: Apache-2.0
//
// Weights that are loaded at run time, for memory without initial contents (UltraRAM) or for weights that change. After a reset,
// the first DEPTH words of the load stream fill the memory, and every later beat is passed on to the next rf_weights in the
// chain. Once the memory is full, the words 0 to DEPTH - 1 are given over and over, one per clock.
//
//   s_load --> [ the first DEPTH * LOAD_BEATS beats ] --> memory --> m_axis, to rf_mac_stream
//          --> [ later beats ] --> m_load, to the next rf_weights
//
// rf_load fills the memory; a word is LOAD_BEATS = ceil(WIDTH / LOAD_WIDTH) beats.
`default_nettype none

module rf_weights #(
    parameter int WIDTH = 24,  // bits of a word
    parameter int DEPTH = 8,  // words
    parameter int LOAD_WIDTH = 16,  // bits of a beat of the load stream
    parameter RAM_STYLE = "ultra"  // of the memory
) (
    input  logic                  clk,
    input  logic                  rst_n,
    input  logic                  s_load_tvalid,
    output logic                  s_load_tready,
    input  logic [LOAD_WIDTH-1:0] s_load_tdata,
    output logic                  m_load_tvalid,
    input  logic                  m_load_tready,
    output logic [LOAD_WIDTH-1:0] m_load_tdata,
    output logic                  m_axis_tvalid,
    input  logic                  m_axis_tready,
    output logic [     WIDTH-1:0] m_axis_tdata
);

  if (RAM_STYLE == "") begin : g_check_style
    $error("rf_weights %m: RAM_STYLE is empty, expected auto, block, distributed or ultra");
  end

  localparam int AW = DEPTH > 1 ? $clog2(DEPTH) : 1;

  // ---------------------------------------------------------------- load
  logic write, loaded;
  logic [AW-1:0] write_address;
  logic [WIDTH-1:0] write_word;

  rf_load #(
      .WIDTH     (WIDTH),
      .DEPTH     (DEPTH),
      .LOAD_WIDTH(LOAD_WIDTH)
  ) u_rf_load (
      .clk(clk),
      .rst_n(rst_n),
      .s_load_tvalid(s_load_tvalid),
      .s_load_tready(s_load_tready),
      .s_load_tdata(s_load_tdata),
      .m_load_tvalid(m_load_tvalid),
      .m_load_tready(m_load_tready),
      .m_load_tdata(m_load_tdata),
      .write(write),
      .address(write_address),
      .word(write_word),
      .loaded(loaded)
  );

  // ---------------------------------------------------------------- give
  (* ram_style = RAM_STYLE *)
  logic [WIDTH-1:0] words[DEPTH];
  logic [WIDTH-1:0] word_q, word_2_q;
  logic [AW-1:0] read_q;
  logic place_tready, unused_tlast;
  wire read = loaded && place_tready;

  always_ff @(posedge clk) begin
    if (read) read_q <= read_q == AW'(DEPTH - 1) ? '0 : read_q + 1'b1;
    if (!rst_n) read_q <= '0;
  end

  always_ff @(posedge clk) if (write) words[write_address] <= write_word;
  always_ff @(posedge clk) if (read) word_q <= words[read_q];
  always_ff @(posedge clk) word_2_q <= word_q;

  axis_free_running #(
      .WIDTH  (WIDTH),
      .LATENCY(2)
  ) u_axis_free_running (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(loaded),
      .s_axis_tready(place_tready),
      .s_axis_tlast(1'b0),
      .pipeline_tdata(word_2_q),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(unused_tlast)
  );

  wire unused = &{1'b0, unused_tlast};

endmodule

`default_nettype wire
