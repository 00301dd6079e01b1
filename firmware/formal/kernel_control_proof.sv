// SPDX-License-Identifier: Apache-2.0
//
// kernel_control obeys the rules of AXI4-Lite, and those of ap_ctrl_chain: one run for each ap_start, with the x, y, rows and w of
// that clock; never more than MAX_RUNS runs in flight or unacknowledged; ap_done stays set until ap_continue has been written once
// for every run that is done; a run that is done raises the interrupt.
//
// The model observes the host's writes at the ports. A write takes effect in the clock before the first of its response, so the
// model is one clock late (a `_q` in one clock is the module's register in the clock before).
`default_nettype none

module kernel_control_proof (
    input logic        clk,
    input logic        rst_n,
    input logic [11:0] s_axi_control_awaddr,
    input logic        s_axi_control_awvalid,
    input logic [31:0] s_axi_control_wdata,
    input logic [ 3:0] s_axi_control_wstrb,
    input logic        s_axi_control_wvalid,
    input logic        s_axi_control_bready,
    input logic [11:0] s_axi_control_araddr,
    input logic        s_axi_control_arvalid,
    input logic        s_axi_control_rready,
    input logic        m_axis_run_tready,
    input logic        s_axis_done_tvalid,
    input logic        read_error,
    input logic        write_error,
    input logic        starved,
    input logic        blocked,
    input logic        results_valid,
    input logic        results_ready,
    input logic        read_address_waits,
    input logic        write_address_waits,
    input logic        write_data_waits
);

  localparam int MAX_RUNS = 2;

  logic        s_axi_control_awready;
  logic        s_axi_control_wready;
  logic [ 1:0] s_axi_control_bresp;
  logic        s_axi_control_bvalid;
  logic        s_axi_control_arready;
  logic [31:0] s_axi_control_rdata;
  logic [ 1:0] s_axi_control_rresp;
  logic        s_axi_control_rvalid;
  logic        irq;
  logic        m_axis_run_tvalid;
  logic [63:0] m_axis_run_x;
  logic [63:0] m_axis_run_y;
  logic [31:0] m_axis_run_rows;
  logic [63:0] m_axis_run_w;
  logic        s_axis_done_tready;

  kernel_control #(
      .ROW_IN_BYTES (72),
      .ROW_OUT_BYTES(4),
      .WEIGHTS_BEATS(1),
      .MAX_RUNS     (MAX_RUNS)
  ) u_kernel_control (.*);

  wire [2:0] addresses;
  wire [2:0] words;
  wire [2:0] reads;
  axi_lite_rules u_lite (
      .*,
      .awaddr (s_axi_control_awaddr),
      .awvalid(s_axi_control_awvalid),
      .wdata  (s_axi_control_wdata),
      .wstrb  (s_axi_control_wstrb),
      .wvalid (s_axi_control_wvalid),
      .bready (s_axi_control_bready),
      .araddr (s_axi_control_araddr),
      .arvalid(s_axi_control_arvalid),
      .rready (s_axi_control_rready),
      .awready(s_axi_control_awready),
      .wready (s_axi_control_wready),
      .bresp  (s_axi_control_bresp),
      .bvalid (s_axi_control_bvalid),
      .arready(s_axi_control_arready),
      .rdata  (s_axi_control_rdata),
      .rresp  (s_axi_control_rresp),
      .rvalid (s_axi_control_rvalid)
  );

  wire [223:0] run = {m_axis_run_x, m_axis_run_y, m_axis_run_rows, m_axis_run_w};
  stream_rules #(.WIDTH(224)) u_run (.clk, .rst_n, .tvalid(m_axis_run_tvalid), .tready(m_axis_run_tready), .tdata(run));

  (* inner = "u_kernel_control.ar_valid_q" *) wire inner_ar_valid;
  (* inner = "u_kernel_control.ar_word_q" *) wire [9:0] inner_ar_word;
  (* inner = "u_kernel_control.aw_valid_q" *) wire inner_aw_valid;
  (* inner = "u_kernel_control.w_valid_q" *) wire inner_w_valid;
  (* inner = "u_kernel_control.aw_word_q" *) wire [15:0] inner_aw_word;
  (* inner = "u_kernel_control.w_data_q" *) wire [31:0] inner_w_data;
  (* inner = "u_kernel_control.w_strb_q" *) wire [3:0] inner_w_strb;
  (* inner = "u_kernel_control.start_q" *) wire inner_start;
  (* inner = "u_kernel_control.flying_q" *) wire [1:0] inner_flying;
  (* inner = "u_kernel_control.done_q" *) wire [1:0] inner_done;
  (* inner = "u_kernel_control.x_q" *) wire [63:0] inner_x;
  (* inner = "u_kernel_control.y_q" *) wire [63:0] inner_y;
  (* inner = "u_kernel_control.rows_q" *) wire [31:0] inner_rows;
  (* inner = "u_kernel_control.w_q" *) wire [63:0] inner_w;
  (* inner = "u_kernel_control.gie_q" *) wire inner_gie;
  (* inner = "u_kernel_control.ier_q" *) wire [1:0] inner_ier;

  // The write that took effect in the last clock
  logic        started_q = 1'b0;
  logic        fresh_q;  // the last clock was not in reset
  logic        b_valid_q;
  logic        run_stood_q;
  logic        done_q;
  logic [11:0] address_q;
  logic [31:0] data_q;
  logic [ 3:0] strobe_q;
  wire         wrote = s_axi_control_bvalid && !b_valid_q;
  wire  [31:0] mask = {{8{strobe_q[3]}}, {8{strobe_q[2]}}, {8{strobe_q[1]}}, {8{strobe_q[0]}}};
  wire  [ 9:0] word = address_q[11:2];
  wire         wrote_control = wrote && word == 10'h000;
  wire         started = wrote_control && data_q[0] && strobe_q[0];
  wire         continued = wrote_control && data_q[4] && strobe_q[0];
  wire         accepted = m_axis_run_tvalid && !run_stood_q;  // a run is on offer that was not in the last clock

  // The model, one clock late
  logic        start_q;
  logic [63:0] x_q;
  logic [63:0] y_q;
  logic [31:0] rows_q;
  logic [63:0] w_q;
  logic [ 2:0] flying_q;  // runs accepted and not done
  logic [ 2:0] waiting_q;  // runs done and not acknowledged
  logic [ 2:0] handed_q;  // runs passed on and not done, without the delay
  wire         acknowledged = continued && waiting_q != '0;
  wire  [ 2:0] flying = flying_q + 3'(accepted) - 3'(done_q);
  wire  [ 2:0] waiting = waiting_q + 3'(done_q) - 3'(acknowledged);

  function automatic logic [31:0] merged(input logic [31:0] old);
    merged = (old & ~mask) | (data_q & mask);
  endfunction

  wire [31:0] x_low = wrote && word == 10'h004 ? merged(x_q[31:0]) : x_q[31:0];
  wire [31:0] x_high = wrote && word == 10'h005 ? merged(x_q[63:32]) : x_q[63:32];
  wire [31:0] y_low = wrote && word == 10'h007 ? merged(y_q[31:0]) : y_q[31:0];
  wire [31:0] y_high = wrote && word == 10'h008 ? merged(y_q[63:32]) : y_q[63:32];
  wire [31:0] rows = wrote && word == 10'h00a ? merged(rows_q) : rows_q;
  wire [31:0] w_low = wrote && word == 10'h00c ? merged(w_q[31:0]) : w_q[31:0];
  wire [31:0] w_high = wrote && word == 10'h00d ? merged(w_q[63:32]) : w_q[63:32];
  wire        start = started || (start_q && !accepted);

  always_ff @(posedge clk) begin
    started_q   <= 1'b1;
    fresh_q     <= rst_n;
    b_valid_q   <= s_axi_control_bvalid && !s_axi_control_bready;  // a response after one that was taken is a new one
    run_stood_q <= m_axis_run_tvalid && !m_axis_run_tready;
    done_q      <= s_axis_done_tvalid;
    if (s_axi_control_awvalid && s_axi_control_awready) address_q <= s_axi_control_awaddr;
    if (s_axi_control_wvalid && s_axi_control_wready) {data_q, strobe_q} <= {s_axi_control_wdata, s_axi_control_wstrb};
    start_q     <= start;
    x_q         <= {x_high, x_low};
    y_q         <= {y_high, y_low};
    rows_q      <= rows;
    w_q         <= {w_high, w_low};
    flying_q    <= flying;
    waiting_q   <= waiting;
    handed_q    <= handed_q + 3'(m_axis_run_tvalid && m_axis_run_tready) - 3'(s_axis_done_tvalid);
    if (!rst_n) begin
      b_valid_q   <= 1'b0;
      run_stood_q <= 1'b0;
      done_q      <= 1'b0;
      start_q     <= 1'b0;
      x_q         <= '0;
      y_q         <= '0;
      rows_q      <= '0;
      w_q         <= '0;
      flying_q    <= '0;
      waiting_q   <= '0;
      handed_q    <= '0;
    end
  end

  // A read: the status in the clock after its address was taken
  logic        taken_q;
  logic        read_q;
  logic [ 9:0] taken_word_q;
  logic [ 9:0] read_word_q;
  always_ff @(posedge clk) begin
    taken_q      <= rst_n && s_axi_control_arvalid && s_axi_control_arready;
    taken_word_q <= s_axi_control_araddr[11:2];
    read_q       <= rst_n && taken_q;
    read_word_q  <= taken_word_q;
  end

  // Interrupt: with its enables set and a run done and waiting, it rises within two clocks
  logic [1:0] silent_q;
  always_ff @(posedge clk) begin
    silent_q <= (rst_n && inner_gie && inner_ier[0] && inner_done != '0 && !irq) ? silent_q + 1'b1 : '0;
  end

  always_comb begin
    if (!started_q) assume (!rst_n);
    if (started_q && rst_n) begin
      // the shell completes only runs that it has been given
      assume (!s_axis_done_tvalid || handed_q != '0);
      assert (s_axis_done_tready);
      // one run for each start, with the arguments of that clock
      if (accepted) begin
        assert (start_q);
        assert (m_axis_run_x == x_q && m_axis_run_y == y_q && m_axis_run_rows == rows_q && m_axis_run_w == w_q);
      end
      assert (4'(flying) + 4'(waiting) <= 4'(MAX_RUNS) && handed_q <= 3'(MAX_RUNS));
      if (read_q && read_word_q == 10'h000) begin
        assert (s_axi_control_rdata[0] == start_q);
        assert (s_axi_control_rdata[1] == (waiting_q != '0));
        assert (s_axi_control_rdata[2] == (!start_q && flying_q == '0));
      end
      if (read_q && read_word_q == 10'h00a) assert (s_axi_control_rdata == rows_q);
      if (read_q && read_word_q == 10'h007) assert (s_axi_control_rdata == y_q[31:0]);
      assert (silent_q < 2'd2 || (silent_q == 2'd2 && irq));
      // the module's state equals that of the model
      assert (inner_start == start);
      assert (inner_x == {x_high, x_low} && inner_y == {y_high, y_low} && inner_rows == rows && inner_w == {w_high, w_low});
      assert (3'(inner_flying) == flying);
      assert (3'(inner_done) == waiting);
      assert (flying == handed_q + 3'(m_axis_run_tvalid));
      assert (addresses == 3'(inner_aw_valid) + 3'(s_axi_control_bvalid));
      assert (words == 3'(inner_w_valid) + 3'(s_axi_control_bvalid));
      assert (reads == 3'(s_axi_control_rvalid) + 3'(inner_ar_valid) && inner_ar_valid == taken_q);
      if (taken_q) assert (inner_ar_word == taken_word_q);
      if (inner_aw_valid) assert (inner_aw_word == (address_q[11:6] == '0 ? 16'd1 << address_q[5:2] : 16'd0));
      if (inner_w_valid) assert (inner_w_data == data_q && inner_w_strb == strobe_q);
      if (b_valid_q) assert (s_axi_control_bvalid);
      if (run_stood_q) assert (m_axis_run_tvalid);
    end
    cover (started_q && rst_n && accepted && m_axis_run_y == 64'h1000 && m_axis_run_rows == 32'd3);
    cover (started_q && rst_n && waiting == 3'(MAX_RUNS));
    cover (started_q && rst_n && acknowledged && irq);
  end

endmodule

`default_nettype wire
