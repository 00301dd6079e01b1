// SPDX-License-Identifier: Apache-2.0
//
// Turns each run (x, y, rows) into three descriptors: beats to read, rows to unpack and beats to write. Each has its own queue,
// deep enough for every run in flight, so that reading may be whole runs ahead of writing.
`default_nettype none

module kernel_runs #(
    // bytes of an input row and of an output row
    parameter int ROW_IN_BYTES = 72,
    parameter int ROW_OUT_BYTES = 4,
    // bytes of a beat, a power of two
    parameter int BEAT_BYTES = 64,
    // bits of a number of bytes
    parameter int BYTES_WIDTH = 48,
    // runs in flight, a power of two
    parameter int MAX_RUNS = 8
) (
    input  logic clk,
    input  logic rst_n,

    input  logic        s_axis_run_tvalid,
    output logic        s_axis_run_tready,
    input  logic [63:0] s_axis_run_x,
    input  logic [63:0] s_axis_run_y,
    input  logic [31:0] s_axis_run_rows,

    output logic                                    m_axis_read_tvalid,
    input  logic                                    m_axis_read_tready,
    output logic [63:0]                             m_axis_read_address,
    output logic [BYTES_WIDTH-$clog2(BEAT_BYTES):0] m_axis_read_beats,

    output logic        m_axis_unpack_tvalid,
    input  logic        m_axis_unpack_tready,
    output logic [31:0] m_axis_unpack_rows,

    // tail: bytes of the last beat, 0: all
    output logic                                    m_axis_write_tvalid,
    input  logic                                    m_axis_write_tready,
    output logic [63:0]                             m_axis_write_address,
    output logic [BYTES_WIDTH-$clog2(BEAT_BYTES):0] m_axis_write_beats,
    output logic [$clog2(BEAT_BYTES)-1:0]           m_axis_write_tail
);

  localparam int BYTE_BITS = $clog2(BEAT_BYTES);
  localparam int COUNT_WIDTH = BYTES_WIDTH - BYTE_BITS + 1;
  localparam int MAX_ROW_BYTES = 1 << (BYTES_WIDTH - 32);

  if (BYTES_WIDTH < 33 || BYTES_WIDTH > 56) begin : g_check_bytes_width
    $error("kernel_runs %m: BYTES_WIDTH is %0d, expected 33 to 56", BYTES_WIDTH);
  end
  if (ROW_IN_BYTES < 1 || ROW_IN_BYTES >= MAX_ROW_BYTES) begin : g_check_row_in_bytes
    $error("kernel_runs %m: ROW_IN_BYTES is %0d, expected 1 to %0d", ROW_IN_BYTES, MAX_ROW_BYTES - 1);
  end
  if (ROW_OUT_BYTES < 1 || ROW_OUT_BYTES >= MAX_ROW_BYTES) begin : g_check_row_out_bytes
    $error("kernel_runs %m: ROW_OUT_BYTES is %0d, expected 1 to %0d", ROW_OUT_BYTES, MAX_ROW_BYTES - 1);
  end

  // A run is taken; in the next five clocks its numbers of bytes are computed; then it is offered. A multiplier takes most of a clock
  // and may be far from the rest, so the product of a constant and 32 bits is summed byte by byte, the highest first. That of a byte
  // is the sum of two entries of a table, which has the products of four bits.
  localparam int PART = BYTES_WIDTH - 24;
  wire [15:0][PART-1:0] in_table;
  wire [15:0][PART-1:0] out_table;

  for (genvar n = 0; n < 16; n++) begin : gen_table
    assign in_table[n]  = PART'(n * ROW_IN_BYTES);
    assign out_table[n] = PART'(n * ROW_OUT_BYTES);
  end

  logic                   idle_q;
  logic [            4:0] fresh_q;
  logic                   valid_q;
  logic [           63:0] x_q;
  logic [           63:0] y_q;
  logic [           31:0] rows_q;
  logic [       3:0][7:0] digits_q;  // the bytes of the rows that are still to be multiplied, in the high ones
  logic [       PART-1:0] in_part_q;
  logic [       PART-1:0] out_part_q;
  logic [BYTES_WIDTH-1:0] in_bytes_q;
  logic [BYTES_WIDTH-1:0] out_bytes_q;
  logic                   taken;

  // not in the clock in which the last run is taken: the queues' ready signals are not on the path to the control
  assign s_axis_run_tready = idle_q;

  always_ff @(posedge clk) begin
    if (s_axis_run_tready) begin
      x_q    <= s_axis_run_x;
      y_q    <= s_axis_run_y;
      rows_q <= s_axis_run_rows;
    end
    digits_q   <= s_axis_run_tready ? s_axis_run_rows : {digits_q[2:0], 8'd0};
    in_part_q  <= (in_table[digits_q[3][7:4]] << 4) + in_table[digits_q[3][3:0]];
    out_part_q <= (out_table[digits_q[3][7:4]] << 4) + out_table[digits_q[3][3:0]];
    if (fresh_q[4:1] != '0) begin
      in_bytes_q  <= (fresh_q[1] ? '0 : in_bytes_q << 8) + BYTES_WIDTH'(in_part_q);
      out_bytes_q <= (fresh_q[1] ? '0 : out_bytes_q << 8) + BYTES_WIDTH'(out_part_q);
    end
    fresh_q <= {fresh_q[3:0], s_axis_run_tvalid && idle_q};
    valid_q <= fresh_q[4] || (valid_q && !taken);
    idle_q  <= idle_q ? !s_axis_run_tvalid : valid_q && taken;
    if (!rst_n) begin
      idle_q  <= 1'b1;
      fresh_q <= '0;
      valid_q <= 1'b0;
    end
  end

  function automatic logic [COUNT_WIDTH-1:0] beats(input logic [BYTES_WIDTH-1:0] bytes);
    beats = {1'b0, bytes[BYTES_WIDTH-1:BYTE_BITS]} + COUNT_WIDTH'(bytes[BYTE_BITS-1:0] != '0);
  endfunction

  logic [2:0] offer_valid;
  logic [2:0] offer_ready;

  axis_broadcast #(
      .N(3)
  ) u_axis_broadcast (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(valid_q),
      .s_axis_tready(taken),
      .m_axis_tvalid(offer_valid),
      .m_axis_tready(offer_ready)
  );

  axis_fifo #(
      .WIDTH(64 + COUNT_WIDTH),
      .DEPTH(MAX_RUNS)
  ) u_axis_fifo_read (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(offer_valid[0]),
      .s_axis_tready(offer_ready[0]),
      .s_axis_tdata ({x_q, beats(in_bytes_q)}),
      .m_axis_tvalid(m_axis_read_tvalid),
      .m_axis_tready(m_axis_read_tready),
      .m_axis_tdata ({m_axis_read_address, m_axis_read_beats})
  );

  axis_fifo #(
      .WIDTH(32),
      .DEPTH(MAX_RUNS)
  ) u_axis_fifo_unpack (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(offer_valid[1]),
      .s_axis_tready(offer_ready[1]),
      .s_axis_tdata (rows_q),
      .m_axis_tvalid(m_axis_unpack_tvalid),
      .m_axis_tready(m_axis_unpack_tready),
      .m_axis_tdata (m_axis_unpack_rows)
  );

  axis_fifo #(
      .WIDTH(64 + COUNT_WIDTH + BYTE_BITS),
      .DEPTH(MAX_RUNS)
  ) u_axis_fifo_write (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(offer_valid[2]),
      .s_axis_tready(offer_ready[2]),
      .s_axis_tdata ({y_q, beats(out_bytes_q), out_bytes_q[BYTE_BITS-1:0]}),
      .m_axis_tvalid(m_axis_write_tvalid),
      .m_axis_tready(m_axis_write_tready),
      .m_axis_tdata ({m_axis_write_address, m_axis_write_beats, m_axis_write_tail})
  );

endmodule

`default_nettype wire
