// SPDX-License-Identifier: Apache-2.0
// One direction of a card's PCIe link.
#ifndef HYPERSONIC_EMU_PCIE_H
#define HYPERSONIC_EMU_PCIE_H

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>

namespace emu {

// Copies one after another, in the order of the calls. Any thread.
class PcieLink {
public:
    // mb_s: the rate in 10^6 bytes per second; 0: as fast as this machine copies.
    explicit PcieLink(uint64_t mb_s) : bytes_per_us_(mb_s) {}

    // Copies when the copies before it are over, and returns when the link has had the time for it.
    void copy(void *to, const void *from, size_t size_bytes) {
        const Turn turn(*this);
        std::memcpy(to, from, size_bytes);
        if (bytes_per_us_ == 0) return;
        const auto now = std::chrono::steady_clock::now();
        if (free_at_ < now) free_at_ = now;
        free_at_ += std::chrono::nanoseconds(size_bytes * 1000 / bytes_per_us_);
        std::this_thread::sleep_until(free_at_);
    }

private:
    class Turn {
    public:
        explicit Turn(PcieLink &link) : link_(link) {
            std::unique_lock lock(link_.mutex_);
            const uint64_t ticket = link_.tickets_++;
            link_.next_.wait(lock, [&] { return link_.serving_ == ticket; });
        }
        ~Turn() {
            const std::lock_guard lock(link_.mutex_);
            if (++link_.serving_ != link_.tickets_) link_.next_.notify_all();
        }
        Turn(const Turn &) = delete;
        Turn &operator=(const Turn &) = delete;

    private:
        PcieLink &link_;
    };

    const uint64_t bytes_per_us_;
    std::mutex mutex_;
    std::condition_variable next_;
    uint64_t tickets_ = 0;
    uint64_t serving_ = 0;
    std::chrono::steady_clock::time_point free_at_{};  // used by the copy whose turn it is
};

}  // namespace emu

#endif
