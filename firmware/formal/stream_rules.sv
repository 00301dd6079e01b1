// SPDX-License-Identifier: Apache-2.0
//
// The rules of a valid/ready stream, for proofs: valid and its payload stay until ready (AXI4-Stream, 2.2.1). With ASSUME set,
// they are assumed of the environment; otherwise they are asserted of the design.
`default_nettype none

module stream_rules #(
    // bits of the payload
    parameter int WIDTH = 8,
    parameter bit ASSUME = 1'b0
) (
    input logic             clk,
    input logic             rst_n,
    input logic             tvalid,
    input logic             tready,
    input logic [WIDTH-1:0] tdata
);

  logic             standing_q = 1'b0;
  logic [WIDTH-1:0] data_q;

  always_ff @(posedge clk) begin
    standing_q <= rst_n && tvalid && !tready;
    data_q     <= tdata;
  end

  if (ASSUME) begin : gen_assume
    always_comb if (standing_q && rst_n) assume (tvalid && tdata == data_q);
  end else begin : gen_assert
    always_comb if (standing_q && rst_n) assert (tvalid && tdata == data_q);
  end

endmodule

`default_nettype wire
