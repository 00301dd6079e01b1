// SPDX-License-Identifier: Apache-2.0
//
// The least there is to synthesise: what check_part.tcl asks a Vivado for its device and licence with.
module check_part (
    input  wire clk,
    input  wire d,
    output reg  q
);
  always @(posedge clk) q <= d;
endmodule
