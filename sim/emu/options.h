// SPDX-License-Identifier: Apache-2.0
// The environment variables of the emulated card, read when an xclbin is loaded.
#ifndef HYPERSONIC_EMU_OPTIONS_H
#define HYPERSONIC_EMU_OPTIONS_H

#include <chrono>
#include <cstdint>
#include <string>

#include "device_model.h"

namespace emu {

// HYPERSONIC_EMU_DEVICES: cards in this machine, default 4.
unsigned device_count();

// HYPERSONIC_EMU_MEMORY: "ideal", or any of "latency=60,outstanding=64,stall=0,seed=1": clocks, bursts, per cent.
hypersonic_timing memory_timing();

// HYPERSONIC_EMU_HANG: "facile_1:3,facile_2@1:1": facile_1 of every card completes neither its 3rd run nor any later one, and
// facile_2 of card 1 completes none. Returns the first run that hangs, or 0 if the compute unit is not named.
uint64_t hang_at_run(const std::string &compute_unit, unsigned card);

// HYPERSONIC_EMU_WRONG: "facile_1:3,facile_2/queued:1,memory:5": one bit is wrong in the answers of facile_1's 3rd run and the
// later ones, of facile_2's 1st and later runs of those that begin while another is in flight, and in the 5th and later copies to
// a card. Each returns the first that is wrong, or 0 if none is.
struct WrongAnswers {
    uint64_t from_run;
    uint64_t from_queued_run;
};
WrongAnswers wrong_answers(const std::string &compute_unit);
uint64_t wrong_from_copy();

// HYPERSONIC_EMU_PCIE_MB_S and HYPERSONIC_EMU_PCIE_TRANSFER_MB_S: 10^6 bytes per second of each direction of a card's PCIe link,
// and of one transfer in it; 0, the default: as fast as this machine copies.
struct LinkRates {
    double total_mb_s;
    double transfer_mb_s;
};
LinkRates pcie_rates();

// HYPERSONIC_EMU_LOAD_MS: the time that a card takes to replace an xclbin by another one. The default, 2000, is assumed.
std::chrono::milliseconds load_time();

// HYPERSONIC_EMU_CARDS: the directory of the files below, and of those in processes.h; empty for none. Read when a card is opened.
std::string cards_directory();

// Events of a card: files in that directory, checked by every call that accesses the card.
struct CardEvents {
    bool unplugged;   // "<index>.unplugged" exists
    uint64_t resets;  // the size of "<index>.resets" in bytes: one more byte is one more reset
};
CardEvents card_events(const std::string &directory, unsigned card);

}  // namespace emu

#endif
