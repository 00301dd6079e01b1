// SPDX-License-Identifier: Apache-2.0
#include "banks.h"

#include <algorithm>
#include <numeric>

namespace emu {

namespace {

bool contains(const MemoryBank &outer, const MemoryBank &inner) {
    return inner.base >= outer.base && inner.base - outer.base < outer.size_bytes && inner.size_bytes <= outer.size_bytes - (inner.base - outer.base);
}

// GROUP_TOPOLOGY lists groups of banks beside the banks themselves. A group has no memory of its own.
bool is_group(const std::vector<MemoryBank> &banks, const MemoryBank &bank) {
    return std::any_of(banks.begin(), banks.end(),
                       [&](const MemoryBank &other) { return other.size_bytes != 0 && other.size_bytes < bank.size_bytes && contains(bank, other); });
}

// The compute units with an argument that is connected to the bank, or to a group of banks with it.
std::vector<size_t> users(const Xclbin &xclbin, const MemoryBank &bank) {
    std::vector<size_t> found;
    for (size_t unit = 0; unit < xclbin.compute_units.size(); ++unit)
        if (std::any_of(xclbin.connections.begin(), xclbin.connections.end(), [&](const Connection &c) {
                return c.ip == xclbin.compute_units[unit].layout_index && c.memory >= 0 && static_cast<size_t>(c.memory) < xclbin.banks.size() &&
                       contains(xclbin.banks[static_cast<size_t>(c.memory)], bank);
            }))
            found.push_back(unit);
    return found;
}

}  // namespace

Banks::Banks(const Xclbin &xclbin) {
    std::vector<size_t> group(xclbin.compute_units.size());
    std::iota(group.begin(), group.end(), size_t{0});
    for (const MemoryBank &bank : xclbin.banks) {
        if (xclbin.mode != Mode::kHwEmu || bank.size_bytes == 0 || is_group(xclbin.banks, bank) || find(bank.base) != nullptr) continue;
        const std::vector<size_t> sharing = users(xclbin, bank);
        if (sharing.size() < 2) continue;
        shared_.push_back({bank.base, bank.size_bytes, std::make_unique<SharedBank>()});
        for (const size_t unit : sharing) std::replace(group.begin(), group.end(), size_t{group[unit]}, size_t{group[sharing.front()]});
    }
    for (size_t first = 0; first < group.size(); ++first) {
        std::vector<size_t> units;
        for (size_t unit = 0; unit < group.size(); ++unit)
            if (group[unit] == first) units.push_back(unit);
        if (!units.empty()) groups_.push_back(units);
    }
}

SharedBank *Banks::find(uint64_t address) const {
    for (const Range &range : shared_)
        if (address >= range.base && address - range.base < range.size_bytes) return range.bank.get();
    return nullptr;
}

}  // namespace emu
