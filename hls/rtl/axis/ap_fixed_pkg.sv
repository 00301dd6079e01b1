// SPDX-License-Identifier: Apache-2.0
//
// The rounding and overflow of ap_fixed (UG1399), for every module that makes a number narrower. The reference is FixedPoint.cast
// (hls/fixed.py).
package ap_fixed_pkg;

  // the modes, written by hls/rf/packages.py
  typedef enum int {
    TRN = 0,
    RND = 1,
    RND_CONV = 2,
    TRN_ZERO = 3,
    RND_ZERO = 4,
    RND_INF = 5,
    RND_MIN_INF = 6
  } rounding_t;

  typedef enum int {
    WRAP = 0,
    SAT = 1,
    SAT_ZERO = 2,
    SAT_SYM = 3
  } overflow_t;
  // end of the modes

  // Whether one is added to a number that was truncated to whole bits in two's complement. `half` is the highest of the bits cut
  // off, `sticky` says that another one was set, and `odd` is the lowest of the bits kept.
  function automatic logic rounds_up(input int rounding, input logic negative, input logic half, input logic sticky,
                                     input logic odd);
    case (rounding)
      ap_fixed_pkg::RND: rounds_up = half;
      ap_fixed_pkg::RND_CONV: rounds_up = half && (sticky || odd);
      ap_fixed_pkg::TRN_ZERO: rounds_up = negative && (half || sticky);
      ap_fixed_pkg::RND_ZERO: rounds_up = half && (sticky || negative);
      ap_fixed_pkg::RND_INF: rounds_up = half && (sticky || !negative);
      ap_fixed_pkg::RND_MIN_INF: rounds_up = half && sticky;
      default: rounds_up = 1'b0;  // TRN
    endcase
  endfunction

  // The result for a number above the range of a type of `width` bits.
  function automatic logic [127:0] above(input int overflow, input logic is_signed, input int width);
    above = overflow == ap_fixed_pkg::SAT_ZERO ? 128'd0 : ~(~128'd0 << (is_signed ? width - 1 : width));
  endfunction

  // The result for a number below it.
  function automatic logic [127:0] below(input int overflow, input logic is_signed, input int width);
    if (!is_signed || overflow == ap_fixed_pkg::SAT_ZERO) below = 128'd0;
    else if (overflow == ap_fixed_pkg::SAT_SYM) below = -(~(~128'd0 << (width - 1)));
    else below = ~128'd0 << (width - 1);
  endfunction

endpackage
