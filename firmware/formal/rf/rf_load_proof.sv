// SPDX-License-Identifier: Apache-2.0
//
// rf_load with three words of two beats: each word is written once, in order, low bits first, at its address; `loaded` after the
// last; every later beat is passed on once, in order.
`default_nettype none

module rf_load_proof (
    input logic       clk,
    input logic       rst_n,
    input logic       mark,
    input logic       s_load_tvalid,
    input logic [1:0] s_load_tdata,
    input logic       m_load_tready
);

  logic s_load_tready, m_load_tvalid, write, loaded;
  logic [1:0] m_load_tdata, address;
  logic [2:0] word;
  logic started_q = 1'b0;
  logic [2:0] taken_q;  // beats, 6 at most
  logic [1:0] written_q;  // words
  (* anyconst *) logic [7:0] item;
  wire later = taken_q == 3'd6;

  rf_load #(.WIDTH(3), .DEPTH(3), .LOAD_WIDTH(2)) u_rf_load (.*);

  // the low two bits of a word, then the high one
  stage_rules #(
      .IN(2), .WIDTH(3), .ITEMS(2), .ITEM_WIDTH(2), .FROM(16'h0100), .AT(16'h0000), .LAST(2), .STALLS(1'b0), .MOST(1), .WAIT(2)
  ) u_words (
      .clk, .rst_n, .mark, .s_valid(s_load_tvalid && !later), .s_ready(s_load_tready), .s_last(1'b0), .m_valid(write),
      .m_ready(1'b1), .m_data(word), .m_last(1'b0), .excused(1'b0), .item, .s_item(item[0] ? {1'b0, s_load_tdata[0]} : s_load_tdata),
      .m_item(item[0] ? {1'b0, word[2]} : word[1:0])
  );

  stage_rules #(.WIDTH(2), .ITEM_WIDTH(2), .AT(8'd0), .LAST(2), .MOST(2), .WAIT(4)) u_later (
      .clk, .rst_n, .mark, .s_valid(s_load_tvalid && later), .s_ready(s_load_tready), .s_last(1'b0), .m_valid(m_load_tvalid),
      .m_ready(m_load_tready), .m_data(m_load_tdata), .m_last(1'b0), .excused(1'b0), .item(8'd0), .s_item(s_load_tdata),
      .m_item(m_load_tdata)
  );

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (s_load_tvalid && s_load_tready && !later) taken_q <= taken_q + 1'b1;
    if (write) written_q <= written_q + 1'b1;
    if (!rst_n) begin
      taken_q   <= '0;
      written_q <= '0;
    end
  end

  always_comb begin
    if (started_q && rst_n) begin
      if (write) assert (address == written_q && !loaded);
      assert (loaded == (written_q == 2'd3));
    end
  end

endmodule

`default_nettype wire
