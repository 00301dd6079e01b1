// SPDX-License-Identifier: Apache-2.0
#include "backend/gpu.hpp"

#include <dlfcn.h>

#include <string>

#include "backend/triton.hpp"

namespace hypersonic {
namespace {

// cudaMemcpy of the CUDA runtime API, and cudaMemcpyDeviceToHost
using Memcpy = int (*)(void*, const void*, std::size_t, int);
constexpr int kDeviceToHost = 2;

Memcpy cuda_memcpy() noexcept {
  for (const char* name : {"libcudart.so", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
      return reinterpret_cast<Memcpy>(dlsym(library, "cudaMemcpy"));
    }
  }
  return nullptr;
}

}  // namespace

HostCopy::HostCopy(const void* device_memory, std::size_t bytes) : data_(new std::uint8_t[bytes]) {
  static const Memcpy copy = cuda_memcpy();
  if (copy == nullptr) {
    throw TritonError(TRITONSERVER_ERROR_UNSUPPORTED,
                      "an input is in GPU memory, and libcudart.so is not installed: send it in memory of the host");
  }
  if (const int code = copy(data_.get(), device_memory, bytes, kDeviceToHost); code != 0) {
    throw TritonError(TRITONSERVER_ERROR_INTERNAL,
                      "an input in GPU memory cannot be copied: cudaMemcpy returned " + std::to_string(code));
  }
}

}  // namespace hypersonic
