// SPDX-License-Identifier: Apache-2.0
//
// Controls the weights of a core that takes them from memory: when they are loaded, and what is read for each stream.
//
//   kernel_control -- runs --> kernel_weights -- runs --> kernel_runs
//                                |      |
//                    descriptors v      v core_rst_n
//                    axi_read_masters -> (beats) -> core
//
// A run passes if its `w` is the address from which the core was loaded. The first run after reset, and one with another `w`,
// waits until every run before it is done. Then the core is held in reset, and the beats that the masters still deliver are
// dropped until none is in flight. Then the core's reset ends, the descriptors of the new image are sent and the run passes; its
// rows wait in front of the core until the core has its weights:
//
//   run (w)     A  A  B...................B  B
//   passed      A  A                      B  B
//   done        ....A.....A
//   core_rst_n  ‾‾‾‾‾‾‾‾‾‾‾‾\_________/‾‾‾‾‾‾‾
//   beats       (A)......... dropped  (B)....
//
// Stream k has BEATS[k] beats from address w + BEAT_BYTES * FIRST[k] on, read once, or over and over if REPEATS[k] is set. A
// descriptor is a piece of the stream; it is sent when its master has room for all of it and so requests it at once. No piece is
// sent while no run is in flight, and the last run in flight is done only when all pieces have arrived. So when all its runs are
// done, the host may use the image's memory for something else.
`default_nettype none

module kernel_weights #(
    // the core's weight streams
    parameter int STREAMS = 1,
    // for each, in 32 bits, stream 0 in the low bits: its first beat in the image, and its beats
    parameter logic [32*STREAMS-1:0] FIRST = '0,
    parameter logic [32*STREAMS-1:0] BEATS = {STREAMS{32'd1}},
    parameter logic [STREAMS-1:0] REPEATS = '0,
    // bytes of a beat, a power of two
    parameter int BEAT_BYTES = 64,
    // beats of a descriptor, which is one burst; the last of the image may be shorter
    parameter int PIECE_BEATS = 64,
    // beats for which a master has room, for a stream that is read once and for one that repeats; at least one piece
    parameter int ONCE_AHEAD = 128,
    parameter int REPEATS_AHEAD = 512,
    // the minimum length of the core's reset in clocks, 2 or more
    parameter int RESET_CLOCKS = 16,
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
    input  logic [63:0] s_axis_run_w,

    output logic        m_axis_run_tvalid,
    input  logic        m_axis_run_tready,
    output logic [63:0] m_axis_run_x,
    output logic [63:0] m_axis_run_y,
    output logic [31:0] m_axis_run_rows,

    // in: a run's last byte is in memory; out: the run is done
    input  logic        s_axis_done_tvalid,
    output logic        s_axis_done_tready,
    output logic        m_axis_done_tvalid,
    input  logic        m_axis_done_tready,

    // to each stream's master
    output logic [STREAMS-1:0]       m_axis_desc_tvalid,
    input  logic [STREAMS-1:0]       m_axis_desc_tready,
    output logic [STREAMS-1:0][63:0] m_axis_desc_address,
    output logic [STREAMS-1:0][31:0] m_axis_desc_beats,

    // a beat of the stream arrives from memory in this clock
    input  logic [STREAMS-1:0] arrived,

    // the handshakes of the beats from the masters and to the core
    input  logic [STREAMS-1:0] s_axis_w_tvalid,
    output logic [STREAMS-1:0] s_axis_w_tready,
    output logic [STREAMS-1:0] m_axis_w_tvalid,
    input  logic [STREAMS-1:0] m_axis_w_tready,

    output logic core_rst_n
);

  if (STREAMS < 1) begin : g_check_streams
    $error("kernel_weights %m: STREAMS is %0d, expected at least 1", STREAMS);
  end
  if (RESET_CLOCKS < 2) begin : g_check_reset_clocks
    $error("kernel_weights %m: RESET_CLOCKS is %0d, expected at least 2", RESET_CLOCKS);
  end

  if (PIECE_BEATS < 1 || ONCE_AHEAD < PIECE_BEATS || REPEATS_AHEAD < PIECE_BEATS) begin : g_check_ahead
    $error("kernel_weights %m: PIECE_BEATS is %0d, expected 1 to %0d and to %0d", PIECE_BEATS, ONCE_AHEAD, REPEATS_AHEAD);
  end

  localparam int RUN_BITS = $clog2(MAX_RUNS) + 1;
  localparam int CLOCK_BITS = $clog2(RESET_CLOCKS + 1);

  // Runs: the first one waiting is compared in one clock and passes in the next
  logic                  loaded_q;  // the core has the weights at w_q, or they are being loaded
  logic [          63:0] w_q;
  logic                  checked_q;
  logic                  same_q;
  logic [  RUN_BITS-1:0] flying_q;  // runs passed and not done
  logic [CLOCK_BITS-1:0] clocks_q;  // clocks left of the core's reset
  logic [   STREAMS-1:0] none_owed;
  logic                  quiet_q;  // no beat was in flight in the last clock
  logic [   STREAMS-1:0] none_pending;
  logic                  settled_q;  // all pieces had arrived in the last clock, and none was sent

  wire pass = m_axis_run_tvalid && m_axis_run_tready;
  wire drop = loaded_q && checked_q && !same_q && flying_q == '0;
  wire rest = flying_q == '0 || (flying_q == RUN_BITS'(1) && s_axis_done_tvalid);
  wire done = m_axis_done_tvalid && m_axis_done_tready;
  wire load = !loaded_q && s_axis_run_tvalid && quiet_q && clocks_q == '0;

  always_ff @(posedge clk) begin
    checked_q <= loaded_q && !drop && s_axis_run_tvalid && !pass;
    same_q    <= s_axis_run_w == w_q;
    quiet_q   <= &none_owed;
    settled_q <= &none_pending;
    flying_q  <= flying_q + RUN_BITS'(pass) - RUN_BITS'(done);
    loaded_q  <= load || (loaded_q && !drop);
    if (load) w_q <= s_axis_run_w;
    if (drop) clocks_q <= CLOCK_BITS'(RESET_CLOCKS);
    else if (clocks_q != '0) clocks_q <= clocks_q - 1'b1;
    core_rst_n <= loaded_q;
    if (!rst_n) begin
      checked_q  <= 1'b0;
      flying_q   <= '0;
      loaded_q   <= 1'b0;
      clocks_q   <= CLOCK_BITS'(RESET_CLOCKS);
      core_rst_n <= 1'b0;
    end
  end

  assign m_axis_run_tvalid = checked_q && same_q;
  assign s_axis_run_tready = pass;
  wire settled = settled_q || flying_q != RUN_BITS'(1);
  assign m_axis_done_tvalid = s_axis_done_tvalid && settled;
  assign s_axis_done_tready = m_axis_done_tready && settled;

  assign m_axis_run_x      = s_axis_run_x;
  assign m_axis_run_y      = s_axis_run_y;
  assign m_axis_run_rows   = s_axis_run_rows;

  // Beats: the core receives none during its reset
  assign m_axis_w_tvalid = s_axis_w_tvalid & {STREAMS{core_rst_n}};
  assign s_axis_w_tready = m_axis_w_tready | {STREAMS{!core_rst_n}};

  for (genvar k = 0; k < STREAMS; k++) begin : gen_stream
    localparam int COUNT = 32'(BEATS[32*k+:32]);
    localparam int AHEAD = REPEATS[k] ? REPEATS_AHEAD : ONCE_AHEAD;
    localparam int OWED_BITS = $clog2(AHEAD + 1);
    localparam int LEFT_BITS = $clog2(COUNT + 1);
    localparam int PIECE_BITS = $clog2(PIECE_BEATS + 1);
    localparam logic [63:0] OFFSET = 64'(BEAT_BYTES) * 64'(FIRST[32*k+:32]);

    logic                  valid_q;
    logic [          63:0] address_q;
    logic [PIECE_BITS-1:0] beats_q;
    logic [ OWED_BITS-1:0] owed_q;  // beats of sent descriptors that have not been taken from the master
    logic [ OWED_BITS-1:0] pending_q;  // beats of sent descriptors that have not arrived from memory
    logic [ LEFT_BITS-1:0] left_q;  // beats of the image for which no descriptor has been sent yet
    logic [          63:0] next_q;  // the address of the first of them
    logic                  ended_q;  // the whole image has been requested and is not read again

    wire last = 32'(left_q) <= 32'(PIECE_BEATS);
    wire [PIECE_BITS-1:0] piece = last ? PIECE_BITS'(left_q) : PIECE_BITS'(PIECE_BEATS);
    wire room = 32'(owed_q) <= 32'(AHEAD - PIECE_BEATS);
    wire give = loaded_q && !rest && !valid_q && !ended_q && room;
    wire taken = s_axis_w_tvalid[k] && s_axis_w_tready[k];

    always_ff @(posedge clk) begin
      if (give) begin
        address_q <= next_q;
        beats_q   <= piece;
      end
      if (!loaded_q) begin
        next_q <= s_axis_run_w + OFFSET;  // of the run for which the core is loaded
        left_q <= LEFT_BITS'(COUNT);
      end else if (give) begin
        next_q <= last ? w_q + OFFSET : next_q + 64'(PIECE_BEATS * BEAT_BYTES);
        left_q <= last ? LEFT_BITS'(COUNT) : LEFT_BITS'(32'(left_q) - 32'(PIECE_BEATS));
      end
      valid_q   <= give || (valid_q && !m_axis_desc_tready[k]);
      ended_q   <= loaded_q && (ended_q || (give && last && !REPEATS[k]));
      owed_q    <= owed_q + (give ? OWED_BITS'(piece) : '0) - OWED_BITS'(taken);
      pending_q <= pending_q + (give ? OWED_BITS'(piece) : '0) - OWED_BITS'(arrived[k]);
      if (!rst_n) begin
        valid_q   <= 1'b0;
        ended_q   <= 1'b0;
        owed_q    <= '0;
        pending_q <= '0;
      end
    end

    assign none_owed[k]           = owed_q == '0;
    assign none_pending[k]        = pending_q == '0 && !give;
    assign m_axis_desc_tvalid[k]  = valid_q;
    assign m_axis_desc_address[k] = address_q;
    assign m_axis_desc_beats[k]   = 32'(beats_q);
  end

endmodule

`default_nettype wire
