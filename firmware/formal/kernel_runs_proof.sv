// SPDX-License-Identifier: Apache-2.0
//
// kernel_runs: each run gives one descriptor to read, one to unpack and one to write, each stream in the order of the runs: x and
// the beats of rows x ROW_IN_BYTES bytes; rows; y and exactly rows x ROW_OUT_BYTES bytes. A run waits only while one of the queues
// is full, or in the three clocks behind the last.
//
// Together with the proofs of axi_write_master (no byte outside [address, address + bytes)) and kernel_control (y and rows are
// those of the host's start), it follows that the kernel writes nothing outside [y, y + rows x row_bytes).
//
// fifo_rules.sv follows the descriptors of a run through each queue. Two runs in flight, rows of 3 and 5 bytes, beats of 4.
`default_nettype none

module kernel_runs_proof (
    input logic        clk,
    input logic        rst_n,
    input logic        s_axis_run_tvalid,
    input logic [63:0] s_axis_run_x,
    input logic [63:0] s_axis_run_y,
    input logic [31:0] s_axis_run_rows,
    input logic        m_axis_read_tready,
    input logic        m_axis_unpack_tready,
    input logic        m_axis_write_tready,
    input logic        mark
);

  logic        s_axis_run_tready;
  logic        m_axis_read_tvalid;
  logic [63:0] m_axis_read_address;
  logic [33:0] m_axis_read_beats;
  logic        m_axis_unpack_tvalid;
  logic [31:0] m_axis_unpack_rows;
  logic        m_axis_write_tvalid;
  logic [63:0] m_axis_write_address;
  logic [33:0] m_axis_write_beats;
  logic [ 1:0] m_axis_write_tail;

  kernel_runs #(
      .ROW_IN_BYTES (3),
      .ROW_OUT_BYTES(5),
      .BEAT_BYTES   (4),
      .BYTES_WIDTH  (35),
      .MAX_RUNS     (2)
  ) u_kernel_runs (.*);

  wire [159:0] run = {s_axis_run_x, s_axis_run_y, s_axis_run_rows};
  stream_rules #(.WIDTH(160), .ASSUME(1'b1)) u_run (.clk, .rst_n, .tvalid(s_axis_run_tvalid), .tready(s_axis_run_tready), .tdata(run));

  (* inner = "u_kernel_runs.idle_q" *) wire inner_idle;
  (* inner = "u_kernel_runs.fresh_q" *) wire [4:0] inner_fresh;
  (* inner = "u_kernel_runs.digits_q" *) wire [31:0] inner_digits;
  (* inner = "u_kernel_runs.in_part_q" *) wire [10:0] inner_in_part;
  (* inner = "u_kernel_runs.out_part_q" *) wire [10:0] inner_out_part;
  (* inner = "u_kernel_runs.valid_q" *) wire inner_valid;
  (* inner = "u_kernel_runs.x_q" *) wire [63:0] inner_x;
  (* inner = "u_kernel_runs.y_q" *) wire [63:0] inner_y;
  (* inner = "u_kernel_runs.rows_q" *) wire [31:0] inner_rows;
  (* inner = "u_kernel_runs.in_bytes_q" *) wire [34:0] inner_in_bytes;
  (* inner = "u_kernel_runs.out_bytes_q" *) wire [34:0] inner_out_bytes;
  (* inner = "u_kernel_runs.taken" *) wire inner_queued;
  (* inner = "u_kernel_runs.u_axis_broadcast.taken_q" *) wire [2:0] inner_taken;
  (* inner = "u_kernel_runs.u_axis_fifo_read.write_pointer_q" *) wire [1:0] inner_read_write;
  (* inner = "u_kernel_runs.u_axis_fifo_read.read_pointer_q" *) wire [1:0] inner_read_read;
  (* inner = "u_kernel_runs.u_axis_fifo_read.memory[1:0]" *) wire [195:0] inner_read_words;
  (* inner = "u_kernel_runs.u_axis_fifo_unpack.write_pointer_q" *) wire [1:0] inner_unpack_write;
  (* inner = "u_kernel_runs.u_axis_fifo_unpack.read_pointer_q" *) wire [1:0] inner_unpack_read;
  (* inner = "u_kernel_runs.u_axis_fifo_unpack.memory[1:0]" *) wire [63:0] inner_unpack_words;
  (* inner = "u_kernel_runs.u_axis_fifo_write.write_pointer_q" *) wire [1:0] inner_write_write;
  (* inner = "u_kernel_runs.u_axis_fifo_write.read_pointer_q" *) wire [1:0] inner_write_read;
  (* inner = "u_kernel_runs.u_axis_fifo_write.memory[1:0]" *) wire [199:0] inner_write_words;

  logic        started_q = 1'b0;
  always_ff @(posedge clk) started_q <= 1'b1;

  // A run is marked on the three streams at once, when no earlier one is
  wire [2:0] marked_q;  // its descriptors to read, to unpack and to write have not been given
  wire       begins = s_axis_run_tvalid && s_axis_run_tready && mark && marked_q == '0;
  wire [2:0] waits = {3{inner_fresh != '0}} | ({3{inner_valid}} & ~inner_taken);  // the current run's have not been queued

  // The products with which the current run will be offered
  wire [34:0] held_in = inner_fresh != '0 ? 35'(inner_rows) * 35'd3 : inner_in_bytes;
  wire [34:0] held_out = inner_fresh != '0 ? 35'(inner_rows) * 35'd5 : inner_out_bytes;

  function automatic logic [33:0] beats(input logic [34:0] bytes);
    beats = 34'(bytes[34:2]) + 34'(bytes[1:0] != '0);
  endfunction
  // the beats to write, and the bytes of the last one
  function automatic logic [35:0] ends(input logic [34:0] bytes);
    ends = {beats(bytes), bytes[1:0]};
  endfunction

  // To read
  wire [97:0] given_read = {m_axis_read_address, m_axis_read_beats};
  wire  [1:0] stored_read;
  stream_rules #(.WIDTH(98)) u_read (.clk, .rst_n, .tvalid(m_axis_read_tvalid), .tready(m_axis_read_tready), .tdata(given_read));
  fifo_rules #(.WIDTH(98), .DEPTH(2)) u_read_fifo (
      .clk, .rst_n, .mark(begins), .item({s_axis_run_x, beats(35'(s_axis_run_rows) * 35'd3)}),
      .held(5'(stored_read) + 5'(m_axis_read_tvalid) + 5'(waits[0])), .upstream({inner_x, beats(held_in)}),
      .valid(m_axis_read_tvalid), .ready(m_axis_read_tready), .data(given_read), .write(inner_read_write),
      .read(inner_read_read), .words(inner_read_words), .marked_q(marked_q[0]), .stored(stored_read)
  );

  // To unpack
  wire [1:0] stored_unpack;
  stream_rules #(.WIDTH(32)) u_unpack (.clk, .rst_n, .tvalid(m_axis_unpack_tvalid), .tready(m_axis_unpack_tready), .tdata(m_axis_unpack_rows));
  fifo_rules #(.WIDTH(32), .DEPTH(2)) u_unpack_fifo (
      .clk, .rst_n, .mark(begins), .item(s_axis_run_rows),
      .held(5'(stored_unpack) + 5'(m_axis_unpack_tvalid) + 5'(waits[1])), .upstream(inner_rows),
      .valid(m_axis_unpack_tvalid), .ready(m_axis_unpack_tready), .data(m_axis_unpack_rows), .write(inner_unpack_write),
      .read(inner_unpack_read), .words(inner_unpack_words), .marked_q(marked_q[1]), .stored(stored_unpack)
  );

  // To write
  wire [99:0] given_write = {m_axis_write_address, m_axis_write_beats, m_axis_write_tail};
  wire  [1:0] stored_write;
  wire  [4:0] front_write;
  stream_rules #(.WIDTH(100)) u_write (.clk, .rst_n, .tvalid(m_axis_write_tvalid), .tready(m_axis_write_tready), .tdata(given_write));
  fifo_rules #(.WIDTH(100), .DEPTH(2)) u_write_fifo (
      .clk, .rst_n, .mark(begins), .item({s_axis_run_y, ends(35'(s_axis_run_rows) * 35'd5)}),
      .held(5'(stored_write) + 5'(m_axis_write_tvalid) + 5'(waits[2])), .upstream({inner_y, ends(held_out)}),
      .valid(m_axis_write_tvalid), .ready(m_axis_write_tready), .data(given_write), .write(inner_write_write),
      .read(inner_write_read), .words(inner_write_words), .marked_q(marked_q[2]), .front_q(front_write), .stored(stored_write)
  );

  // the highest k bytes of the current run's rows
  function automatic logic [31:0] upper(input int k);
    upper = inner_rows >> (32 - 8 * k);
  endfunction

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n && inner_valid) begin
      assert (inner_in_bytes == 35'(inner_rows) * 35'd3);
      assert (inner_out_bytes == 35'(inner_rows) * 35'd5);
      assert (inner_taken != 3'b111);
    end
    if (started_q && rst_n && !inner_valid) assert (inner_taken == '0);
    if (started_q && rst_n) begin
      assert (3'(inner_fresh[0]) + 3'(inner_fresh[1]) + 3'(inner_fresh[2]) + 3'(inner_fresh[3]) + 3'(inner_fresh[4]) + 3'(inner_valid) + 3'(inner_idle) == 3'd1);
    end
    // the bytes of the rows are multiplied and summed one a clock, the highest first
    for (int k = 0; k < 5; k++) begin
      if (started_q && rst_n && inner_fresh[k]) begin
        assert (k == 4 || inner_digits == inner_rows << (8 * k));
        if (k > 0) assert (inner_in_part == 11'(upper(k) & 32'hff) * 11'd3 && inner_out_part == 11'(upper(k) & 32'hff) * 11'd5);
        if (k > 1) assert (inner_in_bytes == 35'(upper(k - 1)) * 35'd3 && inner_out_bytes == 35'(upper(k - 1)) * 35'd5);
      end
    end
    // no deadlock: a run waits for the last one to be computed and queued, and that for nothing but a full queue
    if (started_q && rst_n && !s_axis_run_tready && inner_fresh == '0 && !inner_queued) begin
      assert (stored_read == 2'd2 || stored_unpack == 2'd2 || stored_write == 2'd2);
    end
    cover (started_q && rst_n && marked_q == 3'b100 && front_write == '0 && m_axis_write_beats == 34'd4 && m_axis_write_tail == 2'd3 && m_axis_write_tvalid);
    cover (started_q && rst_n && !s_axis_run_tready && marked_q == 3'b111);
  end

endmodule

`default_nettype wire
