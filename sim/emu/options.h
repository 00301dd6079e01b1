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

// HYPERSONIC_EMU_HANG: "facile_1:3,facile_2@1:1": that compute unit (of every card, or of card 1) never completes its 3rd
// run, nor any later one. 0 when the compute unit is not named.
uint64_t hang_at_run(const std::string &compute_unit, unsigned card);

// HYPERSONIC_EMU_CARDS: the directory where it is told what happens to cards; empty for none. Read when a card is opened.
std::string cards_directory();

// What happened to a card from outside: files in that directory, looked at by every call that touches the card.
struct CardEvents {
    bool unplugged;   // "<index>.unplugged" is there
    uint64_t resets;  // the size of "<index>.resets" in bytes: one more byte is one more reset
};
CardEvents card_events(const std::string &directory, unsigned card);

}  // namespace emu

#endif
