// SPDX-License-Identifier: Apache-2.0
//
// Constants that are loaded at run time, in place of an rf_rom: rf_load fills the memory after a reset, and a word follows its
// address one clock later.
`default_nettype none

module rf_biases #(
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
    output logic                                       loaded,  // every word has been written
    input  logic [(DEPTH > 1 ? $clog2(DEPTH) : 1)-1:0] address,
    output logic [                          WIDTH-1:0] word
);

  localparam int AW = DEPTH > 1 ? $clog2(DEPTH) : 1;

  logic write;
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

  if (DEPTH > 1) begin : gen_words
    logic [WIDTH-1:0] words[DEPTH];
    always_ff @(posedge clk) if (write) words[write_address] <= write_word;
    always_ff @(posedge clk) word <= words[address];
  end else begin : gen_word
    logic [WIDTH-1:0] word_q;
    always_ff @(posedge clk) if (write) word_q <= write_word;
    always_ff @(posedge clk) word <= word_q;
    wire unused = &{1'b0, address, write_address};
  end

endmodule

`default_nettype wire
