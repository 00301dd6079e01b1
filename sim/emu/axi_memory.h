// SPDX-License-Identifier: Apache-2.0
// The memory side of the kernel's two AXI4 masters: 512-bit reads and writes on a card's buffer objects.
//
// Each channel is stepped once per clock with the kernel's outputs before the edge, and gives its inputs after the edge. The
// address of a burst is looked up once, when it is accepted; a beat then costs one memcpy of 64 bytes. Bursts that a Vitis
// kernel must not send, and accesses outside buffer objects, are answered with SLVERR or DECERR and reported as one fault.
#ifndef HYPERSONIC_EMU_AXI_MEMORY_H
#define HYPERSONIC_EMU_AXI_MEMORY_H

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>

#include "device_model.h"

namespace emu {

constexpr uint64_t kBeatBytes = 64;
constexpr uint64_t kPageBytes = 4096;
constexpr unsigned kMaxOutstanding = 256;

enum Response : uint8_t { kOkay = 0, kSlaveError = 2, kDecodeError = 3 };

// A FIFO without allocation; the caller must not overflow it.
template <typename T, unsigned Capacity>
class Ring {
public:
    bool empty() const { return head_ == tail_; }
    unsigned size() const { return tail_ - head_; }
    void push(const T &item) { items_[tail_++ % Capacity] = item; }
    T &front() { return items_[head_ % Capacity]; }
    void pop() { ++head_; }

private:
    std::array<T, Capacity> items_{};
    unsigned head_ = 0;
    unsigned tail_ = 0;
};

// Decides in each clock whether a channel stalls, by xorshift32; a seed always gives the same stalls.
class Stall {
public:
    Stall(uint32_t percent, uint32_t seed) : limit_(std::min(percent, 90u)), state_(seed * 2654435761u | 1u) {}
    bool operator()() {
        if (limit_ == 0) return false;
        state_ ^= state_ << 13;
        state_ ^= state_ >> 17;
        state_ ^= state_ << 5;
        return state_ % 100 < limit_;
    }

private:
    uint32_t limit_;
    uint32_t state_;
};

// The fields of AR or AW.
struct Address {
    uint64_t address;
    uint8_t beats_less_1;
    uint8_t size_log2;
    uint8_t burst;
    uint8_t id;
};

// A burst in flight: its next beat is at host address `host`, and `extent_bytes` may be accessed from there on.
struct Burst {
    uint8_t *host = nullptr;
    uint64_t address = 0;
    uint64_t extent_bytes = 0;
    uint64_t ready_clock = 0;
    void *bank = nullptr;  // if other compute units use it too
    unsigned beats_left = 0;
    uint8_t id = 0;
    uint8_t response = kOkay;
};

inline unsigned outstanding(const hypersonic_timing &timing) {
    return std::clamp(timing.outstanding, 1u, kMaxOutstanding);
}

class Bus {
public:
    Bus(const hypersonic_memory &memory, const char *port) : memory_(memory), port_(port) {}

    Burst resolve(const Address &wanted, const char *verb) {
        Burst burst;
        burst.address = wanted.address;
        burst.beats_left = wanted.beats_less_1 + 1u;
        burst.id = wanted.id;
        const uint64_t bytes = burst.beats_left * kBeatBytes;
        if (wanted.size_log2 != 6 || wanted.burst != 1 || wanted.address % kBeatBytes != 0)
            return refuse(burst, verb, bytes, "expected a 64-byte aligned INCR burst of 64-byte beats", kSlaveError);
        if (wanted.address % kPageBytes + bytes > kPageBytes)
            return refuse(burst, verb, bytes, "the burst crosses a 4 KiB border", kSlaveError);
        burst.host = memory_.resolve(memory_.card, wanted.address, &burst.extent_bytes);
        if (burst.host == nullptr) return refuse(burst, verb, bytes, "no buffer object is allocated there", kDecodeError);
        if (memory_.bank != nullptr) burst.bank = memory_.bank(memory_.card, wanted.address);
        return burst;
    }

    // The host's address of a byte that was resolved before; nullptr if its buffer object has been freed.
    uint8_t *find(uint64_t address) const {
        uint64_t extent_bytes = 0;
        return memory_.resolve(memory_.card, address, &extent_bytes);
    }

    // Whether the burst's bank can read or write its next beat in this clock.
    bool free(const Burst &burst, bool is_write, uint64_t clock) const {
        return burst.bank == nullptr || memory_.beat(memory_.card, burst.bank, is_write, clock, false) != 0;
    }
    // The same, and if so the beat is read or written then.
    bool claim(const Burst &burst, bool is_write, uint64_t clock) const {
        return burst.bank == nullptr || memory_.beat(memory_.card, burst.bank, is_write, clock, true) != 0;
    }

    Burst refuse(Burst burst, const char *verb, uint64_t bytes, const char *why, Response response) {
        fault(verb, burst.address, bytes, why);
        burst.host = nullptr;
        burst.response = response;
        return burst;
    }

    void fault(const char *verb, uint64_t address, uint64_t bytes, const char *why) {
        char text[256];
        std::snprintf(text, sizeof text, "%s: %s of %llu bytes at 0x%llx: %s", port_, verb,
                      static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(address), why);
        memory_.fault(memory_.card, text);
    }

private:
    hypersonic_memory memory_;
    const char *port_;
};

// Takes AR and gives R: one beat per clock, bursts in order, the first beat of a burst `latency` clocks after its address. A beat
// in a bank that other compute units use too comes when the bank has a clock for it; W waits for the same reason.
class ReadChannel {
public:
    ReadChannel(const hypersonic_memory &memory, const hypersonic_timing &timing)
        : bus_(memory, "m_axi_gmem0"), latency_(timing.read_latency_clocks), outstanding_(outstanding(timing)),
          stall_(timing.stall_percent, timing.seed * 4 + 1) {}

    // the kernel's inputs
    bool arready = false;
    bool rvalid = false;
    bool rlast = false;
    uint8_t rid = 0;
    uint8_t rresp = 0;

    uint64_t beats() const { return beats_; }

    // One rising edge. `rdata` is the kernel's 64-byte port, which is written only with a new beat.
    void clock(uint64_t now, bool arvalid, const Address &ar, bool rready, void *rdata) {
        if (arvalid && arready) {
            Burst burst = bus_.resolve(ar, "read");
            burst.ready_clock = now + latency_;
            queue_.push(burst);
        }
        if (rvalid && rready) {
            rvalid = false;
            ++beats_;
            if (rlast) queue_.pop();
        }
        if (!rvalid && !queue_.empty() && queue_.front().ready_clock <= now && !stall_() && bus_.claim(queue_.front(), false, now))
            show(rdata);
        arready = queue_.size() < outstanding_ && !stall_();
    }

private:
    void show(void *rdata) {
        Burst &burst = queue_.front();
        if (burst.host != nullptr) {
            std::memcpy(rdata, burst.host, kBeatBytes);
            burst.host += kBeatBytes;
        } else {
            std::memset(rdata, 0, kBeatBytes);
        }
        rvalid = true;
        rlast = --burst.beats_left == 0;
        rid = burst.id;
        rresp = burst.response;
    }

    Bus bus_;
    uint64_t latency_;
    unsigned outstanding_;
    Stall stall_;
    uint64_t beats_ = 0;
    Ring<Burst, kMaxOutstanding> queue_;
};

// Takes AW and W and gives B. Only strobed bytes inside the buffer object are written: at once, or if `posted_clocks` is not 0, as
// whole bursts, in order, that many clocks after their last beat was taken, whenever B was given.
class WriteChannel {
public:
    WriteChannel(const hypersonic_memory &memory, const hypersonic_timing &timing, uint64_t posted_clocks = 0)
        : bus_(memory, "m_axi_gmem1"), latency_(timing.write_latency_clocks), posted_clocks_(posted_clocks),
          outstanding_(outstanding(timing)), stall_(timing.stall_percent, timing.seed * 4 + 3) {}

    bool awready = false;
    bool wready = false;
    bool bvalid = false;
    uint8_t bid = 0;
    uint8_t bresp = 0;

    uint64_t beats() const { return beats_; }

    void clock(uint64_t now, bool awvalid, const Address &aw, bool wvalid, uint64_t wstrb, bool wlast, const void *wdata,
               bool bready) {
        while (!posted_.empty() && posted_.front().ready_clock <= now && posted_.front().whole) land();
        if (awvalid && awready) data_.push(bus_.resolve(aw, "write"));
        if (wvalid && wready) take(now, wstrb, wlast, static_cast<const uint8_t *>(wdata));
        if (bvalid && bready) {
            bvalid = false;
            answers_.pop();
        }
        if (!bvalid && !answers_.empty() && answers_.front().ready_clock <= now && !stall_()) {
            bvalid = true;
            bid = answers_.front().id;
            bresp = answers_.front().response;
        }
        awready = data_.size() + answers_.size() < outstanding_ && !stall_();
        wready = !data_.empty() && !stall_() && bus_.free(data_.front(), true, now + 1);
    }

private:
    void take(uint64_t now, uint64_t wstrb, bool wlast, const uint8_t *wdata) {
        Burst &burst = data_.front();
        bus_.claim(burst, true, now);
        ++beats_;
        if (burst.host != nullptr) {
            wstrb = inside(burst, wstrb);
            if (posted_clocks_ != 0)
                post(burst, wstrb, wdata);
            else
                store(burst.host, wstrb, wdata);
            burst.host += kBeatBytes;
        }
        burst.address += kBeatBytes;
        burst.extent_bytes = burst.extent_bytes > kBeatBytes ? burst.extent_bytes - kBeatBytes : 0;
        if (wlast != (--burst.beats_left == 0)) {
            bus_.fault("write", burst.address, kBeatBytes, "WLAST is not on the burst's last beat");
            burst.response = kSlaveError;
            burst.beats_left = 0;
        }
        if (burst.beats_left == 0) {
            if (!posted_.empty()) posted_.back().end(now + posted_clocks_);
            burst.ready_clock = now + latency_;
            answers_.push(burst);
            data_.pop();
        }
    }

    struct Beat {
        uint64_t strobes;
        std::array<uint8_t, kBeatBytes> data;
    };
    // A burst on its way to memory
    struct Posted {
        uint64_t address;
        uint64_t ready_clock = 0;
        bool whole = false;
        std::vector<Beat> beats{};

        void end(uint64_t clock) {
            if (whole) return;
            whole = true;
            ready_clock = clock;
        }
    };

    // The strobes of the bytes that are inside the burst's buffer object.
    uint64_t inside(Burst &burst, uint64_t wstrb) {
        const uint64_t there = burst.extent_bytes >= kBeatBytes ? ~uint64_t{0} : ~(~uint64_t{0} << burst.extent_bytes);
        if ((wstrb & ~there) != 0) {
            const auto first = static_cast<uint64_t>(std::countr_zero(wstrb & ~there));
            bus_.fault("write", burst.address + first, 1, "past the end of the buffer object");
            burst.response = kSlaveError;
        }
        return wstrb & there;
    }

    static void store(uint8_t *host, uint64_t wstrb, const uint8_t *wdata) {
        if (wstrb == ~uint64_t{0}) {
            std::memcpy(host, wdata, kBeatBytes);
            return;
        }
        for (unsigned byte = 0; byte < kBeatBytes; ++byte)
            if (wstrb >> byte & 1) host[byte] = wdata[byte];
    }

    void post(const Burst &burst, uint64_t wstrb, const uint8_t *wdata) {
        if (posted_.empty() || posted_.back().whole) posted_.push_back(Posted{burst.address});
        Beat &beat = posted_.back().beats.emplace_back();
        beat.strobes = wstrb;
        std::memcpy(beat.data.data(), wdata, kBeatBytes);
    }

    // The oldest burst reaches memory. If its buffer object has been freed meanwhile, it is dropped.
    void land() {
        const Posted &burst = posted_.front();
        if (uint8_t *host = bus_.find(burst.address))
            for (const Beat &beat : burst.beats) store(host + kBeatBytes * (&beat - burst.beats.data()), beat.strobes, beat.data.data());
        posted_.pop_front();
    }

    Bus bus_;
    uint64_t latency_;
    uint64_t posted_clocks_;
    unsigned outstanding_;
    Stall stall_;
    std::deque<Posted> posted_;
    uint64_t beats_ = 0;
    Ring<Burst, kMaxOutstanding> data_;
    Ring<Burst, kMaxOutstanding> answers_;
};

}  // namespace emu

#endif
