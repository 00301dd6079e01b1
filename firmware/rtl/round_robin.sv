// SPDX-License-Identifier: Apache-2.0
//
// A round-robin arbiter: grants the first request after the one that was served last. `grant` is one-hot and depends on `request`
// combinationally; `taken` means that the grant is served in this clock.
//
//   request  1011  1011  1011  0001
//   grant    0001  0010  1000  0001      (each taken)
`default_nettype none

module round_robin #(
    // number of requesters
    parameter int COUNT = 2
) (
    input  logic             clk,
    input  logic             rst_n,
    input  logic [COUNT-1:0] request,
    input  logic             taken,
    output logic [COUNT-1:0] grant
);

  if (COUNT < 1) begin : g_check_count
    $error("round_robin %m: COUNT is %0d, expected 1 or more", COUNT);
  end

  logic [COUNT-1:0] behind_q;  // ones above the requester served last

  wire [COUNT-1:0] first = request & behind_q;
  wire [COUNT-1:0] from = first != '0 ? first : request;

  assign grant = from & (~from + 1'b1);  // the lowest one

  always_ff @(posedge clk) begin
    if (taken) behind_q <= ~(grant | (grant - 1'b1));
    if (!rst_n) behind_q <= '0;
  end

endmodule

`default_nettype wire
