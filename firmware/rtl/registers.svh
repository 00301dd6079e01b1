// SPDX-License-Identifier: Apache-2.0
//
// Word addresses of the kernel's registers. Written by firmware/kernel/registers.py: change it there.
`ifndef REGISTERS_SVH
`define REGISTERS_SVH

package registers;
  localparam logic [9:0] CONTROL              = 10'h000;  // 0x00
  localparam logic [9:0] GIE                  = 10'h001;  // 0x04
  localparam logic [9:0] IER                  = 10'h002;  // 0x08
  localparam logic [9:0] ISR                  = 10'h003;  // 0x0c
  localparam logic [9:0] X_LOW                = 10'h004;  // 0x10
  localparam logic [9:0] X_HIGH               = 10'h005;  // 0x14
  localparam logic [9:0] Y_LOW                = 10'h007;  // 0x1c
  localparam logic [9:0] Y_HIGH               = 10'h008;  // 0x20
  localparam logic [9:0] ROWS                 = 10'h00a;  // 0x28
  localparam logic [9:0] W_LOW                = 10'h00c;  // 0x30
  localparam logic [9:0] W_HIGH               = 10'h00d;  // 0x34
  localparam logic [9:0] BUSY_CYCLES_LOW      = 10'h010;  // 0x40
  localparam logic [9:0] BUSY_CYCLES_HIGH     = 10'h011;  // 0x44
  localparam logic [9:0] RUNS                 = 10'h012;  // 0x48
  localparam logic [9:0] RUN_CYCLES           = 10'h013;  // 0x4c
  localparam logic [9:0] AXI_ERROR            = 10'h014;  // 0x50
  localparam logic [9:0] VERSION              = 10'h015;  // 0x54
  localparam logic [9:0] ROW_IN_BYTES         = 10'h016;  // 0x58
  localparam logic [9:0] ROW_OUT_BYTES        = 10'h017;  // 0x5c
  localparam logic [9:0] STARVED_CYCLES       = 10'h018;  // 0x60
  localparam logic [9:0] BLOCKED_CYCLES       = 10'h019;  // 0x64
  localparam logic [9:0] READ_ADDRESS_CYCLES  = 10'h01a;  // 0x68
  localparam logic [9:0] WRITE_ADDRESS_CYCLES = 10'h01b;  // 0x6c
  localparam logic [9:0] WRITE_DATA_CYCLES    = 10'h01c;  // 0x70
  localparam logic [9:0] CORE_CYCLES          = 10'h01d;  // 0x74
  localparam logic [9:0] WEIGHTS_BEATS        = 10'h01e;  // 0x78
  localparam logic [31:0] MAP_VERSION = 32'h00010002;
endpackage

`endif
