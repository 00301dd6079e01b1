// SPDX-License-Identifier: Apache-2.0
//
// Joins one beat of each of N streams into one beat when all of them are valid: the counterpart of axis_broadcast. The data need
// no port here, because the consumer reads the producers'.
`default_nettype none

module axis_join #(
    // producers
    parameter int N = 2
) (
    input  logic [N-1:0] s_axis_tvalid,
    output logic [N-1:0] s_axis_tready,

    output logic         m_axis_tvalid,
    input  logic         m_axis_tready
);

  if (N < 1) begin : g_check_n
    $error("axis_join %m: N is %0d, expected at least 1", N);
  end

  assign m_axis_tvalid = &s_axis_tvalid;
  assign s_axis_tready = {N{m_axis_tvalid && m_axis_tready}};

endmodule

`default_nettype wire
