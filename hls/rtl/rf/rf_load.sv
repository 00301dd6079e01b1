// SPDX-License-Identifier: Apache-2.0
//
// The load port of a memory that is filled at run time: after a reset, the first DEPTH words of the load stream are written to it,
// and every later beat is passed on to the next memory in the chain.
//
//   s_load --> [ the first DEPTH * LOAD_BEATS beats ] --> write, address, word --> memory
//          --> [ later beats ] --> m_load, to the next rf_load
//
// A word is LOAD_BEATS = ceil(WIDTH / LOAD_WIDTH) beats, low bits first; bits beyond the word are ignored.
`default_nettype none

module rf_load #(
    parameter int WIDTH = 24,  // bits of a word
    parameter int DEPTH = 8,  // words
    parameter int LOAD_WIDTH = 16  // bits of a beat of the load stream
) (
    input  logic                                       clk,
    input  logic                                       rst_n,
    input  logic                                       s_load_tvalid,
    output logic                                       s_load_tready,
    input  logic [                     LOAD_WIDTH-1:0] s_load_tdata,
    output logic                                       m_load_tvalid,
    input  logic                                       m_load_tready,
    output logic [                     LOAD_WIDTH-1:0] m_load_tdata,
    output logic                                       write,
    output logic [(DEPTH > 1 ? $clog2(DEPTH) : 1)-1:0] address,
    output logic [                          WIDTH-1:0] word,
    output logic                                       loaded  // every word has been written
);

  if (WIDTH < 1 || DEPTH < 1 || LOAD_WIDTH < 1) begin : g_check_size
    $error("rf_load %m: WIDTH is %0d, DEPTH %0d and LOAD_WIDTH %0d, expected 1 or more", WIDTH, DEPTH, LOAD_WIDTH);
  end

  localparam int LOAD_BEATS = (WIDTH + LOAD_WIDTH - 1) / LOAD_WIDTH;
  localparam int PADDED = LOAD_BEATS * LOAD_WIDTH;
  localparam int AW = DEPTH > 1 ? $clog2(DEPTH) : 1;
  localparam int BW = LOAD_BEATS > 1 ? $clog2(LOAD_BEATS) : 1;

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

  assign write = load && part_last;
  assign address = write_q;
  assign word = collected[WIDTH-1:0];
  assign loaded = loaded_q;

endmodule

`default_nettype wire
