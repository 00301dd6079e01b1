// SPDX-License-Identifier: Apache-2.0
// sim/emu/axi_memory.h by ctypes: one burst at a time on a memory of two buffer objects, at 0x1000 (8000 bytes) and at
// 0x10000 (64 bytes).
#include <cstddef>

#include "axi_memory.h"

namespace {

uint8_t large[8192];
uint8_t small[4096];
unsigned faults;
char last_fault[256];

uint8_t *resolve(void *, uint64_t address, uint64_t *extent_bytes) {
    if (address >= 0x1000 && address < 0x1000 + 8000) return *extent_bytes = 0x1000 + 8000 - address, large + (address - 0x1000);
    if (address >= 0x10000 && address < 0x10040) return *extent_bytes = 0x10040 - address, small + (address - 0x10000);
    return nullptr;
}

void fault(void *, const char *text) {
    ++faults;
    std::snprintf(last_fault, sizeof last_fault, "%s", text);
}

constexpr hypersonic_memory kMemory = {nullptr, resolve, fault, nullptr, nullptr};
constexpr unsigned kLimit = 100000;

}  // namespace

extern "C" uint8_t *buffer_object(int which) { return which == 0 ? large : small; }

extern "C" unsigned take_faults(char *text) {
    std::strcpy(text, last_fault);
    const unsigned count = faults;
    faults = 0;
    last_fault[0] = 0;
    return count;
}

// Returns clocks from AR accepted to RLAST; *response: the worst RRESP. 0: no answer.
extern "C" unsigned read_burst(const hypersonic_timing *timing, uint64_t address, unsigned beats, unsigned size, unsigned burst,
                               uint8_t *data, unsigned *response) {
    emu::ReadChannel channel(kMemory, *timing);
    const emu::Address ar{address, static_cast<uint8_t>(beats - 1), static_cast<uint8_t>(size), static_cast<uint8_t>(burst), 0};
    uint8_t rdata[64];
    unsigned accepted = 0;
    unsigned taken = 0;
    *response = 0;
    for (unsigned clock = 1; clock < kLimit; ++clock) {
        const bool arvalid = accepted == 0;
        const bool take = channel.rvalid;
        const bool last = channel.rlast;
        if (take) {
            std::memcpy(data + 64 * taken++, rdata, 64);
            if (channel.rresp > *response) *response = channel.rresp;
        }
        const bool accept = arvalid && channel.arready;
        channel.clock(clock, arvalid, ar, true, rdata);
        if (accept) accepted = clock;
        if (take && last) return taken == beats ? clock - accepted : 0;
    }
    return 0;
}

// One burst with the same strobes on each beat, WLAST on beat `last_beat`; returns clocks from the last beat to B.
extern "C" unsigned write_burst(const hypersonic_timing *timing, uint64_t address, unsigned beats, uint64_t strobes, unsigned last_beat,
                                const uint8_t *data, unsigned *response) {
    emu::WriteChannel channel(kMemory, *timing);
    const emu::Address aw{address, static_cast<uint8_t>(beats - 1), 6, 1, 0};
    bool accepted = false;
    unsigned sent = 0;
    unsigned end = 0;
    for (unsigned clock = 1; clock < kLimit; ++clock) {
        const bool awvalid = !accepted;
        const bool wvalid = sent <= last_beat;
        const bool accept = awvalid && channel.awready;
        const bool take = wvalid && channel.wready;
        const bool answered = channel.bvalid;
        *response = channel.bresp;
        channel.clock(clock, awvalid, aw, wvalid, strobes, sent == last_beat, data + 64 * sent, true);
        if (accept) accepted = true;
        if (take && sent++ == last_beat) end = clock;
        if (answered) return clock - end;
    }
    return 0;
}
