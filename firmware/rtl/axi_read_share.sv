// SPDX-License-Identifier: Apache-2.0
//
// Lets several AXI4 read masters share one port with one ID, which answers in order.
//
//   master 0 AR --.                                        .-> master 0 R
//                 round_robin -> register -> m_axi AR      |
//   master 1 AR --'       |                  m_axi R ------'-> master 1 R
//                         '--> its master, in order -------^
//
// Bursts are passed on unchanged, at most one in two clocks, while fewer than DEPTH are in flight. A FIFO holds the master of each
// burst until its last beat has arrived. A master that does not take its beats blocks the others; axi_read_master always takes
// the beats it has requested.
`default_nettype none

module axi_read_share #(
    // masters
    parameter int N = 2,
    // bits of an address
    parameter int ADDR_WIDTH = 64,
    // bits of a beat
    parameter int DATA_WIDTH = 512,
    // bursts in flight at once, a power of two
    parameter int DEPTH = 64
) (
    input  logic clk,
    input  logic rst_n,

    input  logic [N-1:0][ADDR_WIDTH-1:0] s_axi_araddr,
    input  logic [N-1:0][           7:0] s_axi_arlen,
    input  logic [N-1:0]                 s_axi_arvalid,
    output logic [N-1:0]                 s_axi_arready,
    // one beat for all masters; rvalid selects the master
    output logic [DATA_WIDTH-1:0]        s_axi_rdata,
    output logic [           1:0]        s_axi_rresp,
    output logic                         s_axi_rlast,
    output logic [N-1:0]                 s_axi_rvalid,
    input  logic [N-1:0]                 s_axi_rready,

    output logic [ADDR_WIDTH-1:0] m_axi_araddr,
    output logic [           7:0] m_axi_arlen,
    output logic                  m_axi_arvalid,
    input  logic                  m_axi_arready,
    input  logic [DATA_WIDTH-1:0] m_axi_rdata,
    input  logic [           1:0] m_axi_rresp,
    input  logic                  m_axi_rlast,
    input  logic                  m_axi_rvalid,
    output logic                  m_axi_rready
);

  if (N < 1) begin : g_check_n
    $error("axi_read_share %m: N is %0d, expected at least 1", N);
  end

  // Address channel: a master is selected in one clock, and its address is taken in the next. So there is no combinational path
  // from memory or from the arbiter to a master.
  logic [         N-1:0] turn_q;
  logic                  ar_valid_q;
  logic [ADDR_WIDTH-1:0] ar_address_q;
  logic [           7:0] ar_len_q;
  logic [         N-1:0] grant;
  logic                  owners_ready;
  logic [ADDR_WIDTH-1:0] address;
  logic [           7:0] len;

  wire take = turn_q != '0;
  wire choose = !take && (!ar_valid_q || m_axi_arready) && owners_ready && s_axi_arvalid != '0;

  round_robin #(
      .COUNT(N)
  ) u_round_robin (
      .clk    (clk),
      .rst_n  (rst_n),
      .request(s_axi_arvalid),
      .taken  (choose),
      .grant  (grant)
  );

  always_comb begin
    address = '0;
    len     = '0;
    for (int i = 0; i < N; i++) begin
      if (turn_q[i]) begin
        address = s_axi_araddr[i];
        len     = s_axi_arlen[i];
      end
    end
  end

  always_ff @(posedge clk) begin
    if (take) begin
      ar_address_q <= address;
      ar_len_q     <= len;
    end
    turn_q     <= choose ? grant : '0;
    ar_valid_q <= take || (ar_valid_q && !m_axi_arready);
    if (!rst_n) begin
      turn_q     <= '0;
      ar_valid_q <= 1'b0;
    end
  end

  assign s_axi_arready = turn_q;
  assign m_axi_araddr  = ar_address_q;
  assign m_axi_arlen   = ar_len_q;
  assign m_axi_arvalid = ar_valid_q;

  // Data channel: the master of the oldest burst, one-hot. It is known when the first beat arrives, because memory answers an
  // address at the earliest in the clock after it took it.
  logic         owner_valid;
  logic [N-1:0] owner;

  axis_fifo #(
      .WIDTH(N),
      .DEPTH(DEPTH)
  ) u_axis_fifo (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(take),
      .s_axis_tready(owners_ready),
      .s_axis_tdata (turn_q),
      .m_axis_tvalid(owner_valid),
      .m_axis_tready(m_axi_rvalid && m_axi_rready && m_axi_rlast),
      .m_axis_tdata (owner)
  );

  assign s_axi_rdata  = m_axi_rdata;
  assign s_axi_rresp  = m_axi_rresp;
  assign s_axi_rlast  = m_axi_rlast;
  assign s_axi_rvalid = owner & {N{owner_valid && m_axi_rvalid}};
  assign m_axi_rready = owner_valid && (owner & s_axi_rready) != '0;

endmodule

`default_nettype wire
