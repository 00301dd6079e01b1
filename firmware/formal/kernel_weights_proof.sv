// SPDX-License-Identifier: Apache-2.0
//
// kernel_weights: a run passes unchanged, and only while the core has the weights at its `w`. These change only while the core is
// in reset, for at least RESET_CLOCKS, with no run in flight, no descriptor offered and no beat owed by a master. So all beats that a
// core receives after its reset are of the image that the next run names. Descriptors are the pieces of that image in order, once
// or over and over, and at most as many beats are owed as the stream's master has room for. While no run is in flight, memory owes
// no beats. Beats are dropped during the core's reset and at no other time. And there is no deadlock.
//
// The masters take descriptors and deliver beats at any time, and runs are done at any time. Two streams, one of 5 beats read once,
// one of 3 read over and over; two runs in flight.
`default_nettype none

module kernel_weights_proof (
    input logic        clk,
    input logic        rst_n,
    input logic        s_axis_run_tvalid,
    input logic [63:0] s_axis_run_x,
    input logic [63:0] s_axis_run_y,
    input logic [31:0] s_axis_run_rows,
    input logic [63:0] s_axis_run_w,
    input logic        m_axis_run_tready,
    input logic        s_axis_done_tvalid,
    input logic        m_axis_done_tready,
    input logic [ 1:0] arrived,
    input logic [ 1:0] m_axis_desc_tready,
    input logic [ 1:0] s_axis_w_tvalid,
    input logic [ 1:0] m_axis_w_tready
);

  localparam int AHEAD = 4;
  localparam int PIECE = 2;
  localparam int RESET_CLOCKS = 2;
  localparam int MAX_RUNS = 2;
  localparam int ONCE = 5;
  localparam int AGAIN = 3;

  logic             s_axis_run_tready;
  logic             m_axis_run_tvalid;
  logic [63:0]      m_axis_run_x;
  logic [63:0]      m_axis_run_y;
  logic [31:0]      m_axis_run_rows;
  logic [ 1:0]      m_axis_desc_tvalid;
  logic [127:0]     m_axis_desc_address;
  logic [63:0]      m_axis_desc_beats;
  logic [ 1:0]      s_axis_w_tready;
  logic [ 1:0]      m_axis_w_tvalid;
  logic             core_rst_n;
  logic             s_axis_done_tready;
  logic             m_axis_done_tvalid;

  kernel_weights #(
      .STREAMS      (2),
      .FIRST        ({32'd64, 32'd0}),
      .BEATS        ({32'(AGAIN), 32'(ONCE)}),
      .REPEATS      (2'b10),
      .PIECE_BEATS  (PIECE),
      .ONCE_AHEAD   (AHEAD),
      .REPEATS_AHEAD(AHEAD),
      .RESET_CLOCKS (RESET_CLOCKS),
      .MAX_RUNS     (MAX_RUNS)
  ) u_kernel_weights (.*);

  wire [223:0] run = {s_axis_run_x, s_axis_run_y, s_axis_run_rows, s_axis_run_w};
  wire [159:0] given = {m_axis_run_x, m_axis_run_y, m_axis_run_rows};
  stream_rules #(.WIDTH(224), .ASSUME(1'b1)) u_run (.clk, .rst_n, .tvalid(s_axis_run_tvalid), .tready(s_axis_run_tready), .tdata(run));
  stream_rules #(.WIDTH(160)) u_next (.clk, .rst_n, .tvalid(m_axis_run_tvalid), .tready(m_axis_run_tready), .tdata(given));
  stream_rules #(.WIDTH(96)) u_desc_0 (.clk, .rst_n, .tvalid(m_axis_desc_tvalid[0]), .tready(m_axis_desc_tready[0]), .tdata({m_axis_desc_address[63:0], m_axis_desc_beats[31:0]}));
  stream_rules #(.WIDTH(96)) u_desc_1 (.clk, .rst_n, .tvalid(m_axis_desc_tvalid[1]), .tready(m_axis_desc_tready[1]), .tdata({m_axis_desc_address[127:64], m_axis_desc_beats[63:32]}));
  stream_rules #(.WIDTH(1), .ASSUME(1'b1)) u_done (.clk, .rst_n, .tvalid(s_axis_done_tvalid), .tready(s_axis_done_tready), .tdata(1'b0));
  stream_rules #(.WIDTH(1)) u_told (.clk, .rst_n, .tvalid(m_axis_done_tvalid), .tready(m_axis_done_tready), .tdata(1'b0));
  stream_rules #(.WIDTH(1), .ASSUME(1'b1)) u_w_0 (.clk, .rst_n, .tvalid(s_axis_w_tvalid[0]), .tready(s_axis_w_tready[0]), .tdata(1'b0));
  stream_rules #(.WIDTH(1), .ASSUME(1'b1)) u_w_1 (.clk, .rst_n, .tvalid(s_axis_w_tvalid[1]), .tready(s_axis_w_tready[1]), .tdata(1'b0));

  (* inner = "u_kernel_weights.loaded_q" *) wire inner_loaded;
  (* inner = "u_kernel_weights.w_q" *) wire [63:0] inner_w;
  (* inner = "u_kernel_weights.checked_q" *) wire inner_checked;
  (* inner = "u_kernel_weights.same_q" *) wire inner_same;
  (* inner = "u_kernel_weights.flying_q" *) wire [1:0] inner_flying;
  (* inner = "u_kernel_weights.clocks_q" *) wire [1:0] inner_clocks;
  (* inner = "u_kernel_weights.quiet_q" *) wire inner_quiet;
  (* inner = "u_kernel_weights.gen_stream[0].ended_q" *) wire inner_ended_0;
  (* inner = "u_kernel_weights.gen_stream[0].left_q" *) wire [2:0] inner_left_0;
  (* inner = "u_kernel_weights.gen_stream[1].left_q" *) wire [1:0] inner_left_1;
  (* inner = "u_kernel_weights.gen_stream[0].next_q" *) wire [63:0] inner_next_0;
  (* inner = "u_kernel_weights.gen_stream[1].next_q" *) wire [63:0] inner_next_1;
  (* inner = "u_kernel_weights.gen_stream[0].owed_q" *) wire [2:0] inner_owed_0;
  (* inner = "u_kernel_weights.gen_stream[1].owed_q" *) wire [2:0] inner_owed_1;
  (* inner = "u_kernel_weights.gen_stream[0].pending_q" *) wire [2:0] inner_pending_0;
  (* inner = "u_kernel_weights.gen_stream[1].pending_q" *) wire [2:0] inner_pending_1;
  (* inner = "u_kernel_weights.settled_q" *) wire inner_settled;

  // The runs in flight and the beats owed, observed at the ports
  logic       started_q = 1'b0;
  logic [1:0] flying_q;
  logic [3:0] owed_0_q;
  logic [3:0] owed_1_q;
  logic [3:0] asked_0_q;  // those of them that memory owes
  logic [3:0] asked_1_q;
  logic [2:0] low_q;  // clocks of the core's reset so far
  logic       core_q;
  logic [63:0] w_q;
  logic [2:0] at_0_q;  // beats of the image whose descriptors have been taken in this round
  logic [2:0] at_1_q;
  logic [2:0] idle_q;

  wire       done = m_axis_done_tvalid && m_axis_done_tready;
  wire       pass = m_axis_run_tvalid && m_axis_run_tready;
  wire [1:0] asked = m_axis_desc_tvalid & m_axis_desc_tready;
  wire [1:0] came = s_axis_w_tvalid & s_axis_w_tready;
  wire       nothing = owed_0_q == '0 && owed_1_q == '0 && m_axis_desc_tvalid == '0;
  wire [31:0] beats_0 = m_axis_desc_beats[31:0];
  wire [31:0] beats_1 = m_axis_desc_beats[63:32];
  // including those of the descriptor on offer
  wire [2:0] given_0 = at_0_q + (m_axis_desc_tvalid[0] ? 3'(beats_0) : '0);
  wire [2:0] given_1 = at_1_q + (m_axis_desc_tvalid[1] ? 3'(beats_1) : '0);
  wire [2:0] round_1 = given_1 == 3'(AGAIN) ? '0 : given_1;
  wire       settled = asked_0_q == '0 && asked_1_q == '0 && m_axis_desc_tvalid == '0;
  wire       waits = m_axis_run_tvalid || flying_q != '0 || !nothing || inner_clocks != '0;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    core_q    <= core_rst_n;
    w_q       <= inner_w;
    flying_q  <= flying_q + 2'(pass) - 2'(done);
    owed_0_q  <= owed_0_q + (asked[0] ? 4'(beats_0) : '0) - 4'(came[0]);
    owed_1_q  <= owed_1_q + (asked[1] ? 4'(beats_1) : '0) - 4'(came[1]);
    asked_0_q <= asked_0_q + (asked[0] ? 4'(beats_0) : '0) - 4'(arrived[0]);
    asked_1_q <= asked_1_q + (asked[1] ? 4'(beats_1) : '0) - 4'(arrived[1]);
    if (!inner_loaded && !m_axis_desc_tvalid[0]) at_0_q <= '0;
    else if (asked[0]) at_0_q <= given_0;
    if (!inner_loaded && !m_axis_desc_tvalid[1]) at_1_q <= '0;
    else if (asked[1]) at_1_q <= round_1;
    low_q     <= core_rst_n ? '0 : low_q + 3'(low_q != 3'd7);
    idle_q    <= rst_n && s_axis_run_tvalid && !waits ? idle_q + 1'b1 : '0;
    if (!rst_n) begin
      core_q   <= 1'b0;
      flying_q <= '0;
      owed_0_q <= '0;
      owed_1_q <= '0;
      asked_0_q <= '0;
      asked_1_q <= '0;
      low_q    <= '0;
      at_0_q   <= '0;
      at_1_q   <= '0;
    end
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      // assumptions: kernel_control allows MAX_RUNS runs in flight, including this one; only runs that have passed are done; only
      // beats that were requested arrive
      if (s_axis_run_tvalid) assume (flying_q < 2'(MAX_RUNS));
      if (s_axis_done_tvalid) assume (flying_q != '0);
      if (arrived[0]) assume (asked_0_q != '0);
      if (arrived[1]) assume (asked_1_q != '0);
      if (s_axis_w_tvalid[0]) assume (owed_0_q > asked_0_q);
      if (s_axis_w_tvalid[1]) assume (owed_1_q > asked_1_q);

      // runs
      assert (s_axis_run_tready == pass);
      if (m_axis_run_tvalid) begin
        assert (s_axis_run_tvalid && given == run[223:64]);
        assert (core_rst_n && inner_loaded && s_axis_run_w == inner_w);
      end
      // the image changes during the core's reset, between runs, with no beat in flight
      if (!core_rst_n) assert (flying_q == '0);
      if (inner_w != w_q && inner_loaded) assert (!core_rst_n && nothing);
      if (core_rst_n && !core_q) assert (owed_0_q == '0 && owed_1_q == '0 && low_q >= 3'(RESET_CLOCKS));
      // descriptors
      if (m_axis_desc_tvalid[0]) begin
        assert (m_axis_desc_address[63:0] == inner_w + 64 * 64'(at_0_q));
        assert (beats_0 == (ONCE - 32'(at_0_q) < PIECE ? ONCE - 32'(at_0_q) : PIECE));
      end
      if (m_axis_desc_tvalid[1]) begin
        assert (m_axis_desc_address[127:64] == inner_w + 64'd4096 + 64 * 64'(at_1_q));
        assert (beats_1 == (AGAIN - 32'(at_1_q) < PIECE ? AGAIN - 32'(at_1_q) : PIECE));
      end
      assert (given_0 <= 3'(ONCE) && given_1 <= 3'(AGAIN) && at_1_q < 3'(AGAIN));
      if (m_axis_desc_tvalid[0]) assert (at_0_q < 3'(ONCE));
      // memory: not read while no run is in flight
      if (flying_q == '0) assert (settled);
      if (done && flying_q == 2'd1) assert (settled);
      if (s_axis_done_tvalid && settled && inner_settled) assert (m_axis_done_tvalid);
      // beats
      if (core_rst_n) assert (m_axis_w_tvalid == s_axis_w_tvalid && s_axis_w_tready == m_axis_w_tready);
      else assert (m_axis_w_tvalid == '0 && s_axis_w_tready == 2'b11);
      assert (idle_q < 3'd4);

      // invariants of its registers
      assert (inner_flying == flying_q && flying_q <= 2'(MAX_RUNS));
      assert (4'(inner_owed_0) == owed_0_q + (m_axis_desc_tvalid[0] ? 4'(beats_0) : '0) && inner_owed_0 <= 3'(AHEAD));
      assert (4'(inner_owed_1) == owed_1_q + (m_axis_desc_tvalid[1] ? 4'(beats_1) : '0) && inner_owed_1 <= 3'(AHEAD));
      assert (owed_0_q <= 4'(AHEAD) && owed_1_q <= 4'(AHEAD) && asked_0_q <= owed_0_q && asked_1_q <= owed_1_q);
      assert (4'(inner_pending_0) == asked_0_q + (m_axis_desc_tvalid[0] ? 4'(beats_0) : '0));
      assert (4'(inner_pending_1) == asked_1_q + (m_axis_desc_tvalid[1] ? 4'(beats_1) : '0));
      if (inner_settled) assert (settled);
      assert (inner_clocks <= 2'(RESET_CLOCKS));
      if (inner_checked) begin
        assert (inner_loaded && core_rst_n && s_axis_run_tvalid);
        assert (inner_same == (s_axis_run_w == inner_w));
      end
      if (!inner_loaded) begin
        assert (flying_q == '0);
        if (inner_quiet) assert (inner_owed_0 == '0 && inner_owed_1 == '0);
        if (inner_clocks != 2'(RESET_CLOCKS)) assert (!inner_ended_0 && !core_rst_n);
        if (inner_quiet && inner_clocks == '0) assert (at_0_q == '0 && at_1_q == '0);
        if (!core_rst_n) assert (3'(inner_clocks) + low_q + 3'd1 >= 3'(RESET_CLOCKS) || low_q == 3'd7);
      end
      if (inner_loaded) begin
        assert (inner_clocks == '0);
        assert (inner_ended_0 == (given_0 == 3'(ONCE)));
        assert (inner_left_0 == (inner_ended_0 ? 3'(ONCE) : 3'(ONCE) - given_0));
        assert (inner_next_0 == inner_w + (inner_ended_0 ? '0 : 64 * 64'(given_0)));
        assert (inner_left_1 == 2'(AGAIN) - 2'(round_1));
        assert (inner_next_1 == inner_w + 64'd4096 + 64 * 64'(round_1));
        if (!core_rst_n) assert (nothing && given_0 == '0 && round_1 == '0 && flying_q == '0 && low_q >= 3'(RESET_CLOCKS));
      end
      if (core_rst_n && !core_q) assert (inner_loaded);
    end
    cover (started_q && rst_n && pass && flying_q == 2'd1);
    cover (started_q && rst_n && !core_rst_n && came == 2'b11 && s_axis_run_tvalid);
    cover (started_q && rst_n && pass && s_axis_run_w == 64'h2000 && w_q == 64'h2000 && m_axis_desc_tvalid[1] && owed_1_q == 4'd1);
  end

endmodule

`default_nettype wire
