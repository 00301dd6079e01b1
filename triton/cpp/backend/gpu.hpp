// SPDX-License-Identifier: Apache-2.0
// Inputs in GPU memory, as ensembles and CUDA shared memory give them beside GPU models, copied by the CUDA runtime of the
// machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hypersonic {

class HostCopy {
 public:
  // Throws TritonError (UNSUPPORTED) if there is no libcudart.so, INTERNAL if it cannot copy.
  HostCopy(const void* device_memory, std::size_t bytes);
  const std::uint8_t* data() const noexcept { return data_.get(); }

 private:
  std::unique_ptr<std::uint8_t[]> data_;
};

}  // namespace hypersonic
