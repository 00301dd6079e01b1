// SPDX-License-Identifier: Apache-2.0
// The simulator in an xclbin's BITSTREAM section: a shared library that is loaded from memory, not from disk.
#ifndef HYPERSONIC_EMU_SIMULATOR_H
#define HYPERSONIC_EMU_SIMULATOR_H

#include <cstdint>
#include <vector>

#include "axlf.h"
#include "device_model.h"

namespace emu {

// One loaded copy with its own global variables, so that compute units with a copy each share nothing.
class Simulator {
public:
    // Throws EINVAL for bytes that are not a simulator for this machine, this ABI and this mode.
    Simulator(const std::vector<uint8_t> &image, Mode mode);
    ~Simulator();
    Simulator(const Simulator &) = delete;
    Simulator &operator=(const Simulator &) = delete;

    const hypersonic_device_model_api &api() const { return *api_; }

private:
    void *library_ = nullptr;
    const hypersonic_device_model_api *api_ = nullptr;
};

}  // namespace emu

#endif
