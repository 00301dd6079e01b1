// SPDX-License-Identifier: Apache-2.0
//
// The read side of a kernel: reads the rows of its runs and, for a core with weights in memory, the weights.
//
//   descriptor of a run (address, beats) -------> axi_read_master <---- m_axi
//                                                     | beats, through an axis_skid
//   rows of a run ------------------------------> axis_row_unpack ----> m_axis_x (rows)
//
// A row leaves in one beat, or in several: X_PIECES of X_PIECE_BYTES bytes for each tensor, with axis_tensor_unpack instead of
// axis_row_unpack.
//
// Without weights (WEIGHTS_BEATS is 0), runs are passed on unchanged, and the core has the common reset. With weights, the masters
// of the weight streams share the port with the master of the rows:
//
//   runs (x, y, rows, w) --> kernel_weights ---> runs whose weights the core has; core_rst_n
//                             |          ^ '---> m_axis_w
//                 descriptors v          | beats
//               one axi_read_master per stream <--+
//                                                 +-- axi_read_share <-- axis_skid <-- m_axi
//                     the rows' axi_read_master <-+
`default_nettype none

module kernel_read #(
    // bytes of a row in memory
    parameter int ROW_BYTES = 72,
    // bytes of a beat of m_axis_x, the largest of them
    parameter int X_BYTES = ROW_BYTES,
    // rows in several beats: tensors, and for each, in 32 bits, tensor 0 in the low bits: bytes of a beat, beats of a row
    parameter int X_TENSORS = 1,
    parameter logic [32*X_TENSORS-1:0] X_PIECE_BYTES = 32'(X_BYTES),
    parameter logic [32*X_TENSORS-1:0] X_PIECES = 32'd1,
    // bits of a beat in memory, and of a number of such beats
    parameter int DATA_WIDTH = 512,
    parameter int COUNT_WIDTH = 43,
    // beats of the longest burst, and the most bursts of rows in flight; powers of two
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
    parameter int WEIGHT_WIDTH = WEIGHTS_BEATS != 0 ? DATA_WIDTH : 1
) (
    input  logic clk,
    input  logic rst_n,

    // runs in, and runs out once the core has their weights
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
    // in: a run's last byte is in memory; out: the run is done. The last run in flight is done only when nothing is being read
    input  logic        s_axis_done_tvalid,
    output logic        s_axis_done_tready,
    output logic        m_axis_done_tvalid,
    input  logic        m_axis_done_tready,

    // for each run passed on: the address and beats to read, and its rows
    input  logic                   s_axis_read_tvalid,
    output logic                   s_axis_read_tready,
    input  logic [           63:0] s_axis_read_address,
    input  logic [COUNT_WIDTH-1:0] s_axis_read_beats,
    input  logic                   s_axis_unpack_tvalid,
    output logic                   s_axis_unpack_tready,
    input  logic [           31:0] s_axis_unpack_rows,

    output logic [          63:0] m_axi_araddr,
    output logic [           0:0] m_axi_arid,
    output logic [           7:0] m_axi_arlen,
    output logic [           2:0] m_axi_arsize,
    output logic [           1:0] m_axi_arburst,
    output logic [           3:0] m_axi_arcache,
    output logic [           2:0] m_axi_arprot,
    output logic                  m_axi_arvalid,
    input  logic                  m_axi_arready,
    input  logic [DATA_WIDTH-1:0] m_axi_rdata,
    input  logic [           0:0] m_axi_rid,
    input  logic [           1:0] m_axi_rresp,
    input  logic                  m_axi_rlast,
    input  logic                  m_axi_rvalid,
    output logic                  m_axi_rready,

    // bytes of rows, the first one in the low bits; tlast with the last of a run
    output logic                 m_axis_x_tvalid,
    input  logic                 m_axis_x_tready,
    output logic [8*X_BYTES-1:0] m_axis_x_tdata,
    output logic                 m_axis_x_tlast,

    // the core's reset; its weights, stream 0 in the low bits
    output logic                                   core_rst_n,
    output logic [WEIGHT_STREAMS-1:0]              m_axis_w_tvalid,
    input  logic [WEIGHT_STREAMS-1:0]              m_axis_w_tready,
    output logic [WEIGHT_STREAMS*WEIGHT_WIDTH-1:0] m_axis_w_tdata,

    // a row, or a piece of one, is due and its bytes have not arrived
    output logic starved,
    // a read has been answered with an error since reset
    output logic error
);

  localparam int BEAT_BYTES = DATA_WIDTH / 8;
  localparam bit WHOLE_ROWS = X_TENSORS == 1 && 32'(X_PIECES) == 32'd1;

  // Rows
  logic                  in_valid;
  logic                  in_ready;
  logic [DATA_WIDTH-1:0] in_data;
  logic [          63:0] in_araddr;
  logic [           7:0] in_arlen;
  logic                  in_arvalid;
  logic                  in_arready;
  logic [DATA_WIDTH-1:0] in_rdata;
  logic [           1:0] in_rresp;
  logic                  in_rlast;
  logic                  in_rvalid;
  logic                  in_rready;
  logic                  rows_error;

  axi_read_master #(
      .ADDR_WIDTH     (64),
      .DATA_WIDTH     (DATA_WIDTH),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .OUTSTANDING    (OUTSTANDING),
      .COUNT_WIDTH    (COUNT_WIDTH)
  ) u_axi_read_master (
      .clk                (clk),
      .rst_n              (rst_n),
      .s_axis_desc_tvalid (s_axis_read_tvalid),
      .s_axis_desc_tready (s_axis_read_tready),
      .s_axis_desc_address(s_axis_read_address),
      .s_axis_desc_beats  (s_axis_read_beats),
      .m_axis_tvalid      (in_valid),
      .m_axis_tready      (in_ready),
      .m_axis_tdata       (in_data),
      .m_axi_araddr       (in_araddr),
      .m_axi_arid         (m_axi_arid),
      .m_axi_arlen        (in_arlen),
      .m_axi_arsize       (m_axi_arsize),
      .m_axi_arburst      (m_axi_arburst),
      .m_axi_arcache      (m_axi_arcache),
      .m_axi_arprot       (m_axi_arprot),
      .m_axi_arvalid      (in_arvalid),
      .m_axi_arready      (in_arready),
      .m_axi_rdata        (in_rdata),
      .m_axi_rid          (m_axi_rid),
      .m_axi_rresp        (in_rresp),
      .m_axi_rlast        (in_rlast),
      .m_axi_rvalid       (in_rvalid),
      .m_axi_rready       (in_rready),
      .error              (rows_error)
  );

  // Weights: they share the port that reads the rows
  logic weights_error;
  wire  unused;

  if (WEIGHTS_BEATS == 0) begin : gen_no_weights
    assign m_axis_run_tvalid                             = s_axis_run_tvalid;
    assign s_axis_run_tready                             = m_axis_run_tready;
    assign {m_axis_run_x, m_axis_run_y, m_axis_run_rows} = {s_axis_run_x, s_axis_run_y, s_axis_run_rows};
    assign {m_axi_araddr, m_axi_arlen, m_axi_arvalid}    = {in_araddr, in_arlen, in_arvalid};
    assign in_arready                                    = m_axi_arready;
    assign {in_rdata, in_rresp, in_rlast, in_rvalid}     = {m_axi_rdata, m_axi_rresp, m_axi_rlast, m_axi_rvalid};
    assign m_axi_rready                                  = in_rready;
    assign {m_axis_done_tvalid, s_axis_done_tready}      = {s_axis_done_tvalid, m_axis_done_tready};
    assign core_rst_n                                    = rst_n;
    assign m_axis_w_tvalid                               = '0;
    assign m_axis_w_tdata                                = '0;
    assign weights_error                                 = 1'b0;
    assign unused                                        = &{1'b0, s_axis_run_w, m_axis_w_tready};
  end else begin : gen_weights
    logic [   WEIGHT_STREAMS-1:0] desc_valid;
    logic [   WEIGHT_STREAMS-1:0] desc_ready;
    logic [64*WEIGHT_STREAMS-1:0] desc_address;
    logic [32*WEIGHT_STREAMS-1:0] desc_beats;
    logic [   WEIGHT_STREAMS-1:0] beat_valid;
    logic [   WEIGHT_STREAMS-1:0] beat_ready;
    logic [   WEIGHT_STREAMS-1:0] stream_error;
    logic [64*WEIGHT_STREAMS-1:0] araddr;
    logic [ 8*WEIGHT_STREAMS-1:0] arlen;
    logic [   WEIGHT_STREAMS-1:0] arvalid;
    logic [   WEIGHT_STREAMS-1:0] arready;
    logic [   WEIGHT_STREAMS-1:0] rvalid;
    logic [   WEIGHT_STREAMS-1:0] rready;
    logic                         beats_valid;
    logic                         beats_ready;
    logic [       DATA_WIDTH-1:0] beats_data;
    logic [                  1:0] beats_resp;
    logic                         beats_last;
    logic [   WEIGHT_STREAMS-1:0] unused_stream;

    kernel_weights #(
        .STREAMS      (WEIGHT_STREAMS),
        .FIRST        (WEIGHT_FIRST),
        .BEATS        (WEIGHT_BEATS),
        .REPEATS      (WEIGHT_REPEATS),
        .BEAT_BYTES   (BEAT_BYTES),
        .PIECE_BEATS  (MAX_BURST_BEATS),
        .ONCE_AHEAD   (2 * MAX_BURST_BEATS),
        .REPEATS_AHEAD(8 * MAX_BURST_BEATS),
        .MAX_RUNS     (MAX_RUNS)
    ) u_kernel_weights (
        .clk                (clk),
        .rst_n              (rst_n),
        .s_axis_run_tvalid  (s_axis_run_tvalid),
        .s_axis_run_tready  (s_axis_run_tready),
        .s_axis_run_x       (s_axis_run_x),
        .s_axis_run_y       (s_axis_run_y),
        .s_axis_run_rows    (s_axis_run_rows),
        .s_axis_run_w       (s_axis_run_w),
        .m_axis_run_tvalid  (m_axis_run_tvalid),
        .m_axis_run_tready  (m_axis_run_tready),
        .m_axis_run_x       (m_axis_run_x),
        .m_axis_run_y       (m_axis_run_y),
        .m_axis_run_rows    (m_axis_run_rows),
        .s_axis_done_tvalid (s_axis_done_tvalid),
        .s_axis_done_tready (s_axis_done_tready),
        .m_axis_done_tvalid (m_axis_done_tvalid),
        .m_axis_done_tready (m_axis_done_tready),
        .arrived            (rvalid & rready),
        .m_axis_desc_tvalid (desc_valid),
        .m_axis_desc_tready (desc_ready),
        .m_axis_desc_address(desc_address),
        .m_axis_desc_beats  (desc_beats),
        .s_axis_w_tvalid    (beat_valid),
        .s_axis_w_tready    (beat_ready),
        .m_axis_w_tvalid    (m_axis_w_tvalid),
        .m_axis_w_tready    (m_axis_w_tready),
        .core_rst_n         (core_rst_n)
    );

    for (genvar k = 0; k < WEIGHT_STREAMS; k++) begin : gen_stream
      logic [0:0] arid;
      logic [2:0] arsize;
      logic [1:0] arburst;
      logic [3:0] arcache;
      logic [2:0] arprot;

      axi_read_master #(
          .ADDR_WIDTH     (64),
          .DATA_WIDTH     (DATA_WIDTH),
          .MAX_BURST_BEATS(MAX_BURST_BEATS),
          .OUTSTANDING    (WEIGHT_REPEATS[k] ? 8 : 2),
          .COUNT_WIDTH    (32)
      ) u_axi_read_master (
          .clk                (clk),
          .rst_n              (rst_n),
          .s_axis_desc_tvalid (desc_valid[k]),
          .s_axis_desc_tready (desc_ready[k]),
          .s_axis_desc_address(desc_address[64*k+:64]),
          .s_axis_desc_beats  (desc_beats[32*k+:32]),
          .m_axis_tvalid      (beat_valid[k]),
          .m_axis_tready      (beat_ready[k]),
          .m_axis_tdata       (m_axis_w_tdata[k*WEIGHT_WIDTH+:WEIGHT_WIDTH]),
          .m_axi_araddr       (araddr[64*k+:64]),
          .m_axi_arid         (arid),
          .m_axi_arlen        (arlen[8*k+:8]),
          .m_axi_arsize       (arsize),
          .m_axi_arburst      (arburst),
          .m_axi_arcache      (arcache),
          .m_axi_arprot       (arprot),
          .m_axi_arvalid      (arvalid[k]),
          .m_axi_arready      (arready[k]),
          .m_axi_rdata        (in_rdata),
          .m_axi_rid          (1'b0),
          .m_axi_rresp        (in_rresp),
          .m_axi_rlast        (in_rlast),
          .m_axi_rvalid       (rvalid[k]),
          .m_axi_rready       (rready[k]),
          .error              (stream_error[k])
      );

      // the same as in the master of the rows
      assign unused_stream[k] = &{1'b0, arid, arsize, arburst, arcache, arprot};
    end

    // A register in front of several FIFOs
    axis_skid #(
        .WIDTH(DATA_WIDTH + 3)
    ) u_axis_skid (
        .clk          (clk),
        .rst_n        (rst_n),
        .s_axis_tvalid(m_axi_rvalid),
        .s_axis_tready(m_axi_rready),
        .s_axis_tdata ({m_axi_rdata, m_axi_rresp, m_axi_rlast}),
        .m_axis_tvalid(beats_valid),
        .m_axis_tready(beats_ready),
        .m_axis_tdata ({beats_data, beats_resp, beats_last})
    );

    axi_read_share #(
        .N         (WEIGHT_STREAMS + 1),
        .DATA_WIDTH(DATA_WIDTH)
    ) u_axi_read_share (
        .clk          (clk),
        .rst_n        (rst_n),
        .s_axi_araddr ({araddr, in_araddr}),
        .s_axi_arlen  ({arlen, in_arlen}),
        .s_axi_arvalid({arvalid, in_arvalid}),
        .s_axi_arready({arready, in_arready}),
        .s_axi_rdata  (in_rdata),
        .s_axi_rresp  (in_rresp),
        .s_axi_rlast  (in_rlast),
        .s_axi_rvalid ({rvalid, in_rvalid}),
        .s_axi_rready ({rready, in_rready}),
        .m_axi_araddr (m_axi_araddr),
        .m_axi_arlen  (m_axi_arlen),
        .m_axi_arvalid(m_axi_arvalid),
        .m_axi_arready(m_axi_arready),
        .m_axi_rdata  (beats_data),
        .m_axi_rresp  (beats_resp),
        .m_axi_rlast  (beats_last),
        .m_axi_rvalid (beats_valid),
        .m_axi_rready (beats_ready)
    );

    assign weights_error = stream_error != '0;
    assign unused        = &{1'b0, unused_stream};
  end

  // A register between the memory of the FIFO and the wide multiplexers
  logic                  rows_valid;
  logic                  rows_ready;
  logic [DATA_WIDTH-1:0] rows_data;

  axis_skid #(
      .WIDTH(DATA_WIDTH)
  ) u_axis_skid_rows (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(in_valid),
      .s_axis_tready(in_ready),
      .s_axis_tdata (in_data),
      .m_axis_tvalid(rows_valid),
      .m_axis_tready(rows_ready),
      .m_axis_tdata (rows_data)
  );

  if (WHOLE_ROWS) begin : gen_whole
    axis_row_unpack #(
        .WORD_WIDTH(8),
        .BEAT_WORDS(BEAT_BYTES),
        .ROW_WORDS (ROW_BYTES),
        .ROWS_WIDTH(32)
    ) u_axis_row_unpack (
        .clk               (clk),
        .rst_n             (rst_n),
        .s_axis_desc_tvalid(s_axis_unpack_tvalid),
        .s_axis_desc_tready(s_axis_unpack_tready),
        .s_axis_desc_rows  (s_axis_unpack_rows),
        .s_axis_tvalid     (rows_valid),
        .s_axis_tready     (rows_ready),
        .s_axis_tdata      (rows_data),
        .m_axis_tvalid     (m_axis_x_tvalid),
        .m_axis_tready     (m_axis_x_tready),
        .m_axis_tdata      (m_axis_x_tdata),
        .m_axis_tlast      (m_axis_x_tlast),
        .starved           (starved)
    );
  end else begin : gen_pieces
    axis_tensor_unpack #(
        .WORD_WIDTH (8),
        .BEAT_WORDS (BEAT_BYTES),
        .TENSORS    (X_TENSORS),
        .PIECE_WORDS(X_PIECE_BYTES),
        .PIECES     (X_PIECES),
        .MOST_WORDS (X_BYTES),
        .ROWS_WIDTH (32)
    ) u_axis_tensor_unpack (
        .clk               (clk),
        .rst_n             (rst_n),
        .s_axis_desc_tvalid(s_axis_unpack_tvalid),
        .s_axis_desc_tready(s_axis_unpack_tready),
        .s_axis_desc_rows  (s_axis_unpack_rows),
        .s_axis_tvalid     (rows_valid),
        .s_axis_tready     (rows_ready),
        .s_axis_tdata      (rows_data),
        .m_axis_tvalid     (m_axis_x_tvalid),
        .m_axis_tready     (m_axis_x_tready),
        .m_axis_tdata      (m_axis_x_tdata),
        .m_axis_tlast      (m_axis_x_tlast),
        .starved           (starved)
    );
  end

  assign error = rows_error || weights_error;

endmodule

`default_nettype wire
