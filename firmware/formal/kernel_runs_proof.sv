// SPDX-License-Identifier: Apache-2.0
//
// kernel_runs: each run gives one descriptor to read, one to unpack and one to write, each stream in the order of the runs: x and
// the beats of rows x ROW_IN_BYTES bytes; rows; y and exactly rows x ROW_OUT_BYTES bytes. A run waits only while one of the queues
// is full.
//
// Together with the proofs of axi_write_master (no byte outside [address, address + bytes)) and kernel_control (y and rows are
// those of the host's start), it follows that the kernel writes nothing outside [y, y + rows x row_bytes).
//
// The solver marks a run; on each stream `front` descriptors are before its own. Two runs in flight, rows of 3 and 5 bytes, beats
// of 4. The .sby connects registers of the module.
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
  logic [34:0] m_axis_write_bytes;

  kernel_runs #(
      .ROW_IN_BYTES (3),
      .ROW_OUT_BYTES(5),
      .BEAT_BYTES   (4),
      .BYTES_WIDTH  (35),
      .MAX_RUNS     (2)
  ) u_kernel_runs (.*);

  wire [159:0] run = {s_axis_run_x, s_axis_run_y, s_axis_run_rows};
  stream_rules #(.WIDTH(160), .ASSUME(1'b1)) u_run (.clk, .rst_n, .tvalid(s_axis_run_tvalid), .tready(s_axis_run_tready), .tdata(run));

  // Registers of u_kernel_runs, which the .sby connects
  (* keep *) wire [  1:0] inner_fresh;
  (* keep *) wire [ 18:0] inner_in_low;
  (* keep *) wire [ 18:0] inner_in_high;
  (* keep *) wire [ 18:0] inner_out_low;
  (* keep *) wire [ 18:0] inner_out_high;
  (* keep *) wire         inner_valid;
  (* keep *) wire [ 63:0] inner_x;
  (* keep *) wire [ 63:0] inner_y;
  (* keep *) wire [ 31:0] inner_rows;
  (* keep *) wire [ 34:0] inner_in_bytes;
  (* keep *) wire [ 34:0] inner_out_bytes;
  (* keep *) wire [  2:0] inner_taken;
  (* keep *) wire [  1:0] inner_read_write;
  (* keep *) wire [  1:0] inner_read_read;
  (* keep *) wire [97:0] inner_read_0;
  (* keep *) wire [97:0] inner_read_1;
  (* keep *) wire [  1:0] inner_unpack_write;
  (* keep *) wire [  1:0] inner_unpack_read;
  (* keep *) wire [ 31:0] inner_unpack_0;
  (* keep *) wire [ 31:0] inner_unpack_1;
  (* keep *) wire [  1:0] inner_write_write;
  (* keep *) wire [  1:0] inner_write_read;
  (* keep *) wire [98:0] inner_write_0;
  (* keep *) wire [98:0] inner_write_1;

  // The descriptors expected of the marked run
  logic        started_q = 1'b0;
  wire         take = s_axis_run_tvalid && s_axis_run_tready;
  logic [63:0] x_q;
  logic [63:0] y_q;
  logic [31:0] rows_q;
  logic [ 2:0] marked_q;  // its descriptors to read, to unpack and to write have not been given
  wire  [34:0] in_bytes = 35'(rows_q) * 35'd3;
  wire  [34:0] out_bytes = 35'(rows_q) * 35'd5;
  wire         begins = take && mark && marked_q == '0;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (begins) {x_q, y_q, rows_q} <= run;
  end

  // The descriptors with which the current run will be offered
  wire  [34:0] held_in = inner_fresh != '0 ? 35'(inner_rows) * 35'd3 : inner_in_bytes;
  wire  [34:0] held_out = inner_fresh != '0 ? 35'(inner_rows) * 35'd5 : inner_out_bytes;

  // To read
  wire [97:0] given_read = {m_axis_read_address, m_axis_read_beats};
  stream_rules #(.WIDTH(98)) u_read (.clk, .rst_n, .tvalid(m_axis_read_tvalid), .tready(m_axis_read_tready), .tdata(given_read));
  logic [2:0] front_read;
  wire  [1:0] stored_read = inner_read_write - inner_read_read;
  wire  [2:0] queued_read = 3'(stored_read) + 3'(m_axis_read_tvalid);
  wire  [2:0] held_read = queued_read + 3'(inner_fresh != '0 || (inner_valid && !inner_taken[0]));
  wire        give_read = m_axis_read_tvalid && m_axis_read_tready;
  wire        slot_read = inner_read_read[0] ^ front_read[0] ^ m_axis_read_tvalid;
  wire [97:0] word_read = slot_read ? inner_read_1 : inner_read_0;
  wire [97:0] due_read = {x_q, 34'(in_bytes[34:2]) + 34'(in_bytes[1:0] != '0)};

  always_ff @(posedge clk) begin
    if (begins) begin
      marked_q[0] <= 1'b1;
      front_read <= held_read - 3'(give_read);
    end else if (give_read && marked_q[0]) begin
      front_read <= front_read - 3'd1;
      marked_q[0] <= front_read != '0;
    end
    if (!rst_n) marked_q[0] <= 1'b0;
  end

  always_comb begin
    if (started_q && rst_n) begin
      assert (stored_read <= 2'd2);
      if (marked_q[0]) begin
        assert (front_read < held_read);
        if (m_axis_read_tvalid && front_read == '0) assert (given_read == due_read);
        else if (front_read < queued_read) assert (word_read == due_read);
        else assert ({inner_x, 34'(held_in[34:2]) + 34'(held_in[1:0] != '0)} == due_read);
      end
    end
  end

  // To unpack
  wire [31:0] given_unpack = m_axis_unpack_rows;
  stream_rules #(.WIDTH(32)) u_unpack (.clk, .rst_n, .tvalid(m_axis_unpack_tvalid), .tready(m_axis_unpack_tready), .tdata(given_unpack));
  logic [2:0] front_unpack;
  wire  [1:0] stored_unpack = inner_unpack_write - inner_unpack_read;
  wire  [2:0] queued_unpack = 3'(stored_unpack) + 3'(m_axis_unpack_tvalid);
  wire  [2:0] held_unpack = queued_unpack + 3'(inner_fresh != '0 || (inner_valid && !inner_taken[1]));
  wire        give_unpack = m_axis_unpack_tvalid && m_axis_unpack_tready;
  wire        slot_unpack = inner_unpack_read[0] ^ front_unpack[0] ^ m_axis_unpack_tvalid;
  wire [31:0] word_unpack = slot_unpack ? inner_unpack_1 : inner_unpack_0;
  wire [31:0] due_unpack = rows_q;

  always_ff @(posedge clk) begin
    if (begins) begin
      marked_q[1] <= 1'b1;
      front_unpack <= held_unpack - 3'(give_unpack);
    end else if (give_unpack && marked_q[1]) begin
      front_unpack <= front_unpack - 3'd1;
      marked_q[1] <= front_unpack != '0;
    end
    if (!rst_n) marked_q[1] <= 1'b0;
  end

  always_comb begin
    if (started_q && rst_n) begin
      assert (stored_unpack <= 2'd2);
      if (marked_q[1]) begin
        assert (front_unpack < held_unpack);
        if (m_axis_unpack_tvalid && front_unpack == '0) assert (given_unpack == due_unpack);
        else if (front_unpack < queued_unpack) assert (word_unpack == due_unpack);
        else assert (inner_rows == due_unpack);
      end
    end
  end

  // To write
  wire [98:0] given_write = {m_axis_write_address, m_axis_write_bytes};
  stream_rules #(.WIDTH(99)) u_write (.clk, .rst_n, .tvalid(m_axis_write_tvalid), .tready(m_axis_write_tready), .tdata(given_write));
  logic [2:0] front_write;
  wire  [1:0] stored_write = inner_write_write - inner_write_read;
  wire  [2:0] queued_write = 3'(stored_write) + 3'(m_axis_write_tvalid);
  wire  [2:0] held_write = queued_write + 3'(inner_fresh != '0 || (inner_valid && !inner_taken[2]));
  wire        give_write = m_axis_write_tvalid && m_axis_write_tready;
  wire        slot_write = inner_write_read[0] ^ front_write[0] ^ m_axis_write_tvalid;
  wire [98:0] word_write = slot_write ? inner_write_1 : inner_write_0;
  wire [98:0] due_write = {y_q, out_bytes};

  always_ff @(posedge clk) begin
    if (begins) begin
      marked_q[2] <= 1'b1;
      front_write <= held_write - 3'(give_write);
    end else if (give_write && marked_q[2]) begin
      front_write <= front_write - 3'd1;
      marked_q[2] <= front_write != '0;
    end
    if (!rst_n) marked_q[2] <= 1'b0;
  end

  always_comb begin
    if (started_q && rst_n) begin
      assert (stored_write <= 2'd2);
      if (marked_q[2]) begin
        assert (front_write < held_write);
        if (m_axis_write_tvalid && front_write == '0) assert (given_write == due_write);
        else if (front_write < queued_write) assert (word_write == due_write);
        else assert ({inner_y, held_out} == due_write);
      end
    end
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n && inner_valid) begin
      assert (inner_in_bytes == 35'(inner_rows) * 35'd3);
      assert (inner_out_bytes == 35'(inner_rows) * 35'd5);
      assert (inner_taken != 3'b111);
    end
    if (started_q && rst_n && !inner_valid) assert (inner_taken == '0);
    if (started_q && rst_n) assert (2'(inner_fresh[0]) + 2'(inner_fresh[1]) + 2'(inner_valid) <= 2'd1);
    if (started_q && rst_n && inner_fresh[1]) begin
      assert (inner_in_low == 19'(inner_rows[15:0]) * 19'd3 && inner_in_high == 19'(inner_rows[31:16]) * 19'd3);
      assert (inner_out_low == 19'(inner_rows[15:0]) * 19'd5 && inner_out_high == 19'(inner_rows[31:16]) * 19'd5);
    end
    // no deadlock: a run waits only for a full queue
    if (started_q && rst_n && !s_axis_run_tready && inner_fresh == '0) begin
      assert (stored_read == 2'd2 || stored_unpack == 2'd2 || stored_write == 2'd2);
    end
    cover (started_q && rst_n && marked_q == 3'b100 && front_write == 3'd0 && m_axis_write_bytes == 35'd15 && m_axis_write_tvalid);
    cover (started_q && rst_n && !s_axis_run_tready && marked_q == 3'b111);
  end

endmodule

`default_nettype wire
