// SPDX-License-Identifier: Apache-2.0
//
// Turns an interrupt level into requests of one clock, each answered by an acknowledge of one clock (the AWS F2 shell's
// cl_sh_apppf_irq_req and sh_cl_apppf_irq_ack). Each rise of the level gives a request; rises while a request waits for its
// acknowledge give one request after it.
//
//   irq      __/‾‾‾‾‾\____/‾‾‾‾‾‾‾‾‾‾‾‾‾‾
//   request  ____/‾\___________/‾\_______
//   ack      __________/‾\___________/‾\_
`default_nettype none

module irq_request (
    input  logic clk,
    input  logic rst_n,
    input  logic irq,
    output logic request,
    input  logic ack
);

  logic irq_q;
  logic due_q;  // a rise that has not been requested
  logic open_q;  // a request waits for its acknowledge

  wire rise = irq && !irq_q;
  wire give = (due_q || rise) && (!open_q || ack);

  always_ff @(posedge clk) begin
    irq_q   <= irq;
    due_q   <= (due_q || rise) && !give;
    open_q  <= give || (open_q && !ack);
    request <= give;
    if (!rst_n) begin
      irq_q   <= 1'b0;
      due_q   <= 1'b0;
      open_q  <= 1'b0;
      request <= 1'b0;
    end
  end

endmodule

`default_nettype wire
