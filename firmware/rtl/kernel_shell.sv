// SPDX-License-Identifier: Apache-2.0
//
// A kernel without its core and its number conversion: control, memory access, and the packing of rows.
//
//   s_axi_control -> kernel_control -> kernel_read -> kernel_runs --+--------------------------+
//                          (a run waits for its weights)            v                          v
//   m_axi_gmem0 <---------------------------------------------- kernel_read            axi_write_master -> m_axi_gmem1
//                                                                 |   |                        ^
//                        m_axis_w (weights), core_rst_n <---------+   |                        |
//                                         m_axis_x (rows) <-----------+                        |
//                                         s_axis_y (rows) --------> axis_row_pack -------------+
//
// All parts work at the same time and on successive runs: the next run is read while this one is still being written. `done` is
// sent from the write master to the control, so a run is done when its last byte is in memory.
//
// A row passes in one beat or in several: an input row in X_PIECES of X_PIECE_BYTES bytes for each tensor, an output row in
// ROW_OUT_BYTES / Y_BYTES beats. A core with weights in memory (WEIGHTS_BEATS above 0) receives them through the port that reads
// the rows, and kernel_read resets it when they change.
`default_nettype none

module kernel_shell #(
    // bytes of a row in memory
    parameter int ROW_IN_BYTES = 72,
    parameter int ROW_OUT_BYTES = 4,
    // bytes of a beat of m_axis_x, the largest of them, and of s_axis_y
    parameter int X_BYTES = ROW_IN_BYTES,
    parameter int Y_BYTES = ROW_OUT_BYTES,
    // rows in several beats: tensors, and for each, in 32 bits, tensor 0 in the low bits: bytes of a beat, beats of a row
    parameter int X_TENSORS = 1,
    parameter logic [32*X_TENSORS-1:0] X_PIECE_BYTES = 32'(X_BYTES),
    parameter logic [32*X_TENSORS-1:0] X_PIECES = 32'd1,
    // bits of a number of bytes: 32 for the rows of a run, the others for the bytes of a row
    parameter int BYTES_WIDTH = 48,
    // beats of the longest burst and the most bursts in flight, for both masters; powers of two
    parameter int MAX_BURST_BEATS = 64,
    parameter int OUTSTANDING = 16,
    // runs accepted and not yet acknowledged, a power of two
    parameter int MAX_RUNS = 8,
    // beats of the weights in memory, 0: none. The core's weight streams, and for each, in 32 bits, stream 0 in the low bits: its
    // first beat and its beats; and in one bit: they are read over and over
    parameter int WEIGHTS_BEATS = 0,
    parameter int WEIGHT_STREAMS = 1,
    parameter logic [32*WEIGHT_STREAMS-1:0] WEIGHT_FIRST = '0,
    parameter logic [32*WEIGHT_STREAMS-1:0] WEIGHT_BEATS = {WEIGHT_STREAMS{32'd1}},
    parameter logic [WEIGHT_STREAMS-1:0] WEIGHT_REPEATS = '0,
    // bits of a beat of them
    parameter int WEIGHT_WIDTH = WEIGHTS_BEATS != 0 ? 512 : 1
) (
    input  logic         clk,
    input  logic         rst_n,
    output logic         irq,
    // a run is complete: each of its writes was answered
    output logic         run_done,

    input  logic [ 11:0] s_axi_control_awaddr,
    input  logic         s_axi_control_awvalid,
    output logic         s_axi_control_awready,
    input  logic [ 31:0] s_axi_control_wdata,
    input  logic [  3:0] s_axi_control_wstrb,
    input  logic         s_axi_control_wvalid,
    output logic         s_axi_control_wready,
    output logic [  1:0] s_axi_control_bresp,
    output logic         s_axi_control_bvalid,
    input  logic         s_axi_control_bready,
    input  logic [ 11:0] s_axi_control_araddr,
    input  logic         s_axi_control_arvalid,
    output logic         s_axi_control_arready,
    output logic [ 31:0] s_axi_control_rdata,
    output logic [  1:0] s_axi_control_rresp,
    output logic         s_axi_control_rvalid,
    input  logic         s_axi_control_rready,

    output logic [ 63:0] m_axi_gmem0_araddr,
    output logic [  0:0] m_axi_gmem0_arid,
    output logic [  7:0] m_axi_gmem0_arlen,
    output logic [  2:0] m_axi_gmem0_arsize,
    output logic [  1:0] m_axi_gmem0_arburst,
    output logic [  3:0] m_axi_gmem0_arcache,
    output logic [  2:0] m_axi_gmem0_arprot,
    output logic         m_axi_gmem0_arvalid,
    input  logic         m_axi_gmem0_arready,
    input  logic [511:0] m_axi_gmem0_rdata,
    input  logic [  0:0] m_axi_gmem0_rid,
    input  logic [  1:0] m_axi_gmem0_rresp,
    input  logic         m_axi_gmem0_rlast,
    input  logic         m_axi_gmem0_rvalid,
    output logic         m_axi_gmem0_rready,

    output logic [ 63:0] m_axi_gmem1_awaddr,
    output logic [  0:0] m_axi_gmem1_awid,
    output logic [  7:0] m_axi_gmem1_awlen,
    output logic [  2:0] m_axi_gmem1_awsize,
    output logic [  1:0] m_axi_gmem1_awburst,
    output logic [  3:0] m_axi_gmem1_awcache,
    output logic [  2:0] m_axi_gmem1_awprot,
    output logic         m_axi_gmem1_awvalid,
    input  logic         m_axi_gmem1_awready,
    output logic [511:0] m_axi_gmem1_wdata,
    output logic [ 63:0] m_axi_gmem1_wstrb,
    output logic         m_axi_gmem1_wlast,
    output logic         m_axi_gmem1_wvalid,
    input  logic         m_axi_gmem1_wready,
    input  logic [  0:0] m_axi_gmem1_bid,
    input  logic [  1:0] m_axi_gmem1_bresp,
    input  logic         m_axi_gmem1_bvalid,
    output logic         m_axi_gmem1_bready,

    // bytes of rows, the first one in the low bits; tlast with the last of a run
    output logic                 m_axis_x_tvalid,
    input  logic                 m_axis_x_tready,
    output logic [8*X_BYTES-1:0] m_axis_x_tdata,
    output logic                 m_axis_x_tlast,

    input  logic                 s_axis_y_tvalid,
    output logic                 s_axis_y_tready,
    input  logic [8*Y_BYTES-1:0] s_axis_y_tdata,
    input  logic                 s_axis_y_tlast,

    // the core's reset; its weights, stream 0 in the low bits
    output logic                                   core_rst_n,
    output logic [WEIGHT_STREAMS-1:0]              m_axis_w_tvalid,
    input  logic [WEIGHT_STREAMS-1:0]              m_axis_w_tready,
    output logic [WEIGHT_STREAMS*WEIGHT_WIDTH-1:0] m_axis_w_tdata,

    // the handshake of the core's results, which distinguishes its stalls from those after it
    input  logic                 results_valid,
    input  logic                 results_ready
);

  localparam int DATA_WIDTH = 512;
  localparam int BEAT_BYTES = DATA_WIDTH / 8;
  localparam int BEAT_BITS = $clog2(BEAT_BYTES);
  localparam int COUNT_WIDTH = BYTES_WIDTH - BEAT_BITS + 1;

  if (ROW_OUT_BYTES % Y_BYTES != 0) begin : g_check_y_bytes
    $error("kernel_shell %m: Y_BYTES is %0d, expected a divisor of ROW_OUT_BYTES, %0d", Y_BYTES, ROW_OUT_BYTES);
  end

  logic        run_valid;
  logic        run_ready;
  logic [63:0] run_x;
  logic [63:0] run_y;
  logic [31:0] run_rows;
  logic [63:0] run_w;
  logic        written_valid;
  logic        written_ready;
  logic        done_valid;
  logic        done_ready;
  logic        read_error;
  logic        write_error;
  // starved: a row, or a piece of one, is due and its bytes have not arrived; blocked: one waits for the core
  logic        starved;
  logic        blocked;
  logic        write_address_waits;
  logic        write_data_waits;

  kernel_control #(
      .ROW_IN_BYTES (ROW_IN_BYTES),
      .ROW_OUT_BYTES(ROW_OUT_BYTES),
      .WEIGHTS_BEATS(WEIGHTS_BEATS),
      .MAX_RUNS     (MAX_RUNS)
  ) u_kernel_control (
      .clk                  (clk),
      .rst_n                (rst_n),
      .s_axi_control_awaddr (s_axi_control_awaddr),
      .s_axi_control_awvalid(s_axi_control_awvalid),
      .s_axi_control_awready(s_axi_control_awready),
      .s_axi_control_wdata  (s_axi_control_wdata),
      .s_axi_control_wstrb  (s_axi_control_wstrb),
      .s_axi_control_wvalid (s_axi_control_wvalid),
      .s_axi_control_wready (s_axi_control_wready),
      .s_axi_control_bresp  (s_axi_control_bresp),
      .s_axi_control_bvalid (s_axi_control_bvalid),
      .s_axi_control_bready (s_axi_control_bready),
      .s_axi_control_araddr (s_axi_control_araddr),
      .s_axi_control_arvalid(s_axi_control_arvalid),
      .s_axi_control_arready(s_axi_control_arready),
      .s_axi_control_rdata  (s_axi_control_rdata),
      .s_axi_control_rresp  (s_axi_control_rresp),
      .s_axi_control_rvalid (s_axi_control_rvalid),
      .s_axi_control_rready (s_axi_control_rready),
      .irq                  (irq),
      .m_axis_run_tvalid    (run_valid),
      .m_axis_run_tready    (run_ready),
      .m_axis_run_x         (run_x),
      .m_axis_run_y         (run_y),
      .m_axis_run_rows      (run_rows),
      .m_axis_run_w         (run_w),
      .s_axis_done_tvalid   (done_valid),
      .s_axis_done_tready   (done_ready),
      .read_error           (read_error),
      .write_error          (write_error),
      .starved              (starved),
      .blocked              (blocked),
      .results_valid        (results_valid),
      .results_ready        (results_ready),
      .read_address_waits   (m_axi_gmem0_arvalid && !m_axi_gmem0_arready),
      .write_address_waits  (write_address_waits),
      .write_data_waits     (write_data_waits)
  );

  // runs whose weights the core has
  logic                   next_valid;
  logic                   next_ready;
  logic [           63:0] next_x;
  logic [           63:0] next_y;
  logic [           31:0] next_rows;
  logic                   read_valid;
  logic                   read_ready;
  logic [           63:0] read_address;
  logic [COUNT_WIDTH-1:0] read_beats;
  logic                   unpack_valid;
  logic                   unpack_ready;
  logic [           31:0] unpack_rows;
  logic                   write_valid;
  logic                   write_ready;
  logic [           63:0] write_address;
  logic [COUNT_WIDTH-1:0] write_beats;
  logic [ BEAT_BITS-1:0] write_tail;

  kernel_runs #(
      .ROW_IN_BYTES (ROW_IN_BYTES),
      .ROW_OUT_BYTES(ROW_OUT_BYTES),
      .BEAT_BYTES   (BEAT_BYTES),
      .BYTES_WIDTH  (BYTES_WIDTH),
      .MAX_RUNS     (MAX_RUNS)
  ) u_kernel_runs (
      .clk                 (clk),
      .rst_n               (rst_n),
      .s_axis_run_tvalid   (next_valid),
      .s_axis_run_tready   (next_ready),
      .s_axis_run_x        (next_x),
      .s_axis_run_y        (next_y),
      .s_axis_run_rows     (next_rows),
      .m_axis_read_tvalid  (read_valid),
      .m_axis_read_tready  (read_ready),
      .m_axis_read_address (read_address),
      .m_axis_read_beats   (read_beats),
      .m_axis_unpack_tvalid(unpack_valid),
      .m_axis_unpack_tready(unpack_ready),
      .m_axis_unpack_rows  (unpack_rows),
      .m_axis_write_tvalid (write_valid),
      .m_axis_write_tready (write_ready),
      .m_axis_write_address(write_address),
      .m_axis_write_beats  (write_beats),
      .m_axis_write_tail   (write_tail)
  );

  kernel_read #(
      .ROW_BYTES      (ROW_IN_BYTES),
      .X_BYTES        (X_BYTES),
      .X_TENSORS      (X_TENSORS),
      .X_PIECE_BYTES  (X_PIECE_BYTES),
      .X_PIECES       (X_PIECES),
      .DATA_WIDTH     (DATA_WIDTH),
      .COUNT_WIDTH    (COUNT_WIDTH),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .OUTSTANDING    (OUTSTANDING),
      .MAX_RUNS       (MAX_RUNS),
      .WEIGHTS_BEATS  (WEIGHTS_BEATS),
      .WEIGHT_STREAMS (WEIGHT_STREAMS),
      .WEIGHT_FIRST   (WEIGHT_FIRST),
      .WEIGHT_BEATS   (WEIGHT_BEATS),
      .WEIGHT_REPEATS (WEIGHT_REPEATS),
      .WEIGHT_WIDTH   (WEIGHT_WIDTH)
  ) u_kernel_read (
      .clk                 (clk),
      .rst_n               (rst_n),
      .s_axis_run_tvalid   (run_valid),
      .s_axis_run_tready   (run_ready),
      .s_axis_run_x        (run_x),
      .s_axis_run_y        (run_y),
      .s_axis_run_rows     (run_rows),
      .s_axis_run_w        (run_w),
      .m_axis_run_tvalid   (next_valid),
      .m_axis_run_tready   (next_ready),
      .m_axis_run_x        (next_x),
      .m_axis_run_y        (next_y),
      .m_axis_run_rows     (next_rows),
      .s_axis_done_tvalid  (written_valid),
      .s_axis_done_tready  (written_ready),
      .m_axis_done_tvalid  (done_valid),
      .m_axis_done_tready  (done_ready),
      .s_axis_read_tvalid  (read_valid),
      .s_axis_read_tready  (read_ready),
      .s_axis_read_address (read_address),
      .s_axis_read_beats   (read_beats),
      .s_axis_unpack_tvalid(unpack_valid),
      .s_axis_unpack_tready(unpack_ready),
      .s_axis_unpack_rows  (unpack_rows),
      .m_axi_araddr        (m_axi_gmem0_araddr),
      .m_axi_arid          (m_axi_gmem0_arid),
      .m_axi_arlen         (m_axi_gmem0_arlen),
      .m_axi_arsize        (m_axi_gmem0_arsize),
      .m_axi_arburst       (m_axi_gmem0_arburst),
      .m_axi_arcache       (m_axi_gmem0_arcache),
      .m_axi_arprot        (m_axi_gmem0_arprot),
      .m_axi_arvalid       (m_axi_gmem0_arvalid),
      .m_axi_arready       (m_axi_gmem0_arready),
      .m_axi_rdata         (m_axi_gmem0_rdata),
      .m_axi_rid           (m_axi_gmem0_rid),
      .m_axi_rresp         (m_axi_gmem0_rresp),
      .m_axi_rlast         (m_axi_gmem0_rlast),
      .m_axi_rvalid        (m_axi_gmem0_rvalid),
      .m_axi_rready        (m_axi_gmem0_rready),
      .m_axis_x_tvalid     (m_axis_x_tvalid),
      .m_axis_x_tready     (m_axis_x_tready),
      .m_axis_x_tdata      (m_axis_x_tdata),
      .m_axis_x_tlast      (m_axis_x_tlast),
      .core_rst_n          (core_rst_n),
      .m_axis_w_tvalid     (m_axis_w_tvalid),
      .m_axis_w_tready     (m_axis_w_tready),
      .m_axis_w_tdata      (m_axis_w_tdata),
      .starved             (starved),
      .error               (read_error)
  );

  assign blocked  = m_axis_x_tvalid && !m_axis_x_tready;
  assign run_done = done_valid && done_ready;

  // Out: rows to memory
  logic                  out_valid;
  logic                  out_ready;
  logic [DATA_WIDTH-1:0] out_data;
  logic                  out_last;

  axis_row_pack #(
      .WORD_WIDTH(8),
      .ROW_WORDS (Y_BYTES),
      .BEAT_WORDS(BEAT_BYTES)
  ) u_axis_row_pack (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(s_axis_y_tvalid),
      .s_axis_tready(s_axis_y_tready),
      .s_axis_tdata (s_axis_y_tdata),
      .s_axis_tlast (s_axis_y_tlast),
      .m_axis_tvalid(out_valid),
      .m_axis_tready(out_ready),
      .m_axis_tdata (out_data),
      .m_axis_tlast (out_last)
  );

  axi_write_master #(
      .ADDR_WIDTH     (64),
      .DATA_WIDTH     (DATA_WIDTH),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .OUTSTANDING    (OUTSTANDING),
      .COUNT_WIDTH    (COUNT_WIDTH)
  ) u_axi_write_master (
      .clk                (clk),
      .rst_n              (rst_n),
      .s_axis_desc_tvalid (write_valid),
      .s_axis_desc_tready (write_ready),
      .s_axis_desc_address(write_address),
      .s_axis_desc_beats  (write_beats),
      .s_axis_desc_tail   (write_tail),
      .s_axis_tvalid      (out_valid),
      .s_axis_tready      (out_ready),
      .s_axis_tdata       (out_data),
      .m_axis_done_tvalid (written_valid),
      .m_axis_done_tready (written_ready),
      .m_axi_awaddr       (m_axi_gmem1_awaddr),
      .m_axi_awid         (m_axi_gmem1_awid),
      .m_axi_awlen        (m_axi_gmem1_awlen),
      .m_axi_awsize       (m_axi_gmem1_awsize),
      .m_axi_awburst      (m_axi_gmem1_awburst),
      .m_axi_awcache      (m_axi_gmem1_awcache),
      .m_axi_awprot       (m_axi_gmem1_awprot),
      .m_axi_awvalid      (m_axi_gmem1_awvalid),
      .m_axi_awready      (m_axi_gmem1_awready),
      .m_axi_wdata        (m_axi_gmem1_wdata),
      .m_axi_wstrb        (m_axi_gmem1_wstrb),
      .m_axi_wlast        (m_axi_gmem1_wlast),
      .m_axi_wvalid       (m_axi_gmem1_wvalid),
      .m_axi_wready       (m_axi_gmem1_wready),
      .m_axi_bid          (m_axi_gmem1_bid),
      .m_axi_bresp        (m_axi_gmem1_bresp),
      .m_axi_bvalid       (m_axi_gmem1_bvalid),
      .m_axi_bready       (m_axi_gmem1_bready),
      .address_waits      (write_address_waits),
      .data_waits         (write_data_waits),
      .error              (write_error)
  );

  wire unused = &{1'b0, out_last};

endmodule

`default_nettype wire
