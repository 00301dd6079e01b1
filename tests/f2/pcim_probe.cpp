// SPDX-License-Identifier: Apache-2.0
// The simulated shell's PCIM, driven signal by signal: is every broken rule seen, and nothing else?
#include <cstring>
#include <string>

#include "pcim_shell.h"

namespace {

struct Probe {
    Probe(uint32_t stall, uint32_t seed)
        : memory{this, resolve, fault, nullptr, nullptr}, timing{5, 3, 64, stall, seed}, reads(memory, timing), writes(memory, timing) {}

    static uint8_t *resolve(void *card, uint64_t address, uint64_t *extent) {
        auto &probe = *static_cast<Probe *>(card);
        if (address >= sizeof probe.bytes) return nullptr;
        *extent = sizeof probe.bytes - address;
        return probe.bytes + address;
    }
    static void fault(void *card, const char *text) {
        auto &probe = *static_cast<Probe *>(card);
        if (probe.said.empty()) probe.said = text;
    }

    uint8_t bytes[1 << 16] = {};
    std::string said;
    hypersonic_memory memory;
    hypersonic_timing timing;
    emu::PcimReads reads;
    emu::PcimWrites writes;
    emu::IrqLine irq;
    uint64_t now = 0;
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT Probe *probe_new(uint32_t stall, uint32_t seed) { return new Probe(stall, seed); }
EXPORT void probe_delete(Probe *probe) { delete probe; }
EXPORT uint32_t probe_byte(Probe *probe, uint64_t address) { return probe->bytes[address]; }
EXPORT const char *probe_said(Probe *probe) { return probe->said.c_str(); }

// One clock of the read channels. Returns arready | rvalid << 1 | rlast << 2 | rid << 8, as they are after it.
EXPORT uint32_t probe_read(Probe *probe, int arvalid, uint64_t address, uint32_t beats, uint32_t size, uint32_t id, int rready) {
    uint8_t data[64];
    const emu::Address ar{address, static_cast<uint8_t>(beats - 1), static_cast<uint8_t>(size), 1, 0};
    emu::PcimReads &reads = probe->reads;
    reads.clock(probe->now++, arvalid != 0, ar, static_cast<uint16_t>(id), rready != 0, data);
    return reads.arready | reads.rvalid << 1 | reads.rlast << 2 | static_cast<uint32_t>(reads.rid) << 8;
}

// One clock of the write channels. Returns awready | wready << 1 | bvalid << 2 | bid << 8, as they are after it.
EXPORT uint32_t probe_write(Probe *probe, int awvalid, uint64_t address, uint32_t beats, uint32_t id, int wvalid, uint64_t strobes,
                            int last, int bready) {
    const uint8_t data[64] = {1, 2, 3};
    const emu::Address aw{address, static_cast<uint8_t>(beats - 1), 6, 1, 0};
    emu::PcimWrites &writes = probe->writes;
    writes.clock(probe->now++, awvalid != 0, aw, static_cast<uint16_t>(id), wvalid != 0, strobes, last != 0, data, bready != 0);
    const emu::WriteChannel &shown = writes.shown();
    return shown.awready | shown.wready << 1 | shown.bvalid << 2 | static_cast<uint32_t>(writes.bid()) << 8;
}

// One clock of an interrupt line: 1 when the request was allowed, 2 when the acknowledge is shown.
EXPORT uint32_t probe_irq(Probe *probe, int request) {
    const bool kept = probe->irq.clock(request != 0);
    return static_cast<uint32_t>(kept) | static_cast<uint32_t>(probe->irq.ack) << 1;
}
