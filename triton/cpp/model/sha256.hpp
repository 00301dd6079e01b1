// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) of a file, since tritonserver's own libcrypto must not be linked a second time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace hypersonic {

class Sha256 {
 public:
  void update(const void* data, std::size_t bytes) noexcept;
  // 64 hex digits. Call it once, last.
  std::string hex() noexcept;

 private:
  void block(const std::uint8_t* data) noexcept;

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> buffer_{};
  std::size_t buffered_ = 0;
  std::uint64_t bytes_ = 0;
};

// The SHA-256 of a file's contents. Throws Error (Manifest) if it cannot be read.
std::string sha256_of_file(const std::string& path);

}  // namespace hypersonic
