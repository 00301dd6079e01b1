// SPDX-License-Identifier: Apache-2.0
//
// Converts rows of N codes to rows of raw fixed-point numbers: each code is looked up in a table of entries of ENTRY_WIDTH bits,
// one number or several side by side. A selection, SELECT_WIDTH bits above the codes of the same row, chooses one of
// 2**SELECT_WIDTH tables. Code 0 and its entry are in the low bits. Of a code of more than ADDRESS_WIDTH bits the low ones count.
//
//   s_axis_tdata = {selection, code N-1, ..., code 0}      entry i = TABLE[{selection, code i}]
//
// One row per clock; the latency is that of axis_wire_to_fixed, beside which this module converts parts of a row: three clocks
// of the look-up, which never waits, and two of the FIFO behind it (axis_free_running). Each code has its own copy of the table,
// with a register before and behind it, as block memory has them.
`default_nettype none

module axis_codes_to_fixed #(
    // codes of a row
    parameter int N = 8,
    // bits of a code, and how many of them are looked up
    parameter int CODE_WIDTH = 4,
    parameter int ADDRESS_WIDTH = 4,
    // bits of the selection; 0 for a single table
    parameter int SELECT_WIDTH = 1,
    // bits of an entry
    parameter int ENTRY_WIDTH = 16,
    // all entries, entry 0 in the low bits
    parameter logic [(ENTRY_WIDTH << (ADDRESS_WIDTH + SELECT_WIDTH))-1:0] TABLE = '0
) (
    input  logic clk,
    input  logic rst_n,

    input  logic                                 s_axis_tvalid,
    output logic                                 s_axis_tready,
    input  logic [N*CODE_WIDTH+SELECT_WIDTH-1:0] s_axis_tdata,
    input  logic                                 s_axis_tlast,

    output logic                                 m_axis_tvalid,
    input  logic                                 m_axis_tready,
    output logic [            N*ENTRY_WIDTH-1:0] m_axis_tdata,
    output logic                                 m_axis_tlast
);

  if (N < 1 || ENTRY_WIDTH < 1 || SELECT_WIDTH < 0) begin : g_check_size
    $error("axis_codes_to_fixed %m: N is %0d, ENTRY_WIDTH %0d and SELECT_WIDTH %0d, expected 1, 1 and 0 or more", N, ENTRY_WIDTH,
           SELECT_WIDTH);
  end
  if (ADDRESS_WIDTH < 1 || ADDRESS_WIDTH > CODE_WIDTH) begin : g_check_address
    $error("axis_codes_to_fixed %m: ADDRESS_WIDTH is %0d, expected 1 to CODE_WIDTH, %0d", ADDRESS_WIDTH, CODE_WIDTH);
  end

  localparam int LATENCY = 3;  // of the look-up
  localparam int INDEX_WIDTH = ADDRESS_WIDTH + SELECT_WIDTH;
  localparam int ENTRIES = 1 << INDEX_WIDTH;

  logic [N*ENTRY_WIDTH-1:0] converted;

  for (genvar i = 0; i < N; i++) begin : gen_code
    logic [ENTRY_WIDTH-1:0] entries[ENTRIES];
    initial for (int k = 0; k < ENTRIES; k++) entries[k] = TABLE[ENTRY_WIDTH*k+:ENTRY_WIDTH];

    logic [INDEX_WIDTH-1:0] index;
    logic [INDEX_WIDTH-1:0] index_q;
    logic [ENTRY_WIDTH-1:0] read_q;
    logic [ENTRY_WIDTH-1:0] entry_q;

    assign index[ADDRESS_WIDTH-1:0] = s_axis_tdata[CODE_WIDTH*i+:ADDRESS_WIDTH];
    if (SELECT_WIDTH > 0) begin : gen_selection
      assign index[INDEX_WIDTH-1:ADDRESS_WIDTH] = s_axis_tdata[CODE_WIDTH*N+:SELECT_WIDTH];
    end
    if (CODE_WIDTH > ADDRESS_WIDTH) begin : gen_unused
      wire unused = &{1'b0, s_axis_tdata[CODE_WIDTH*i+ADDRESS_WIDTH+:CODE_WIDTH-ADDRESS_WIDTH]};
    end

    always_ff @(posedge clk) begin
      index_q <= index;
      read_q  <= entries[index_q];
      entry_q <= read_q;
    end

    assign converted[ENTRY_WIDTH*i+:ENTRY_WIDTH] = entry_q;
  end

  axis_free_running #(
      .WIDTH  (N * ENTRY_WIDTH),
      .LATENCY(LATENCY)
  ) u_axis_free_running (
      .clk           (clk),
      .rst_n         (rst_n),
      .s_axis_tvalid (s_axis_tvalid),
      .s_axis_tready (s_axis_tready),
      .s_axis_tlast  (s_axis_tlast),
      .pipeline_tdata(converted),
      .m_axis_tvalid (m_axis_tvalid),
      .m_axis_tready (m_axis_tready),
      .m_axis_tdata  (m_axis_tdata),
      .m_axis_tlast  (m_axis_tlast)
  );

endmodule

`default_nettype wire
