// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>

#include "error.h"

namespace emu {

namespace {

constexpr uint64_t kPage = 4096;

uint64_t banked_bytes(uint64_t size_bytes) { return (size_bytes + kPage - 1) / kPage * kPage; }

}  // namespace

// Banks that touch or overlap (HBM channels, a group and its members) share one reservation.
Memory::Memory(const std::vector<MemoryBank> &banks) {
    std::vector<MemoryBank> sorted(banks);
    std::sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) { return a.base < b.base; });
    for (const MemoryBank &bank : sorted) {
        if (bank.size_bytes == 0) continue;
        if (!ranges_.empty() && bank.base <= ranges_.back().base + ranges_.back().size_bytes) {
            Range &last = ranges_.back();
            last.size_bytes = std::max(last.size_bytes, bank.base + bank.size_bytes - last.base);
        } else {
            ranges_.push_back({bank.base, bank.size_bytes, nullptr});
        }
    }
}

Memory::~Memory() {
    for (const Range &range : ranges_)
        if (range.host != nullptr) munmap(range.host, range.size_bytes);
}

const Memory::Range *Memory::find_range(uint64_t address) const {
    for (const Range &range : ranges_)
        if (address >= range.base && address - range.base < range.size_bytes) return &range;
    return nullptr;
}

Memory::Range &Memory::range_of(uint64_t address) {
    auto &range = const_cast<Range &>(*find_range(address));
    if (range.host != nullptr) return range;
    void *host = mmap(nullptr, range.size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED)
        throw Error(ENOMEM, "Failed to reserve " + std::to_string(range.size_bytes) + " bytes of address space for the memory at " +
                                hex(range.base));
    range.host = static_cast<uint8_t *>(host);
    return range;
}

// First fit between the bank's buffer objects.
uint64_t Memory::allocate(const MemoryBank &bank, uint64_t size_bytes) {
    const std::unique_lock lock(mutex_);
    const uint64_t end = bank.base + bank.size_bytes;
    uint64_t address = bank.base;
    auto next = sizes_.lower_bound(bank.base);
    if (next != sizes_.begin()) {
        const auto &[before, before_bytes] = *std::prev(next);
        address = std::max(address, before + banked_bytes(before_bytes));
    }
    while (next != sizes_.end() && next->first < end && next->first - address < banked_bytes(size_bytes)) {
        address = next->first + banked_bytes(next->second);
        ++next;
    }
    if (address > end || size_bytes > bank.size_bytes || end - address < banked_bytes(size_bytes))
        throw Error(ENOMEM, "Failed to allocate a buffer of " + std::to_string(size_bytes) + " bytes: memory bank '" + bank.tag + "' of " +
                                std::to_string(bank.size_bytes) + " bytes is full");
    range_of(address);
    sizes_.emplace(address, size_bytes);
    return address;
}

// Gives the pages back to the host's system; the next buffer object there is zero.
void Memory::release(uint64_t address) {
    const std::unique_lock lock(mutex_);
    const auto found = sizes_.find(address);
    if (found == sizes_.end()) return;
    const Range &range = range_of(address);
    madvise(range.host + (address - range.base), banked_bytes(found->second), MADV_DONTNEED);
    sizes_.erase(found);
}

uint8_t *Memory::resolve(uint64_t address, uint64_t *extent_bytes) const {
    const std::shared_lock lock(mutex_);
    auto found = sizes_.upper_bound(address);
    if (found == sizes_.begin()) return nullptr;
    --found;
    if (address - found->first >= found->second) return nullptr;
    *extent_bytes = found->second - (address - found->first);
    const Range *range = find_range(address);
    return range->host + (address - range->base);
}

bool Memory::empty() const {
    const std::shared_lock lock(mutex_);
    return sizes_.empty();
}

}  // namespace emu
