// SPDX-License-Identifier: Apache-2.0
#include "model/sha256.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <vector>

#include "driver/error.hpp"

namespace hypersonic {
namespace {

constexpr std::size_t kBlock = 64;
constexpr std::size_t kPiece = 1 << 20;

constexpr std::array<std::uint32_t, 64> kRounds{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t rotated(std::uint32_t value, unsigned by) { return value >> by | value << (32 - by); }

}  // namespace

void Sha256::update(const void* data, std::size_t bytes) noexcept {
  const auto* next = static_cast<const std::uint8_t*>(data);
  bytes_ += bytes;
  while (bytes > 0) {
    if (buffered_ == 0 && bytes >= kBlock) {
      block(next);
      next += kBlock;
      bytes -= kBlock;
      continue;
    }
    const std::size_t taken = std::min(kBlock - buffered_, bytes);
    std::memcpy(buffer_.data() + buffered_, next, taken);
    buffered_ += taken;
    next += taken;
    bytes -= taken;
    if (buffered_ == kBlock) {
      block(buffer_.data());
      buffered_ = 0;
    }
  }
}

std::string Sha256::hex() noexcept {
  const std::uint64_t bits = bytes_ * 8;
  const std::uint8_t one = 0x80;
  const std::uint8_t zero = 0;
  update(&one, 1);
  while (buffered_ != kBlock - sizeof bits) {
    update(&zero, 1);
  }
  std::array<std::uint8_t, sizeof bits> length{};
  for (unsigned index = 0; index < length.size(); ++index) {
    length[index] = static_cast<std::uint8_t>(bits >> (56 - 8 * index));
  }
  update(length.data(), length.size());
  std::string text;
  for (const std::uint32_t word : state_) {
    for (unsigned shift = 32; shift != 0; shift -= 4) {
      text += "0123456789abcdef"[word >> (shift - 4) & 15];
    }
  }
  return text;
}

void Sha256::block(const std::uint8_t* data) noexcept {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t t = 0; t < 16; ++t) {
    const std::uint8_t* word = data + 4 * t;
    w[t] = std::uint32_t{word[0]} << 24 | std::uint32_t{word[1]} << 16 | std::uint32_t{word[2]} << 8 | word[3];
  }
  for (unsigned t = 16; t < 64; ++t) {
    const std::uint32_t low = rotated(w[t - 15], 7) ^ rotated(w[t - 15], 18) ^ w[t - 15] >> 3;
    const std::uint32_t high = rotated(w[t - 2], 17) ^ rotated(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + low + w[t - 7] + high;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (unsigned t = 0; t < 64; ++t) {
    const std::uint32_t first =
        h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & f) ^ (~e & g)) + kRounds[t] + w[t];
    const std::uint32_t second = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<std::uint32_t, 8> sums{a, b, c, d, e, f, g, h};
  for (unsigned index = 0; index < state_.size(); ++index) {
    state_[index] += sums[index];
  }
}

std::string sha256_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(Kind::Manifest, path + " cannot be read: copy the whole version directory, or publish the model again");
  }
  Sha256 sha;
  std::vector<char> piece(kPiece);
  while (file.read(piece.data(), kPiece) || file.gcount() > 0) {
    sha.update(piece.data(), static_cast<std::size_t>(file.gcount()));
  }
  return sha.hex();
}

}  // namespace hypersonic
