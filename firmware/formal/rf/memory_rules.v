// SPDX-License-Identifier: Apache-2.0
//
// For Yosys' techmap: every memory of a module under proof gets the assertion that each address is inside it. A memory of a power
// of two words has it for nothing. What a register held before the first clocks does not count.
(* techmap_celltype = "$mem_v2" *)
module memory_rules (
    RD_CLK, RD_EN, RD_ARST, RD_SRST, RD_ADDR, RD_DATA, WR_CLK, WR_EN, WR_ADDR, WR_DATA
);
  parameter MEMID = 0;
  parameter SIZE = 0;
  parameter OFFSET = 0;
  parameter ABITS = 0;
  parameter WIDTH = 0;
  parameter INIT = 0;
  parameter RD_PORTS = 0;
  parameter RD_CLK_ENABLE = 0;
  parameter RD_CLK_POLARITY = 0;
  parameter RD_TRANSPARENCY_MASK = 0;
  parameter RD_COLLISION_X_MASK = 0;
  parameter RD_CE_OVER_SRST = 0;
  parameter RD_WIDE_CONTINUATION = 0;
  parameter RD_ARST_VALUE = 0;
  parameter RD_SRST_VALUE = 0;
  parameter RD_INIT_VALUE = 0;
  parameter WR_PORTS = 0;
  parameter WR_CLK_ENABLE = 0;
  parameter WR_CLK_POLARITY = 0;
  parameter WR_PRIORITY_MASK = 0;
  parameter WR_WIDE_CONTINUATION = 0;
  input [RD_PORTS-1:0] RD_CLK, RD_EN, RD_ARST, RD_SRST;
  input [RD_PORTS*ABITS-1:0] RD_ADDR;
  output [RD_PORTS*WIDTH-1:0] RD_DATA;
  input [WR_PORTS-1:0] WR_CLK;
  input [WR_PORTS*WIDTH-1:0] WR_EN, WR_DATA;
  input [WR_PORTS*ABITS-1:0] WR_ADDR;

`define MEMORY \
  \$mem_v2 #( \
      .MEMID(MEMID), .SIZE(SIZE), .OFFSET(OFFSET), .ABITS(ABITS), .WIDTH(WIDTH), .INIT(INIT), .RD_PORTS(RD_PORTS), \
      .RD_CLK_ENABLE(RD_CLK_ENABLE), .RD_CLK_POLARITY(RD_CLK_POLARITY), .RD_TRANSPARENCY_MASK(RD_TRANSPARENCY_MASK), \
      .RD_COLLISION_X_MASK(RD_COLLISION_X_MASK), .RD_CE_OVER_SRST(RD_CE_OVER_SRST), \
      .RD_WIDE_CONTINUATION(RD_WIDE_CONTINUATION), .RD_ARST_VALUE(RD_ARST_VALUE), .RD_SRST_VALUE(RD_SRST_VALUE), \
      .RD_INIT_VALUE(RD_INIT_VALUE), .WR_PORTS(WR_PORTS), .WR_CLK_ENABLE(WR_CLK_ENABLE), .WR_CLK_POLARITY(WR_CLK_POLARITY), \
      .WR_PRIORITY_MASK(WR_PRIORITY_MASK), .WR_WIDE_CONTINUATION(WR_WIDE_CONTINUATION) \
  ) _TECHMAP_REPLACE_ ( \
      .RD_CLK(RD_CLK), .RD_EN(RD_EN), .RD_ARST(RD_ARST), .RD_SRST(RD_SRST), .RD_ADDR(RD_ADDR), .RD_DATA(RD_DATA),

  genvar p;
  generate
    if (WR_PORTS == 0) begin : g_rom
      `MEMORY
          .WR_CLK(), .WR_EN(), .WR_ADDR(), .WR_DATA()
      );
    end else begin : g_ram
      `MEMORY
          .WR_CLK(WR_CLK), .WR_EN(WR_EN), .WR_ADDR(WR_ADDR), .WR_DATA(WR_DATA)
      );
    end
    for (p = 0; p < RD_PORTS; p = p + 1) begin : g_read
      (* init = 4'd0 *) wire [3:0] age;
      \$ff #(.WIDTH(4)) count (.D({age[2:0], 1'b1}), .Q(age));
      \$assert read (.A(RD_ADDR[p*ABITS+:ABITS] < SIZE), .EN(RD_EN[p] && age[3]));
    end
    for (p = 0; p < WR_PORTS; p = p + 1) begin : g_write
      (* init = 4'd0 *) wire [3:0] age;
      \$ff #(.WIDTH(4)) count (.D({age[2:0], 1'b1}), .Q(age));
      \$assert write (.A(WR_ADDR[p*ABITS+:ABITS] < SIZE), .EN(|WR_EN[p*WIDTH+:WIDTH] && age[3]));
    end
  endgenerate
endmodule
