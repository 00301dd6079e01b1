// SPDX-License-Identifier: Apache-2.0
//
// A read-only memory filled from a file, with one clock from an address to its word; the word stays while `enable` is low.
// Without a file, as with the defaults of the parameters, every word is zero. A simulator looks for the file in the directory
// that +memories=DIR names, so that a model can bring its own files.
`default_nettype none

module rf_rom #(
    parameter int WIDTH = 8,  // bits of a word
    parameter int DEPTH = 16,  // words
    parameter FILE = "",  // the file for $readmemh, relative to the tool's working directory
    parameter STYLE = "auto"  // ram_style: auto, block, distributed or registers
) (
    input  logic                                       clk,
    input  logic                                       enable,
    input  logic [(DEPTH > 1 ? $clog2(DEPTH) : 1)-1:0] address,
    output logic [                          WIDTH-1:0] word
);

  if (WIDTH < 1 || DEPTH < 1) begin : g_check_size
    $error("rf_rom %m: WIDTH is %0d and DEPTH %0d, expected 1 or more", WIDTH, DEPTH);
  end
  // UltraRAM of UltraScale+ has no initial contents (UG901); Vivado would leave it zero
  if (STYLE == "" || 128'(STYLE) == 128'("ultra")) begin : g_check_style
    $error("rf_rom %m: STYLE is %s, expected auto, block, distributed or registers", STYLE);
  end

  (* ram_style = STYLE, rom_style = STYLE *)  // Vivado reads rom_style for a memory that is never written (UG901)
  logic [WIDTH-1:0] words[DEPTH];

  if (FILE != "") begin : gen_file
`ifdef VERILATOR
    string directory;
    initial begin
      if ($value$plusargs("memories=%s", directory) == 0) directory = ".";
      $readmemh({directory, "/", FILE}, words);
    end
`else
    initial $readmemh(FILE, words);
`endif
  end else begin : gen_zero
    initial for (int i = 0; i < DEPTH; i++) words[i] = WIDTH'(0);
  end

  if (DEPTH > 1) begin : gen_read
    always_ff @(posedge clk) if (enable) word <= words[address];
  end else begin : gen_constant
    always_ff @(posedge clk) if (enable) word <= words[0];
    wire unused = &{1'b0, address};
  end

endmodule

`default_nettype wire
