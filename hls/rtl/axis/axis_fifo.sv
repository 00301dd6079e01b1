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

  // no word is written and read in one clock: the addresses are equal only when the memory is full, and then nothing is written, or
  // empty, and then nothing is read. Yosys needs to be told
  (* no_rw_check *) logic [WIDTH-1:0] memory[DEPTH];

  // one bit more than an address: the pointers are equal when empty, and differ only in the top bit when full
  logic [ADDRESS_WIDTH:0] write_pointer_q, read_pointer_q;
  logic [ADDRESS_WIDTH:0] next_write_q, next_read_q;  // the pointers plus one
  logic stored_q, room_q;  // it is not empty, not full: the pointers, compared in the clock before
  logic write, read;

  // whether a write alone would fill the memory, and a read alone empty it
  wire one_free = next_write_q == (read_pointer_q ^ {1'b1, ADDRESS_WIDTH'(0)});
  wire one_stored = write_pointer_q == next_read_q;

  assign s_axis_tready = room_q;
  assign write = s_axis_tvalid && room_q;
  assign read = stored_q && (m_axis_tready || !m_axis_tvalid);

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      write_pointer_q <= '0;
      read_pointer_q <= '0;
      next_write_q <= (ADDRESS_WIDTH + 1)'(1);
      next_read_q <= (ADDRESS_WIDTH + 1)'(1);
      stored_q <= 1'b0;
      room_q <= 1'b1;
      m_axis_tvalid <= 1'b0;
    end else begin
      if (write) {next_write_q, write_pointer_q} <= {(ADDRESS_WIDTH + 1)'(next_write_q + 1'b1), next_write_q};
      if (read) {next_read_q, read_pointer_q} <= {(ADDRESS_WIDTH + 1)'(next_read_q + 1'b1), next_read_q};
      if (write && !read) begin
        stored_q <= 1'b1;
        room_q <= !one_free;
      end else if (read && !write) begin
        stored_q <= !one_stored;
        room_q <= 1'b1;
      end
      if (read) m_axis_tvalid <= 1'b1;
      else if (m_axis_tready) m_axis_tvalid <= 1'b0;
    end
  end

  // the word at the write pointer is free, so it may be written although no beat is there: a register alone enables the write
  always_ff @(posedge clk) begin
    if (room_q) memory[write_pointer_q[ADDRESS_WIDTH-1:0]] <= s_axis_tdata;
    if (read) m_axis_tdata <= memory[read_pointer_q[ADDRESS_WIDTH-1:0]];
  end

  always_comb begin
    if (rst_n) begin
      assert (next_write_q == (ADDRESS_WIDTH + 1)'(write_pointer_q + 1'b1));
      assert (next_read_q == (ADDRESS_WIDTH + 1)'(read_pointer_q + 1'b1));
      assert ((ADDRESS_WIDTH + 1)'(write_pointer_q - read_pointer_q) <= (ADDRESS_WIDTH + 1)'(DEPTH));
      assert (stored_q == (write_pointer_q != read_pointer_q));
      assert (room_q == (write_pointer_q != (read_pointer_q ^ {1'b1, ADDRESS_WIDTH'(0)})));
    end
  end
endmodule

`default_nettype wire
