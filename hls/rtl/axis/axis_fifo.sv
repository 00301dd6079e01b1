// SPDX-License-Identifier: Apache-2.0
//
// A stream FIFO of a synchronous memory, which may be block RAM or LUT RAM, and an output register. One beat in and one beat
// out per clock. It holds DEPTH beats in the memory and one more in the output register; an empty FIFO passes a beat in two
// clocks. Neither handshake depends on the other combinationally:
//
//   clk            __/‾‾\__/‾‾\__/‾‾\__/‾‾\__
//   s_axis_tvalid  __/‾‾‾‾‾\_________________
//   m_axis_tvalid  ______________/‾‾‾‾‾\_____
//
// A reset empties the FIFO; the data flops and the memory are not reset.
`default_nettype none

module axis_fifo #(
    parameter int WIDTH = 32,  // bits of one beat
    parameter int DEPTH = 16   // beats of memory, a power of two from 2 up
) (
    input  logic             clk,
    input  logic             rst_n,
    input  logic             s_axis_tvalid,
    output logic             s_axis_tready,
    input  logic [WIDTH-1:0] s_axis_tdata,
    output logic             m_axis_tvalid,
    input  logic             m_axis_tready,
    output logic [WIDTH-1:0] m_axis_tdata
);
  localparam int ADDRESS_WIDTH = $clog2(DEPTH);

  if (WIDTH < 1) begin : g_check_width
    $error("axis_fifo %m: WIDTH is %0d, expected 1 or more", WIDTH);
  end
  if (DEPTH < 2 || (DEPTH & (DEPTH - 1)) != 0) begin : g_check_depth
    $error("axis_fifo %m: DEPTH is %0d, expected a power of two from 2 up", DEPTH);
  end

  logic [WIDTH-1:0] memory [DEPTH];

  // one bit more than an address: the pointers are equal when empty, and differ only in the top bit when full
  logic [ADDRESS_WIDTH:0] write_pointer_q, read_pointer_q;
  logic stored, full, write, read;

  assign stored = write_pointer_q != read_pointer_q;
  assign full = write_pointer_q == (read_pointer_q ^ {1'b1, ADDRESS_WIDTH'(0)});
  assign s_axis_tready = !full;
  assign write = s_axis_tvalid && !full;
  assign read = stored && (m_axis_tready || !m_axis_tvalid);

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      write_pointer_q <= '0;
      read_pointer_q <= '0;
      m_axis_tvalid <= 1'b0;
    end else begin
      if (write) write_pointer_q <= write_pointer_q + 1'b1;
      if (read) read_pointer_q <= read_pointer_q + 1'b1;
      if (read) m_axis_tvalid <= 1'b1;
      else if (m_axis_tready) m_axis_tvalid <= 1'b0;
    end
  end

  always_ff @(posedge clk) begin
    if (write) memory[write_pointer_q[ADDRESS_WIDTH-1:0]] <= s_axis_tdata;
    if (read) m_axis_tdata <= memory[read_pointer_q[ADDRESS_WIDTH-1:0]];
  end
endmodule

`default_nettype wire
