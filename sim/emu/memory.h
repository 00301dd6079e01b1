// SPDX-License-Identifier: Apache-2.0
// The emulated card's memory: the banks of an xclbin's MEM_TOPOLOGY, and the addresses of the buffer objects in them.
#ifndef HYPERSONIC_EMU_MEMORY_H
#define HYPERSONIC_EMU_MEMORY_H

#include <cstdint>
#include <map>
#include <shared_mutex>
#include <vector>

#include "axlf.h"

namespace emu {

// Device memory is separate from the host memory of the buffer objects, so that a missing sync has an effect, as on a card.
// The whole address range of a bank is reserved as long as the card exists, so that a running kernel may safely access an
// address whose buffer object is freed meanwhile. Any thread.
class Memory {
public:
    explicit Memory(const std::vector<MemoryBank> &banks);
    ~Memory();
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    // Allocates `size_bytes` in `bank` and returns the device address, a multiple of 4 KiB. Throws ENOMEM if the bank is full.
    uint64_t allocate(const MemoryBank &bank, uint64_t size_bytes);
    void release(uint64_t address);

    // Returns the host address of a device address inside a buffer object and the bytes from there to its end; otherwise
    // nullptr.
    uint8_t *resolve(uint64_t address, uint64_t *extent_bytes) const;
    bool empty() const;

private:
    struct Range {
        uint64_t base;
        uint64_t size_bytes;
        uint8_t *host;
    };
    Range &range_of(uint64_t address);
    const Range *find_range(uint64_t address) const;

    mutable std::shared_mutex mutex_;
    std::vector<Range> ranges_;
    std::map<uint64_t, uint64_t> sizes_;  // address -> bytes of each buffer object
};

}  // namespace emu

#endif
