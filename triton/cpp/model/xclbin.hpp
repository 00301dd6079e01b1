// SPDX-License-Identifier: Apache-2.0
// What the backend needs of an xclbin: kernels with their compute units and digests, memory banks, the clock. The layout is
// that of firmware/xclbin/container.py. It is read as hostile input: every offset and size is checked against the file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hypersonic {

struct Xclbin {
  std::string target;                                      // hw, hw_emu, sw_emu
  std::string vbnv;                                        // the name of the platform
  std::string uuid;                                        // 32 hex digits
  std::vector<std::pair<std::string, std::string>> units;  // kernel and compute unit
  std::map<std::string, std::string> digests;              // of kernels, where they are known
  std::vector<std::string> banks;                          // the tag of each memory group
  unsigned kernel_clock_mhz = 0;                           // 0 if it has none

  // The names of a kernel's compute units.
  std::vector<std::string> units_of(const std::string& kernel) const;
  std::string digest_of(const std::string& kernel) const;
  // True if this xclbin has a kernel of `own`: it is the same xclbin, or one for the same platform with an equal kernel.
  bool runs(const Xclbin& own, const std::string& kernel) const;
};

// Reads a file without its image. Throws Error (XclbinMismatch).
Xclbin read_xclbin(const std::string& path);

}  // namespace hypersonic
