// SPDX-License-Identifier: Apache-2.0
//
// Casts every element to a type of its own, LANES elements per clock, and then all of them to y's type:
//
//   v = x << LEFT                                the finest grid of x and of all types
//   r = (v + add [+ 1 if v & odd]) & keep        rounds to the element's fraction bits, and wraps without SATURATE
//   q = (r ^ low) - low                          SATURATE 0: low is the sign bit of the type, 0 if it is unsigned
//       r < low ? low : r > high ? high : r      SATURATE 1
//   y = result_t(q)
//
// The constants of an element are in one memory, which repeats every PERIOD beats. An element whose `keep` is 0 becomes 0. `odd` is
// the element's lowest bit with AP_RND_CONV, otherwise 0.
`default_nettype none

module rf_quantise #(
    parameter int LANES = 2,  // elements of a beat
    parameter int X_WIDTH = 8,  // bits of an input element
    parameter bit X_SIGNED = 1'b1,  // it is two's complement
    parameter int LEFT = 0,  // left shift of x
    parameter int V_WIDTH = 12,  // bits of v and of the constants, two's complement
    parameter bit SATURATE = 1'b0,  // the types saturate; otherwise they wrap
    parameter int PERIOD = 1,  // beats after which the types repeat
    parameter FILE = "",  // $readmemh: PERIOD words of LANES times {high, low, odd, keep, add}
    parameter int RESULT_SHIFT = 0,  // fraction bits of v minus those of the result
    parameter int Y_WIDTH = 8,  // bits of a result
    parameter bit Y_SIGNED = 1'b1,
    parameter int ROUNDING = ap_fixed_pkg::TRN,  // see fixed_cast
    parameter int OVERFLOW = ap_fixed_pkg::WRAP
) (
    input  logic                     clk,
    input  logic                     rst_n,
    input  logic                     s_axis_tvalid,
    output logic                     s_axis_tready,
    input  logic [LANES*X_WIDTH-1:0] s_axis_tdata,
    input  logic                     s_axis_tlast,
    output logic                     m_axis_tvalid,
    input  logic                     m_axis_tready,
    output logic [LANES*Y_WIDTH-1:0] m_axis_tdata,
    output logic                     m_axis_tlast
);

  if (LEFT < 0 || V_WIDTH < X_WIDTH + LEFT + 2) begin : g_check_width
    $error("rf_quantise %m: V_WIDTH is %0d, expected X_WIDTH + LEFT + 2 or more, and LEFT 0 or more", V_WIDTH);
  end

  localparam int FIELDS = 5 * V_WIDTH;
  localparam int INDEX_WIDTH = PERIOD > 1 ? $clog2(PERIOD) : 1;

  wire take = s_axis_tvalid && s_axis_tready;
  logic [INDEX_WIDTH-1:0] index_q;
  logic [LANES*FIELDS-1:0] word;
  logic [LANES*V_WIDTH-1:0] values;

  always_ff @(posedge clk) begin
    if (take) index_q <= index_q == INDEX_WIDTH'(PERIOD - 1) ? '0 : index_q + 1'b1;
    if (!rst_n) index_q <= '0;
  end

  rf_rom #(
      .WIDTH(LANES * FIELDS),
      .DEPTH(PERIOD),
      .FILE (FILE)
  ) u_types (
      .clk(clk),
      .enable(take),
      .address(index_q),
      .word(word)
  );

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    wire [X_WIDTH-1:0] x = s_axis_tdata[lane*X_WIDTH+:X_WIDTH];
    wire [V_WIDTH-1:0] add = word[lane*FIELDS+:V_WIDTH];
    wire [V_WIDTH-1:0] keep = word[lane*FIELDS+V_WIDTH+:V_WIDTH];
    wire [V_WIDTH-1:0] odd = word[lane*FIELDS+2*V_WIDTH+:V_WIDTH];
    wire [V_WIDTH-1:0] low = word[lane*FIELDS+3*V_WIDTH+:V_WIDTH];
    wire [V_WIDTH-1:0] high = word[lane*FIELDS+4*V_WIDTH+:V_WIDTH];
    logic signed [X_WIDTH:0] x_q;
    logic signed [V_WIDTH-1:0] rounded_q, low_q, high_q, quantised_q;

    wire [V_WIDTH-1:0] v = V_WIDTH'(x_q) << LEFT;

    always_ff @(posedge clk) begin
      x_q <= {X_SIGNED && x[X_WIDTH-1], x};
      rounded_q <= (v + add + V_WIDTH'(|(v & odd))) & keep;
      low_q <= low;
      high_q <= high;
    end

    if (SATURATE) begin : gen_saturate
      always_ff @(posedge clk) quantised_q <= rounded_q < low_q ? low_q : rounded_q > high_q ? high_q : rounded_q;
    end else begin : gen_wrap
      always_ff @(posedge clk) quantised_q <= (rounded_q ^ low_q) - low_q;
      wire unused = &{1'b0, high_q};
    end

    assign values[lane*V_WIDTH+:V_WIDTH] = quantised_q;
  end

  rf_output #(
      .LANES    (LANES),
      .IN_WIDTH (V_WIDTH),
      .SIGNED_IN(1'b1),
      .LATENCY  (3),
      .SHIFT    (RESULT_SHIFT),
      .WIDTH    (Y_WIDTH),
      .SIGNED   (Y_SIGNED),
      .ROUNDING (ROUNDING),
      .OVERFLOW (OVERFLOW)
  ) u_rf_output (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(s_axis_tready),
      .s_axis_tlast(s_axis_tlast),
      .values(values),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tlast(m_axis_tlast)
  );

endmodule

`default_nettype wire
