// SPDX-License-Identifier: Apache-2.0
// The emulated card's memory: banks of an xclbin's MEM_TOPOLOGY, and the buffer objects' places in them.
#ifndef HYPERSONIC_EMU_MEMORY_H
#define HYPERSONIC_EMU_MEMORY_H

#include <cstdint>
#include <map>
#include <shared_mutex>
#include <vector>

#include "axlf.h"

namespace emu {

// Device memory is host memory of its own, apart from the buffer objects' host side: a forgotten sync shows, as on a
// card. An address range is reserved whole and lives as long as the card, so that an address once resolved stays safe to
// touch when its buffer object is freed under a running kernel. Any thread.
class Memory {
public:
    explicit Memory(const std::vector<MemoryBank> &banks);
    ~Memory();
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    // Device address of `size_bytes` in `bank`, on a 4 KiB border. Throws ENOMEM when the bank is full.
    uint64_t allocate(const MemoryBank &bank, uint64_t size_bytes);
    void release(uint64_t address);

    // Host address of a device address inside a buffer object, else nullptr; bytes from there to its end.
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
