// SPDX-License-Identifier: Apache-2.0
// One direction of a card's PCIe link.
#ifndef HYPERSONIC_EMU_PCIE_H
#define HYPERSONIC_EMU_PCIE_H

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <set>

#include "options.h"

namespace emu {

// Copies at the same time share the link's rate evenly, and none is faster than the rate of one transfer. Any thread.
class PcieLink {
public:
    // wrong_from: the first copy, counted from 1, whose last byte has a wrong bit, as those of all later ones; 0: none has.
    explicit PcieLink(LinkRates rates, uint64_t wrong_from = 0) : rates_(rates), wrong_from_(wrong_from) {}

    // Copies, and returns when the link has had the time for it.
    void copy(void *to, const void *from, size_t size_bytes) {
        std::memcpy(to, from, size_bytes);
        if (wrong_from_ != 0 && size_bytes != 0 && ++copies_ >= wrong_from_) static_cast<uint8_t *>(to)[size_bytes - 1] ^= 1;
        if (rates_.total_mb_s == 0 && rates_.transfer_mb_s == 0) return;
        std::unique_lock lock(mutex_);
        advance();
        const double end = carried_ + static_cast<double>(size_bytes);
        ends_.insert(end);
        next_.notify_all();  // the others are slower now
        while (carried_ < end) {
            next_.wait_until(lock, time_ + std::chrono::ceil<Clock::duration>(Microseconds((*ends_.begin() - carried_) / rate())));
            advance();
        }
    }

private:
    using Clock = std::chrono::steady_clock;
    using Microseconds = std::chrono::duration<double, std::micro>;

    // Bytes per microsecond of each of the copies.
    double rate() const {
        const double even = rates_.total_mb_s / static_cast<double>(ends_.size());
        if (rates_.total_mb_s == 0) return rates_.transfer_mb_s;
        return rates_.transfer_mb_s == 0 ? even : std::min(even, rates_.transfer_mb_s);
    }

    // Carry bytes until now, and forget the copies that are over.
    void advance() {
        const Clock::time_point now = Clock::now();
        bool over = false;
        while (!ends_.empty()) {
            const double end = *ends_.begin();
            const auto at = time_ + std::chrono::ceil<Clock::duration>(Microseconds((end - carried_) / rate()));
            if (at > now) {
                carried_ += rate() * Microseconds(now - time_).count();
                break;
            }
            carried_ = end;
            time_ = at;
            ends_.erase(ends_.begin());
            over = true;
        }
        time_ = now;
        if (over) next_.notify_all();
    }

    const LinkRates rates_;
    const uint64_t wrong_from_;
    std::atomic<uint64_t> copies_ = 0;
    std::mutex mutex_;
    std::condition_variable next_;
    Clock::time_point time_{};
    double carried_ = 0;            // bytes of a copy that was there all the time, until time_
    std::multiset<double> ends_{};  // of the copies in flight: their carried_ when they are over
};

}  // namespace emu

#endif
