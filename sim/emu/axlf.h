// SPDX-License-Identifier: Apache-2.0
// The parts of an xclbin that the emulated card needs, read from the AXLF container (layout: XRT's xrt/detail/xclbin.h).
#ifndef HYPERSONIC_EMU_AXLF_H
#define HYPERSONIC_EMU_AXLF_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace emu {

using Uuid = std::array<uint8_t, 16>;

enum class Mode { kHardware, kHwEmu, kSwEmu };

// One entry of MEM_TOPOLOGY or GROUP_TOPOLOGY.
struct MemoryBank {
    bool used;
    uint64_t size_bytes;
    uint64_t base;
    std::string tag;
};

// One compute unit: an entry of IP_LAYOUT of type IP_KERNEL with the name "kernel:compute_unit".
struct Ip {
    int layout_index;
    uint8_t control_protocol;  // 0 ap_ctrl_hs, 1 ap_ctrl_chain, 2 ap_ctrl_none
    uint64_t base;
    std::string kernel;
    std::string compute_unit;
};

struct Connection {
    int argument;
    int ip;      // index in IP_LAYOUT
    int memory;  // index in the memory topology
};

struct Argument {
    std::string name;
    uint32_t offset;
    uint32_t size_bytes;
    bool is_global;
};

// A kernel and its arguments, indexed by their id.
struct Kernel {
    std::string name;
    std::vector<Argument> arguments;
    uint64_t control_range_bytes;
};

struct Xclbin {
    Uuid uuid;
    Mode mode;
    std::vector<MemoryBank> banks;  // of GROUP_TOPOLOGY if there is one, so that the indices are XRT's
    std::vector<Ip> compute_units;  // in the order of their base addresses, as in XRT
    std::vector<Connection> connections;
    std::vector<Kernel> kernels;
    std::vector<uint8_t> bitstream;
};

// Reads an xclbin and checks every length in it against the size of the file. Throws Error: ENOENT or EIO for a file that
// cannot be read, EINVAL for one that is not a complete xclbin.
Xclbin read_xclbin(const std::string &path);

// Reads the kernels and their arguments from EMBEDDED_METADATA. Throws EINVAL.
std::vector<Kernel> read_kernels(const std::string &xml);

std::string uuid_text(const Uuid &uuid);

}  // namespace emu

#endif
