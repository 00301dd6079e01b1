// SPDX-License-Identifier: Apache-2.0
//
// The kernel's AXI4-Lite slave: block control by ap_ctrl_chain, arguments and status (registers.svh, docs/registers.md).
//
// A run is accepted when ap_start is set, the last one has been handed on, and fewer than MAX_RUNS are in flight or
// unacknowledged. In that clock x, y, rows and w are latched and ap_start falls, so the host may write the next run's arguments
// during this run. Runs are done in order; ap_done stays set until the host has written ap_continue once for every run that is
// done.
//
//   ap_start    __/‾‾\____/‾‾\________________        (host writes 1; accepted)
//   run         ______A________B______________        (x, y, rows)
//   done        _____________________A___B____
//   ap_done     ______________________/‾‾‾‾‾‾‾‾‾‾\__  (falls with the second ap_continue)
//
// The interrupt follows ISR while GIE is set. Writing 1 toggles a bit of ISR. The done bit is set again as long as ap_done is
// set, so no done run is lost: acknowledge first and then clear ISR, as XRT does.
`ifndef REGISTERS_SVH  // not needed by compilers that read it as a source of its own, which need no include path
`include "registers.svh"
`endif
`default_nettype none

module kernel_control #(
    // bytes of an input row and of an output row, for the host to check
    parameter int ROW_IN_BYTES = 72,
    parameter int ROW_OUT_BYTES = 4,
    // beats of the weights in memory, for the host to check; 0: none, and no register for their address
    parameter int WEIGHTS_BEATS = 0,
    // runs accepted and not yet acknowledged, a power of two
    parameter int MAX_RUNS = 8
) (
    input  logic clk,
    input  logic rst_n,

    input  logic [11:0] s_axi_control_awaddr,
    input  logic        s_axi_control_awvalid,
    output logic        s_axi_control_awready,
    input  logic [31:0] s_axi_control_wdata,
    input  logic [ 3:0] s_axi_control_wstrb,
    input  logic        s_axi_control_wvalid,
    output logic        s_axi_control_wready,
    output logic [ 1:0] s_axi_control_bresp,
    output logic        s_axi_control_bvalid,
    input  logic        s_axi_control_bready,
    input  logic [11:0] s_axi_control_araddr,
    input  logic        s_axi_control_arvalid,
    output logic        s_axi_control_arready,
    output logic [31:0] s_axi_control_rdata,
    output logic [ 1:0] s_axi_control_rresp,
    output logic        s_axi_control_rvalid,
    input  logic        s_axi_control_rready,
    output logic        irq,

    output logic        m_axis_run_tvalid,
    input  logic        m_axis_run_tready,
    output logic [63:0] m_axis_run_x,
    output logic [63:0] m_axis_run_y,
    output logic [31:0] m_axis_run_rows,
    output logic [63:0] m_axis_run_w,

    input  logic        s_axis_done_tvalid,
    output logic        s_axis_done_tready,

    // the status registers count the clocks in which these are high; the errors are levels
    input  logic        read_error,
    input  logic        write_error,
    input  logic        starved,
    input  logic        blocked,
    // the handshake of the core's results, and whether an address or a beat waits for memory
    input  logic        results_valid,
    input  logic        results_ready,
    input  logic        read_address_waits,
    input  logic        write_address_waits,
    input  logic        write_data_waits
);

  if (MAX_RUNS < 2 || (MAX_RUNS & (MAX_RUNS - 1)) != 0) begin : g_check_max_runs
    $error("kernel_control %m: MAX_RUNS is %0d, expected a power of two from 2", MAX_RUNS);
  end

  if (registers::W_HIGH > 10'd15) begin : g_check_written  // the last one that is written
    $error("kernel_control %m: W_HIGH is word %0d, expected 0 to 15", registers::W_HIGH);
  end
  if (registers::WEIGHTS_BEATS > 10'd31) begin : g_check_registers  // the last one
    $error("kernel_control %m: WEIGHTS_BEATS is word %0d, expected 0 to 31", registers::WEIGHTS_BEATS);
  end

  localparam int RUN_BITS = $clog2(MAX_RUNS) + 1;

  // Nothing is taken during the reset, which may end some clocks after the host's (AXI4, A3.1.2)
  logic open_q;
  always_ff @(posedge clk) open_q <= rst_n;

  // Write channel: address and data arrive in any order and are held until both are there. The address is held decoded: one bit for
  // each of the words 0 to 15, the only ones that are written.
  logic        aw_valid_q;
  logic [15:0] aw_word_q;
  logic        w_valid_q;
  logic [31:0] w_data_q;
  logic [ 3:0] w_strb_q;
  logic        b_valid_q;

  wire         write = aw_valid_q && w_valid_q && !b_valid_q;
  wire  [15:0] write_word = aw_word_q & {16{write}};
  wire  [31:0] write_mask = {{8{w_strb_q[3]}}, {8{w_strb_q[2]}}, {8{w_strb_q[1]}}, {8{w_strb_q[0]}}};
  wire  [31:0] write_ones = w_data_q & write_mask;

  always_ff @(posedge clk) begin
    if (s_axi_control_awvalid && s_axi_control_awready) begin
      aw_valid_q <= 1'b1;
      aw_word_q  <= s_axi_control_awaddr[11:6] == '0 ? 16'd1 << s_axi_control_awaddr[5:2] : '0;
    end else if (write) aw_valid_q <= 1'b0;
    if (s_axi_control_wvalid && s_axi_control_wready) begin
      w_valid_q <= 1'b1;
      w_data_q  <= s_axi_control_wdata;
      w_strb_q  <= s_axi_control_wstrb;
    end else if (write) w_valid_q <= 1'b0;
    if (write) b_valid_q <= 1'b1;
    else if (s_axi_control_bready) b_valid_q <= 1'b0;
    if (!rst_n) begin
      aw_valid_q <= 1'b0;
      w_valid_q  <= 1'b0;
      b_valid_q  <= 1'b0;
    end
  end

  assign s_axi_control_awready = open_q && !aw_valid_q;
  assign s_axi_control_wready  = open_q && !w_valid_q;
  assign s_axi_control_bvalid  = b_valid_q;
  assign s_axi_control_bresp   = 2'b00;

  // Runs: accepted, in flight, done and not yet acknowledged
  logic                start_q;
  logic                run_valid_q;
  logic [RUN_BITS-1:0] flying_q;
  logic [RUN_BITS-1:0] done_q;

  wire write_control = write_word[4'(registers::CONTROL)];
  wire acknowledge = write_control && write_ones[4] && done_q != '0;
  logic room_q;  // for another run, as was known in the clock before
  wire accept = start_q && room_q && !run_valid_q;
  wire done = s_axis_done_tvalid;  // always taken: done_q can count every run in flight

  // Arguments
  logic [63:0] x_q;
  logic [63:0] y_q;
  logic [31:0] rows_q;
  logic [63:0] w_q;

  always_ff @(posedge clk) begin
    if (accept) begin
      m_axis_run_x    <= x_q;
      m_axis_run_y    <= y_q;
      m_axis_run_rows <= rows_q;
    end
    run_valid_q <= run_valid_q ? !m_axis_run_tready : accept;
    if (write_control && write_ones[0]) start_q <= 1'b1;
    else if (accept) start_q <= 1'b0;
    room_q   <= !accept && flying_q + done_q < RUN_BITS'(MAX_RUNS);
    flying_q <= flying_q + RUN_BITS'(accept) - RUN_BITS'(done);
    done_q   <= done_q + RUN_BITS'(done) - RUN_BITS'(acknowledge);
    if (!rst_n) begin
      run_valid_q <= 1'b0;
      start_q     <= 1'b0;
      room_q      <= 1'b0;
      flying_q    <= '0;
      done_q      <= '0;
    end
  end

  always_comb if (rst_n && room_q) assert (flying_q + done_q < RUN_BITS'(MAX_RUNS));

  assign m_axis_run_tvalid  = run_valid_q;
  assign s_axis_done_tready = 1'b1;

  always_ff @(posedge clk) begin
    if (write_word[4'(registers::X_LOW)]) x_q[31:0] <= (x_q[31:0] & ~write_mask) | write_ones;
    if (write_word[4'(registers::X_HIGH)]) x_q[63:32] <= (x_q[63:32] & ~write_mask) | write_ones;
    if (write_word[4'(registers::Y_LOW)]) y_q[31:0] <= (y_q[31:0] & ~write_mask) | write_ones;
    if (write_word[4'(registers::Y_HIGH)]) y_q[63:32] <= (y_q[63:32] & ~write_mask) | write_ones;
    if (write_word[4'(registers::ROWS)]) rows_q <= (rows_q & ~write_mask) | write_ones;
    if (!rst_n) begin  // because the host may read them before it has written them
      x_q    <= '0;
      y_q    <= '0;
      rows_q <= '0;
    end
  end

  if (WEIGHTS_BEATS != 0) begin : gen_weights
    always_ff @(posedge clk) begin
      if (accept) m_axis_run_w <= w_q;
      if (write_word[4'(registers::W_LOW)]) w_q[31:0] <= (w_q[31:0] & ~write_mask) | write_ones;
      if (write_word[4'(registers::W_HIGH)]) w_q[63:32] <= (w_q[63:32] & ~write_mask) | write_ones;
      if (!rst_n) w_q <= '0;
    end
  end else begin : gen_no_weights
    assign m_axis_run_w = '0;
    assign w_q          = '0;
  end

  // Interrupts
  logic       gie_q;
  logic [1:0] ier_q;
  logic [1:0] isr_q;

  wire  [1:0] isr_set = ier_q & {accept, done_q != '0};
  wire  [1:0] isr_toggle = write_word[4'(registers::ISR)] ? write_ones[1:0] : 2'b00;

  always_ff @(posedge clk) begin
    if (write_word[4'(registers::GIE)] && w_strb_q[0]) gie_q <= w_data_q[0];
    if (write_word[4'(registers::IER)] && w_strb_q[0]) ier_q <= w_data_q[1:0];
    isr_q     <= (isr_q ^ isr_toggle) | isr_set;
    irq <= gie_q && isr_q != '0;
    if (!rst_n) begin
      gie_q     <= 1'b0;
      ier_q     <= '0;
      isr_q     <= '0;
      irq <= 1'b0;
    end
  end

  // Status
  logic [63:0] busy_cycles_q;
  logic [31:0] busy_high_q;  // latched when the low word is read
  logic [31:0] cycle_q;
  logic [31:0] runs_q;
  logic [31:0] run_cycles_q;
  logic [31:0] starved_q;
  logic [31:0] blocked_q;
  logic [31:0] read_address_q;
  logic [31:0] write_address_q;
  logic [31:0] write_data_q;
  logic [31:0] core_q;
  logic        waiting_q;  // results wait for the write side
  logic [ 3:0] waited_q;  // whether each of the last results taken had to wait: if one did, the core does not limit the rows
  logic [ 5:0] stalls_q;  // a clock late, so that memory's ready signals do not drive the counters directly
  logic [31:0] accepted_cycle;
  logic        accepted_ready;
  logic        accepted_valid;

  axis_fifo #(
      .WIDTH(32),
      .DEPTH(MAX_RUNS)
  ) u_axis_fifo_accepted (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(accept),
      .s_axis_tready(accepted_ready),  // never low, because at most MAX_RUNS runs are in flight
      .s_axis_tdata (cycle_q),
      .m_axis_tvalid(accepted_valid),  // never low when a run is done, because a run takes longer than the FIFO's latency
      .m_axis_tready(done),
      .m_axis_tdata (accepted_cycle)
  );

  always_ff @(posedge clk) begin
    cycle_q <= cycle_q + 1'b1;
    if (flying_q != '0) busy_cycles_q <= busy_cycles_q + 1'b1;
    if (done) runs_q <= runs_q + 1'b1;
    if (done) run_cycles_q <= cycle_q - accepted_cycle;
    waiting_q <= results_valid && !results_ready;
    if (results_valid) waited_q <= {waited_q[2:0], !results_ready || waiting_q};
    stalls_q <= {
      blocked && waited_q == '0, write_data_waits, write_address_waits, read_address_waits, blocked, starved
    };
    if (stalls_q[0]) starved_q <= starved_q + 1'b1;
    if (stalls_q[1]) blocked_q <= blocked_q + 1'b1;
    if (stalls_q[2]) read_address_q <= read_address_q + 1'b1;
    if (stalls_q[3]) write_address_q <= write_address_q + 1'b1;
    if (stalls_q[4]) write_data_q <= write_data_q + 1'b1;
    if (stalls_q[5]) core_q <= core_q + 1'b1;
    if (!rst_n) begin
      cycle_q         <= '0;
      busy_cycles_q   <= '0;
      runs_q          <= '0;
      run_cycles_q    <= '0;
      waiting_q       <= 1'b0;
      waited_q        <= '0;
      stalls_q        <= '0;
      starved_q       <= '0;
      blocked_q       <= '0;
      read_address_q  <= '0;
      write_address_q <= '0;
      write_data_q    <= '0;
      core_q          <= '0;
    end
  end

  // Read channel: an address is taken, and answered in the clock after
  logic              ar_valid_q;
  logic [       9:0] ar_word_q;
  logic              r_valid_q;
  logic              ready_q;
  logic [31:0][31:0] values;  // of words 0 to 31; all others read 0

  wire         read = ar_valid_q && !r_valid_q;
  wire         idle = !start_q && flying_q == '0;

  always_comb begin
    values = '0;
    values[5'(registers::CONTROL)]              = {28'd0, ready_q, idle, done_q != '0, start_q};
    values[5'(registers::GIE)]                  = {31'd0, gie_q};
    values[5'(registers::IER)]                  = {30'd0, ier_q};
    values[5'(registers::ISR)]                  = {30'd0, isr_q};
    values[5'(registers::X_LOW)]                = x_q[31:0];
    values[5'(registers::X_HIGH)]               = x_q[63:32];
    values[5'(registers::Y_LOW)]                = y_q[31:0];
    values[5'(registers::Y_HIGH)]               = y_q[63:32];
    values[5'(registers::ROWS)]                 = rows_q;
    values[5'(registers::W_LOW)]                = w_q[31:0];
    values[5'(registers::W_HIGH)]               = w_q[63:32];
    values[5'(registers::BUSY_CYCLES_LOW)]      = busy_cycles_q[31:0];
    values[5'(registers::BUSY_CYCLES_HIGH)]     = busy_high_q;
    values[5'(registers::RUNS)]                 = runs_q;
    values[5'(registers::RUN_CYCLES)]           = run_cycles_q;
    values[5'(registers::AXI_ERROR)]            = {30'd0, write_error, read_error};
    values[5'(registers::VERSION)]              = registers::MAP_VERSION;
    values[5'(registers::ROW_IN_BYTES)]         = 32'(ROW_IN_BYTES);
    values[5'(registers::ROW_OUT_BYTES)]        = 32'(ROW_OUT_BYTES);
    values[5'(registers::STARVED_CYCLES)]       = starved_q;
    values[5'(registers::BLOCKED_CYCLES)]       = blocked_q;
    values[5'(registers::READ_ADDRESS_CYCLES)]  = read_address_q;
    values[5'(registers::WRITE_ADDRESS_CYCLES)] = write_address_q;
    values[5'(registers::WRITE_DATA_CYCLES)]    = write_data_q;
    values[5'(registers::CORE_CYCLES)]          = core_q;
    values[5'(registers::WEIGHTS_BEATS)]        = 32'(WEIGHTS_BEATS);
  end

  always_ff @(posedge clk) begin
    if (s_axi_control_arready) ar_word_q <= s_axi_control_araddr[11:2];
    if (read) s_axi_control_rdata <= ar_word_q[9:5] == '0 ? values[ar_word_q[4:0]] : '0;
    if (read && ar_word_q == registers::BUSY_CYCLES_LOW) busy_high_q <= busy_cycles_q[63:32];
    ar_valid_q <= s_axi_control_arready ? s_axi_control_arvalid : ar_valid_q && !read;
    if (read) r_valid_q <= 1'b1;
    else if (s_axi_control_rready) r_valid_q <= 1'b0;
    if (accept) ready_q <= 1'b1;
    else if (read && ar_word_q == registers::CONTROL) ready_q <= 1'b0;
    if (!rst_n) begin
      ar_valid_q  <= 1'b0;
      r_valid_q   <= 1'b0;
      ready_q     <= 1'b0;
      busy_high_q <= '0;
    end
  end

  assign s_axi_control_arready = open_q && !ar_valid_q && !r_valid_q;
  assign s_axi_control_rvalid  = r_valid_q;
  assign s_axi_control_rresp   = 2'b00;

  wire unused = &{1'b0, s_axi_control_awaddr[1:0], write_word, s_axi_control_araddr[1:0], accepted_ready, accepted_valid};

endmodule

`default_nettype wire
