// SPDX-License-Identifier: Apache-2.0
// The table of the files that the core's $readmemh reads; sim/card/simulator.py writes its entries.
#ifndef HYPERSONIC_MEMORY_FILE_H
#define HYPERSONIC_MEMORY_FILE_H

#include <cstddef>

namespace emu {

struct MemoryFile {
    const char *name;
    const char *begin;
    const char *end;
};

extern const MemoryFile *const kMemories;
extern const size_t kMemoryCount;

}  // namespace emu

#endif
