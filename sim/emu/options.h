// SPDX-License-Identifier: Apache-2.0
// What the environment tells the emulated card, read when an xclbin is loaded.
#ifndef HYPERSONIC_EMU_OPTIONS_H
#define HYPERSONIC_EMU_OPTIONS_H

#include <cstdint>
#include <string>

#include "device_model.h"

namespace emu {

// HYPERSONIC_EMU_DEVICES: cards in this machine, default 4.
unsigned device_count();

// HYPERSONIC_EMU_MEMORY: "ideal", or any of "latency=60,outstanding=64,stall=0,seed=1": clocks, bursts, per cent.
hypersonic_timing memory_timing();

// HYPERSONIC_EMU_HANG: "facile_1:3,facile_2:1": that compute unit never completes its 3rd run, nor any later one.
// 0 when the compute unit is not named.
uint64_t hang_at_run(const std::string &compute_unit);

}  // namespace emu

#endif
