// SPDX-License-Identifier: Apache-2.0
//
// A minimal design that check_part.tcl synthesises to find out whether Vivado has the device and a licence for it.
module check_part (
    input  wire clk,
    input  wire d,
    output reg  q
);
  always @(posedge clk) q <= d;
endmodule
