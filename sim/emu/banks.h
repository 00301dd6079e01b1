// SPDX-License-Identifier: Apache-2.0
// The memory banks that several compute units of a card use. Each reads at most one beat and writes at most one beat per clock.
#ifndef HYPERSONIC_EMU_BANKS_H
#define HYPERSONIC_EMU_BANKS_H

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "axlf.h"

namespace emu {

enum Direction : unsigned { kRead = 0, kWrite = 1 };

// The clocks in which a bank reads and writes. Clocks are those of the lock step (worker.h); the compute units that use the
// bank are at most kClocks apart, because a register access takes at most 4096. For one thread.
class SharedBank {
public:
    bool free(Direction direction, uint64_t clock) const { return claimed_[direction][clock % kClocks] != clock + 1; }
    void claim(Direction direction, uint64_t clock) { claimed_[direction][clock % kClocks] = clock + 1; }

private:
    static constexpr size_t kClocks = 8192;
    std::array<std::vector<uint64_t>, 2> claimed_{std::vector<uint64_t>(kClocks), std::vector<uint64_t>(kClocks)};
};

// The shared banks of an xclbin, and which of its compute units have to advance in lock step because of them.
class Banks {
public:
    explicit Banks(const Xclbin &xclbin);

    // Compute units, by their indices in xclbin.compute_units: each is in one group, and shares no bank with those outside.
    const std::vector<std::vector<size_t>> &groups() const { return groups_; }
    // The shared bank with this address, or nullptr.
    SharedBank *find(uint64_t address) const;

private:
    struct Range {
        uint64_t base;
        uint64_t size_bytes;
        std::unique_ptr<SharedBank> bank;
    };

    std::vector<std::vector<size_t>> groups_;
    std::vector<Range> shared_;
};

}  // namespace emu

#endif
