// SPDX-License-Identifier: Apache-2.0
// The AWS F2 shell's side of PCIM: host memory behind the custom logic's AXI4 master, with a check of each of the shell's rules.
//
// Reads: at most 32 in flight, no two with the same ID, RREADY at once. With stalls, reads of different IDs are answered in any
// order and interleaved beat by beat; the beats of one burst stay in order. Writes: no data before their address is offered, no
// pause within a burst once its address is taken, strobes without holes, BREADY in time. emu::Bus checks the shape of bursts. Times
// are in clocks of 4 ns. The rules are those of the AWS F2 shell's interface specification; "at once" and "no pause" are
// stricter. Writes are posted: they reach host memory in order, but long after their response, and no read of a register through
// OCL waits for them.
#ifndef HYPERSONIC_EMU_PCIM_SHELL_H
#define HYPERSONIC_EMU_PCIM_SHELL_H

#include <array>
#include <cstdint>
#include <cstdio>

#include "axi_memory.h"

namespace emu {

constexpr unsigned kPcimReads = 32;
// 8 us: the time after which the shell disables the bus permanently
constexpr unsigned kPatienceClocks = 2000;
// the most clocks between AW and the first beat of W
constexpr unsigned kFirstBeatClocks = 2;
// the clocks from the last beat of a write until host memory has it: more than a driver needs to see ap_done and look at the data
constexpr uint64_t kPostedClocks = 600;

// Takes AR and gives R.
class PcimReads {
public:
    PcimReads(const hypersonic_memory &memory, const hypersonic_timing &timing)
        : bus_(memory, "pcim"), latency_(timing.read_latency_clocks), limit_(std::min(outstanding(timing), kPcimReads)),
          disorder_(timing.stall_percent != 0), stall_(timing.stall_percent, timing.seed * 4 + 1),
          choice_(timing.seed * 2654435761u | 1u) {}

    bool arready = false;
    bool rvalid = false;
    bool rlast = false;
    uint16_t rid = 0;
    uint8_t rresp = 0;

    uint64_t beats() const { return beats_; }

    void clock(uint64_t now, bool arvalid, const Address &ar, uint16_t arid, bool rready, void *rdata) {
        if (rvalid && !rready) bus_.fault("read", 0, kBeatBytes, "RREADY is low while data wait");
        if (arvalid && arready) take(now, ar, arid);
        if (rvalid && rready) {
            rvalid = false;
            ++beats_;
        }
        if (!rvalid && !stall_()) show(now, rdata);
        arready = count_ < limit_ && !stall_();
    }

private:
    struct Entry {
        Burst burst;
        uint16_t id = 0;
    };

    void take(uint64_t now, const Address &ar, uint16_t arid) {
        const uint64_t bytes = (ar.beats_less_1 + 1u) * kBeatBytes;
        for (unsigned i = 0; i < count_; ++i)
            if (entries_[i].id == arid) bus_.fault("read", ar.address, bytes, "its ID is that of a read on its way");
        Entry entry{bus_.resolve(ar, "read"), arid};
        entry.burst.ready_clock = now + latency_ + (disorder_ ? random() % (latency_ + 1) : 0);
        if (count_ == entries_.size())
            bus_.fault("read", ar.address, bytes, "32 reads are on their way already");
        else
            entries_[count_++] = entry;
    }

    void show(uint64_t now, void *rdata) {
        const unsigned first = disorder_ && count_ != 0 ? random() % count_ : 0;
        for (unsigned k = 0; k < count_; ++k) {
            const unsigned i = (first + k) % count_;
            if (entries_[i].burst.ready_clock <= now) return give(i, rdata);
            if (!disorder_) return;
        }
    }

    void give(unsigned i, void *rdata) {
        Burst &burst = entries_[i].burst;
        if (burst.host != nullptr) {
            std::memcpy(rdata, burst.host, kBeatBytes);
            burst.host += kBeatBytes;
        } else {
            std::memset(rdata, 0xff, kBeatBytes);
        }
        rvalid = true;
        rlast = --burst.beats_left == 0;
        rid = entries_[i].id;
        rresp = burst.response;
        if (!rlast) return;
        for (unsigned k = i + 1; k < count_; ++k) entries_[k - 1] = entries_[k];
        --count_;
    }

    uint32_t random() {
        choice_ ^= choice_ << 13;
        choice_ ^= choice_ >> 17;
        choice_ ^= choice_ << 5;
        return choice_;
    }

    Bus bus_;
    uint64_t latency_;
    unsigned limit_;
    bool disorder_;
    Stall stall_;
    uint32_t choice_;
    uint64_t beats_ = 0;
    unsigned count_ = 0;
    std::array<Entry, kPcimReads> entries_{};  // the oldest first
};

// Takes AW and W and gives B: emu::WriteChannel, and the shell's rules of time and order.
class PcimWrites {
public:
    PcimWrites(const hypersonic_memory &memory, const hypersonic_timing &timing)
        : channel_(memory, timing, kPostedClocks), bus_(memory, "pcim") {}

    const WriteChannel &shown() const { return channel_; }
    uint64_t beats() const { return channel_.beats(); }
    // The ID of B. Responses are in the order of the bursts.
    uint16_t bid() { return ids_.empty() ? 0 : ids_.front(); }

    void clock(uint64_t now, bool awvalid, const Address &aw, uint16_t awid, bool wvalid, uint64_t wstrb, bool wlast,
               const void *wdata, bool bready) {
        const bool aw_taken = awvalid && channel_.awready;
        if (wvalid && open_ == 0 && !awvalid) bus_.fault("write", aw.address, kBeatBytes, "data before their address");
        if (open_ != 0 && !wvalid && ++pause_ > (started_ ? 0 : kFirstBeatClocks))
            bus_.fault("write", address_, kBeatBytes, "a pause between an address and the end of its data");
        if (wvalid) check_strobes(wstrb, wlast);
        if (wvalid && channel_.wready && open_ != 0) {
            started_ = !wlast;
            pause_ = 0;
            open_ -= wlast;
        }
        b_wait_ = channel_.bvalid && !bready ? b_wait_ + 1 : 0;
        if (b_wait_ == kPatienceClocks) bus_.fault("write", address_, kBeatBytes, "a response was not taken within 8 us");
        if (channel_.bvalid && bready) ids_.pop();
        channel_.clock(now, awvalid, aw, wvalid, wstrb, wlast, wdata, bready);
        if (!aw_taken) return;
        ++open_;
        ids_.push(awid);
        address_ = aw.address;
    }

private:
    void check_strobes(uint64_t wstrb, bool wlast) {
        if (wstrb == 0 || (wstrb & (wstrb + 1)) != 0)
            bus_.fault("write", address_, kBeatBytes, "strobes with a hole, or none, or not from byte 0");
        else if (!wlast && wstrb != ~uint64_t{0})
            bus_.fault("write", address_, kBeatBytes, "partial strobes before the burst's last beat");
    }

    WriteChannel channel_;
    Bus bus_;
    unsigned open_ = 0;  // bursts whose address has been taken, but not their last beat
    bool started_ = false;
    unsigned pause_ = 0;
    unsigned b_wait_ = 0;
    uint64_t address_ = 0;  // of the last burst taken, for messages
    Ring<uint16_t, 2 * kMaxOutstanding> ids_;
};

// The interrupt of one unit: a request of one clock, and an acknowledge of one clock kAckClocks later.
class IrqLine {
public:
    bool ack = false;
    uint64_t requests = 0;

    // Returns false for a request before the last one has been acknowledged.
    bool clock(bool request) {
        const bool kept = !request || wait_ == 0;
        ack = wait_ == 1;
        if (wait_ != 0) --wait_;
        if (request) {
            wait_ = kAckClocks;
            ++requests;
        }
        return kept;
    }

private:
    static constexpr unsigned kAckClocks = 20;
    unsigned wait_ = 0;
};

}  // namespace emu

#endif
