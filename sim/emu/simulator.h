// SPDX-License-Identifier: Apache-2.0
// The simulators in an xclbin's BITSTREAM section: shared libraries that are loaded from memory, not from disk.
#ifndef HYPERSONIC_EMU_SIMULATOR_H
#define HYPERSONIC_EMU_SIMULATOR_H

#include <cstdint>
#include <span>
#include <vector>

#include "axlf.h"
#include "device_model.h"

namespace emu {

// One loaded copy with its own global variables, so that compute units with a copy each share nothing.
class Simulator {
public:
    // Throws EINVAL for bytes that are not a simulator for this machine, this ABI and this mode.
    Simulator(std::span<const uint8_t> image, Mode mode);
    ~Simulator();
    Simulator(const Simulator &) = delete;
    Simulator &operator=(const Simulator &) = delete;

    const hypersonic_device_model_api &api() const { return *api_; }

private:
    void *library_ = nullptr;
    const hypersonic_device_model_api *api_ = nullptr;
};

// The simulator in BITSTREAM for each kernel.
class Images {
public:
    // bitstream: one simulator, or an uncompressed ustar archive of one for each kernel, <kernel>.so; it must outlive this
    // object. Throws EINVAL for an archive that is damaged or has other members.
    explicit Images(std::span<const uint8_t> bitstream);

    // Throws EINVAL if the archive has no simulator of the kernel.
    std::span<const uint8_t> of(const std::string &kernel) const;

private:
    struct Member {
        std::string kernel;
        std::span<const uint8_t> image;
    };
    const std::span<const uint8_t> bitstream_;
    std::vector<Member> members_;  // empty if BITSTREAM is not an archive
};

}  // namespace emu

#endif
