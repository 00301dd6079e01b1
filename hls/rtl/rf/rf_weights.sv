// SPDX-License-Identifier: Apache-2.0
//
// Weights that are loaded at run time, for memory without initial contents (UltraRAM) or for weights that change. After a reset,
// the first DEPTH words of the load stream fill the memory, and every later beat is passed on to the next rf_weights in the
// chain. Once the memory is full, the words 0 to DEPTH - 1 are given over and over, one per clock.
//
//   s_load --> [ the first DEPTH * LOAD_BEATS beats ] --> memory --> m_axis, to rf_mac_stream
//          --> [ later beats ] --> m_load, to the next rf_weights
//
// A word is LOAD_BEATS = ceil(WIDTH / LOAD_WIDTH) beats, low bits first; bits beyond the word are ignored.
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

  if (WIDTH < 1 || DEPTH < 1 || LOAD_WIDTH < 1) begin : g_check_size
    $error("rf_weights %m: WIDTH is %0d, DEPTH %0d and LOAD_WIDTH %0d, expected 1 or more", WIDTH, DEPTH, LOAD_WIDTH);
  end
  if (RAM_STYLE == "") begin : g_check_style
    $error("rf_weights %m: RAM_STYLE is empty, expected auto, block, distributed or ultra");
  end

  localparam int LOAD_BEATS = (WIDTH + LOAD_WIDTH - 1) / LOAD_WIDTH;
  localparam int PADDED = LOAD_BEATS * LOAD_WIDTH;
  localparam int AW = DEPTH > 1 ? $clog2(DEPTH) : 1;
  localparam int BW = LOAD_BEATS > 1 ? $clog2(LOAD_BEATS) : 1;

  // ---------------------------------------------------------------- load
  logic load_tvalid, load_tready, loaded_q;
  logic [LOAD_WIDTH-1:0] load_tdata;
  logic [AW-1:0] write_q;
  logic [BW-1:0] part_q;
  logic [PADDED-1:0] collected;
  wire part_last = part_q == BW'(LOAD_BEATS - 1);
  wire write_last = write_q == AW'(DEPTH - 1);
  wire load = load_tvalid && !loaded_q;

  axis_skid #(
      .WIDTH(LOAD_WIDTH)
  ) u_axis_skid (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_load_tvalid),
      .s_axis_tready(s_load_tready),
      .s_axis_tdata(s_load_tdata),
      .m_axis_tvalid(load_tvalid),
      .m_axis_tready(load_tready),
      .m_axis_tdata(load_tdata)
  );

  assign load_tready = !loaded_q || m_load_tready;
  assign m_load_tvalid = load_tvalid && loaded_q;
  assign m_load_tdata = load_tdata;

  if (LOAD_BEATS > 1) begin : gen_collect
    logic [PADDED-LOAD_WIDTH-1:0] parts_q;
    assign collected = {load_tdata, parts_q};
    always_ff @(posedge clk) if (load) parts_q <= collected[PADDED-1:LOAD_WIDTH];
  end else begin : gen_one
    assign collected = load_tdata;
  end

  if (PADDED > WIDTH) begin : gen_rest
    wire unused = &{1'b0, collected[PADDED-1:WIDTH]};
  end

  always_ff @(posedge clk) begin
    if (load) part_q <= part_last ? '0 : part_q + 1'b1;
    if (load && part_last) begin
      write_q <= write_last ? '0 : write_q + 1'b1;
      if (write_last) loaded_q <= 1'b1;
    end
    if (!rst_n) begin
      part_q <= '0;
      write_q <= '0;
      loaded_q <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- give
  (* ram_style = RAM_STYLE *)
  logic [WIDTH-1:0] words[DEPTH];
  logic [WIDTH-1:0] word_q, word_2_q;
  logic [AW-1:0] read_q;
  logic place_tready, unused_tlast;
  wire read = loaded_q && place_tready;

  always_ff @(posedge clk) begin
    if (read) read_q <= read_q == AW'(DEPTH - 1) ? '0 : read_q + 1'b1;
    if (!rst_n) read_q <= '0;
  end

  always_ff @(posedge clk) if (load && part_last) words[write_q] <= collected[WIDTH-1:0];
  always_ff @(posedge clk) if (read) word_q <= words[read_q];
  always_ff @(posedge clk) word_2_q <= word_q;

  axis_free_running #(
      .WIDTH  (WIDTH),
      .LATENCY(2)
  ) u_axis_free_running (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(loaded_q),
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
