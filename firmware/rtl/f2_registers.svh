// SPDX-License-Identifier: Apache-2.0
//
// The identity block of an F2 card. Written by firmware/f2/registers.py: change it there.
`ifndef F2_REGISTERS_SVH
`define F2_REGISTERS_SVH

package f2_registers;
  localparam logic [9:0] MAGIC         = 10'h000;  // 0x00
  localparam logic [9:0] VERSION       = 10'h001;  // 0x04
  localparam logic [9:0] COMPUTE_UNITS = 10'h002;  // 0x08
  localparam logic [9:0] UUID_0        = 10'h004;  // 0x10
  localparam logic [9:0] UUID_1        = 10'h005;  // 0x14
  localparam logic [9:0] UUID_2        = 10'h006;  // 0x18
  localparam logic [9:0] UUID_3        = 10'h007;  // 0x1c
  localparam logic [9:0] REPORT_LOW    = 10'h008;  // 0x20
  localparam logic [9:0] REPORT_HIGH   = 10'h009;  // 0x24
  localparam logic [9:0] IDENTITY = 10'h3ff;  // in units of 64 KiB
  localparam logic [31:0] MAGIC_VALUE = 32'h52505948;
  localparam logic [31:0] MAP_VERSION = 32'h00020000;
  localparam int MAX_UNITS = 16;
endpackage

`endif
