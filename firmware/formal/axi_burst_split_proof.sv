// SPDX-License-Identifier: Apache-2.0
//
// axi_burst_split: no burst crosses 4 KiB or is longer than allowed; the bursts of a descriptor are contiguous, have exactly its
// beats, and only the last is marked last. Bursts and beats have their full size; addresses have 16 bits and counts 10, on which
// the structure does not depend.
`default_nettype none

module axi_burst_split_proof (
    input logic        clk,
    input logic        rst_n,
    input logic        s_axis_desc_tvalid,
    input logic [15:0] s_axis_desc_address,
    input logic [ 9:0] s_axis_desc_beats,
    input logic        s_axis_desc_user,
    input logic        m_axis_burst_tready
);

  localparam int BEAT_BYTES = 64;
  localparam int MAX_BURST_BEATS = 64;

  logic        s_axis_desc_tready;
  logic        m_axis_burst_tvalid;
  logic [15:0] m_axis_burst_address;
  logic [ 6:0] m_axis_burst_beats;
  logic        m_axis_burst_last;
  logic        m_axis_burst_user;

  axi_burst_split #(
      .ADDR_WIDTH     (16),
      .BEAT_BYTES     (BEAT_BYTES),
      .MAX_BURST_BEATS(MAX_BURST_BEATS),
      .COUNT_WIDTH    (10),
      .USER_WIDTH     (1)
  ) u_axi_burst_split (.*);

  wire [24:0] burst = {m_axis_burst_address, m_axis_burst_beats, m_axis_burst_last, m_axis_burst_user};
  stream_rules #(.WIDTH(25)) u_out (.clk, .rst_n, .tvalid(m_axis_burst_tvalid), .tready(m_axis_burst_tready), .tdata(burst));

  // The current descriptor, observed at the ports: the beats that its bursts must still cover.
  logic        started_q = 1'b0;
  logic [ 9:0] next_beat_q;  // address of the current descriptor's next burst, in beats
  logic [ 9:0] left_q;
  logic        user_q;
  logic        open_q;  // there is a current descriptor
  logic        waiting_q;  // another has been taken after it
  logic [ 9:0] waiting_beat_q;
  logic [ 9:0] waiting_left_q;
  logic        waiting_user_q;

  wire take = s_axis_desc_tvalid && s_axis_desc_tready;
  wire give = m_axis_burst_tvalid && m_axis_burst_tready;
  wire finish = give && m_axis_burst_last;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (give) begin
      next_beat_q <= next_beat_q + 10'(m_axis_burst_beats);
      left_q      <= left_q - 10'(m_axis_burst_beats);
    end
    if (finish) open_q <= 1'b0;
    if (finish && waiting_q) begin
      open_q      <= 1'b1;
      waiting_q   <= 1'b0;
      next_beat_q <= waiting_beat_q;
      left_q      <= waiting_left_q;
      user_q      <= waiting_user_q;
    end
    if (take) begin
      if (!open_q || (finish && !waiting_q)) begin
        open_q      <= 1'b1;
        next_beat_q <= s_axis_desc_address[15:6];
        left_q      <= s_axis_desc_beats;
        user_q      <= s_axis_desc_user;
      end else begin
        waiting_q      <= 1'b1;
        waiting_beat_q <= s_axis_desc_address[15:6];
        waiting_left_q <= s_axis_desc_beats;
        waiting_user_q <= s_axis_desc_user;
      end
    end
    if (!rst_n) begin
      open_q    <= 1'b0;
      waiting_q <= 1'b0;
    end
  end

  (* inner = "u_axi_burst_split.busy_q" *) wire inner_work;
  (* inner = "u_axi_burst_split.left_q" *) wire [9:0] inner_left;
  (* inner = "u_axi_burst_split.beat_q" *) wire [9:0] inner_beat;
  (* inner = "u_axi_burst_split.user_q" *) wire inner_user;

  // Invariant for the induction: the splitter's registers have exactly the beats that are still due.
  wire        inside_burst = m_axis_burst_tvalid;
  wire        same = inside_burst && !m_axis_burst_last;  // burst and work belong to one descriptor
  wire [ 9:0] due = left_q - (inside_burst ? 10'(m_axis_burst_beats) : 10'd0);
  wire [ 9:0] then_beat = next_beat_q + (inside_burst ? 10'(m_axis_burst_beats) : 10'd0);

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      if (m_axis_burst_tvalid) begin
        assert (13'({1'b0, m_axis_burst_address[11:0]}) + 13'({m_axis_burst_beats, 6'd0}) <= 13'd4096);
        assert (m_axis_burst_beats <= 7'(MAX_BURST_BEATS));
        assert (open_q);
        assert (m_axis_burst_address == {next_beat_q, 6'd0});
        assert (m_axis_burst_user == user_q);
        assert (10'(m_axis_burst_beats) <= left_q);
        assert (m_axis_burst_last == (10'(m_axis_burst_beats) == left_q));
        assert (m_axis_burst_beats != '0 || left_q == '0);
      end
      assert (!waiting_q || open_q);
      assert (open_q == (inside_burst || inner_work));
      assert (waiting_q == (inside_burst && m_axis_burst_last && inner_work));
      if (same) assert (inner_work);
      if (inner_work && !waiting_q) begin
        assert (inner_left == due);
        assert (inner_beat == then_beat);
        assert (inner_user == user_q);
        if (inside_burst) assert (due != '0);
      end
      if (waiting_q) begin
        assert (inner_left == waiting_left_q);
        assert (inner_beat == waiting_beat_q);
        assert (inner_user == waiting_user_q);
      end
    end
    cover (started_q && rst_n && give && m_axis_burst_last && waiting_q && m_axis_burst_beats == 7'd64);
  end

endmodule

`default_nettype wire
