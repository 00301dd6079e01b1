// SPDX-License-Identifier: Apache-2.0
//
// Splits a descriptor (start address, number of beats) into AXI4 INCR bursts.
//
// Bursts end at multiples of MAX_BURST_BEATS beats, a power of two that divides 4 KiB. So none crosses a 4 KiB boundary
// (AXI4, A3.4.1), and all but the first and the last of a descriptor have the full length. A descriptor of no beats gives one
// burst of 0 beats, so that a module that counts descriptors after this one sees every one of them, in order.
//
//   descriptor  0x0F80, 67 beats of 64 bytes  ->  0x0F80 2 beats | 0x1000 64 beats | 0x2000 1 beat, last
//
// At most one burst leaves in two clocks, which does not slow down full bursts, because they have at least two beats. In return,
// the beats of a burst are computed in one clock and subtracted in the next, and the logic that decides when a burst is taken is
// not on the path of this arithmetic.
//
// The address must be a multiple of BEAT_BYTES; its lower bits are ignored.
`default_nettype none

module axi_burst_split #(
    // bits of an address
    parameter int ADDR_WIDTH = 64,
    // bytes of a beat, a power of two
    parameter int BEAT_BYTES = 64,
    // beats of the longest burst, a power of two, at most 4 KiB in all
    parameter int MAX_BURST_BEATS = 64,
    // bits of a descriptor's number of beats
    parameter int COUNT_WIDTH = 42,
    // bits that are copied from a descriptor to each of its bursts
    parameter int USER_WIDTH = 1
) (
    input  logic clk,
    input  logic rst_n,

    input  logic                               s_axis_desc_tvalid,
    output logic                               s_axis_desc_tready,
    input  logic [             ADDR_WIDTH-1:0] s_axis_desc_address,
    input  logic [            COUNT_WIDTH-1:0] s_axis_desc_beats,
    input  logic [             USER_WIDTH-1:0] s_axis_desc_user,

    output logic                               m_axis_burst_tvalid,
    input  logic                               m_axis_burst_tready,
    output logic [             ADDR_WIDTH-1:0] m_axis_burst_address,
    output logic [$clog2(MAX_BURST_BEATS):0]   m_axis_burst_beats,
    output logic                               m_axis_burst_last,
    output logic [             USER_WIDTH-1:0] m_axis_burst_user
);

  if (BEAT_BYTES < 2 || (BEAT_BYTES & (BEAT_BYTES - 1)) != 0) begin : g_check_beat_bytes
    $error("axi_burst_split %m: BEAT_BYTES is %0d, expected a power of two from 2", BEAT_BYTES);
  end
  if (MAX_BURST_BEATS < 2 || MAX_BURST_BEATS > 256 || (MAX_BURST_BEATS & (MAX_BURST_BEATS - 1)) != 0) begin : g_check_max_burst_beats
    $error("axi_burst_split %m: MAX_BURST_BEATS is %0d, expected a power of two from 2 to 256", MAX_BURST_BEATS);
  end
  if (MAX_BURST_BEATS * BEAT_BYTES > 4096) begin : g_check_burst_bytes
    $error("axi_burst_split %m: MAX_BURST_BEATS * BEAT_BYTES is %0d, expected at most 4096", MAX_BURST_BEATS * BEAT_BYTES);
  end
  if (COUNT_WIDTH <= $clog2(MAX_BURST_BEATS) + 1) begin : g_check_count_width
    $error("axi_burst_split %m: COUNT_WIDTH is %0d, expected more than %0d", COUNT_WIDTH, $clog2(MAX_BURST_BEATS) + 1);
  end

  localparam int BYTE_BITS = $clog2(BEAT_BYTES);
  localparam int BURST_BITS = $clog2(MAX_BURST_BEATS);
  localparam int BEAT_ADDR_WIDTH = ADDR_WIDTH - BYTE_BITS;

  logic                       busy_q;
  logic [BEAT_ADDR_WIDTH-1:0] beat_q;  // address of the next burst, in beats
  logic [    COUNT_WIDTH-1:0] left_q;
  logic [     USER_WIDTH-1:0] user_q;

  logic                       burst_valid_q;
  logic [BEAT_ADDR_WIDTH-1:0] burst_beat_q;
  logic [       BURST_BITS:0] burst_beats_q;
  logic                       burst_last_q;
  logic [     USER_WIDTH-1:0] burst_user_q;

  // The beats of the next burst: those to the next multiple of MAX_BURST_BEATS, or all
  localparam int HIGH = COUNT_WIDTH > BURST_BITS + 1 ? COUNT_WIDTH - BURST_BITS - 1 : 1;
  wire [HIGH-1:0] high = HIGH'(left_q >> (BURST_BITS + 1));
  logic [BURST_BITS:0] room_q;  // beats to that multiple
  wire                 fits = high == '0 && left_q[BURST_BITS:0] <= room_q;
  logic                known_q;  // which of them is in fits_q
  logic                fits_q;
  wire                 cut = known_q && !burst_valid_q;

  // The beats left after this burst. The high part minus one is registered a clock before it is needed
  logic [      HIGH-1:0] less_q;
  wire  [BURST_BITS+1:0] low = {1'b0, left_q[BURST_BITS:0]} - {1'b0, room_q};

  always_ff @(posedge clk) begin
    if (s_axis_desc_tvalid && s_axis_desc_tready) begin
      busy_q <= 1'b1;
      beat_q <= s_axis_desc_address[ADDR_WIDTH-1:BYTE_BITS];
      left_q <= s_axis_desc_beats;
      room_q <= (BURST_BITS + 1)'(MAX_BURST_BEATS) - {1'b0, s_axis_desc_address[BYTE_BITS+:BURST_BITS]};
      user_q <= s_axis_desc_user;
    end else if (cut) begin
      busy_q <= !fits_q;
      // if it is not the last
      beat_q <= {beat_q[BEAT_ADDR_WIDTH-1:BURST_BITS] + 1'b1, BURST_BITS'(0)};
      left_q <= {low[BURST_BITS+1] ? less_q : high, low[BURST_BITS:0]};
      room_q <= (BURST_BITS + 1)'(MAX_BURST_BEATS);
    end
    fits_q  <= fits;
    less_q  <= high - 1'b1;
    known_q <= busy_q && !cut;
    if (cut) begin
      burst_beat_q  <= beat_q;
      burst_beats_q <= fits_q ? left_q[BURST_BITS:0] : room_q;
      burst_last_q  <= fits_q;
      burst_user_q  <= user_q;
    end
    burst_valid_q <= cut || (burst_valid_q && !m_axis_burst_tready);
    if (!rst_n) begin
      busy_q        <= 1'b0;
      known_q       <= 1'b0;
      burst_valid_q <= 1'b0;
    end
  end

  assign s_axis_desc_tready   = !busy_q;
  assign m_axis_burst_tvalid  = burst_valid_q;
  assign m_axis_burst_address = {burst_beat_q, {BYTE_BITS{1'b0}}};
  assign m_axis_burst_beats   = burst_beats_q;
  assign m_axis_burst_last    = burst_last_q;
  assign m_axis_burst_user    = burst_user_q;

  always_comb begin
    if (rst_n && busy_q) assert (room_q == (BURST_BITS + 1)'(MAX_BURST_BEATS) - {1'b0, beat_q[BURST_BITS-1:0]});
    if (rst_n && known_q) assert (busy_q && fits_q == fits && less_q == HIGH'(high - 1'b1));
  end

  wire unused = &{1'b0, s_axis_desc_address[BYTE_BITS-1:0]};

endmodule

`default_nettype wire
