// SPDX-License-Identifier: Apache-2.0
//
// The modes of the modules in this folder, and the latencies that several of them need.
package rf_pkg;

  // the modes, written by hls/rf/packages.py
  typedef enum int {
    MAP_SAME = 0,
    MAP_AFFINE = 1,
    MAP_LEAKY = 2,
    MAP_THRESHOLD = 3,
    MAP_STEP = 4
  } map_t;

  typedef enum int {
    ADD = 0,
    SUBTRACT = 1,
    MULTIPLY = 2,
    MAXIMUM = 3,
    MINIMUM = 4
  } merge_t;

  typedef enum int {
    POOL_MAX = 0,
    POOL_AVERAGE = 1
  } pool_t;
  // end of the modes

  // clocks from a number to its result in fixed_cast and in rf_lookup
  typedef enum int {
    CAST_CLOCKS = 2,
    LOOKUP_CLOCKS = 7
  } clocks_t;

  // rf_cell, a GRU: the clock after which a number is there, counted from the one that takes the sums; rf_cell checks them
  typedef enum int {
    GRU_GATE = 10,  // z and r
    GRU_KEPT = 13,  // r * h_h
    GRU_ACT = 23,  // h
    GRU_STATE = 24,  // this clock takes the state before
    GRU_CLOCKS = 27  // the new state
  } gru_t;

  // the same for an LSTM
  typedef enum int {
    LSTM_GATE = 10,  // i, f, c and o
    LSTM_STATE = 11,  // this clock takes the state before
    LSTM_NEW_STATE = 14,
    LSTM_ACT = 21,  // act(new state)
    LSTM_CLOCKS = 24  // the result
  } lstm_t;

endpackage
