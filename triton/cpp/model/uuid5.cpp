// SPDX-License-Identifier: Apache-2.0
#include "model/uuid5.hpp"

#include <array>
#include <cstdint>

namespace hypersonic {
namespace {

constexpr std::array<unsigned char, 16> kDns{0x6b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x11, 0xd1,
                                             0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8};
constexpr std::size_t kBlock = 64;

using State = std::array<std::uint32_t, 5>;

std::uint32_t rotated(std::uint32_t value, unsigned by) { return value << by | value >> (32 - by); }

void add_block(State& state, const std::string& message, std::size_t at) {
  std::array<std::uint32_t, 80> w{};
  for (std::size_t byte = 0; byte < kBlock; ++byte) {
    w[byte / 4] = w[byte / 4] << 8 | static_cast<unsigned char>(message[at + byte]);
  }
  for (std::size_t t = 16; t < w.size(); ++t) {
    w[t] = rotated(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
  }
  auto [a, b, c, d, e] = state;
  for (std::size_t t = 0; t < w.size(); ++t) {
    const std::uint32_t mixed = t < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                                : t < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                                : t < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                         : (b ^ c ^ d) + 0xca62c1d6;
    const std::uint32_t next = rotated(a, 5) + mixed + e + w[t];
    e = d;
    d = c;
    c = rotated(b, 30);
    b = a;
    a = next;
  }
  state = {state[0] + a, state[1] + b, state[2] + c, state[3] + d, state[4] + e};
}

}  // namespace

std::string uuid5(const std::string& name) {
  std::string message(kDns.begin(), kDns.end());
  message += name;
  const std::uint64_t bits = message.size() * 8;
  message += '\x80';
  message.resize((message.size() + 8 + kBlock - 1) / kBlock * kBlock - 8, '\0');
  for (unsigned shift = 64; shift != 0; shift -= 8) {
    message += static_cast<char>(bits >> (shift - 8));
  }
  State state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  for (std::size_t at = 0; at < message.size(); at += kBlock) {
    add_block(state, message, at);
  }
  state[1] = (state[1] & 0xffff0fff) | 0x5000;  // the version
  state[2] = (state[2] & 0x3fffffff) | 0x80000000;
  std::string text;
  for (std::size_t digit = 0; digit < 32; ++digit) {
    text += digit == 8 || digit == 12 || digit == 16 || digit == 20 ? "-" : "";
    text += "0123456789abcdef"[state[digit / 8] >> (28 - digit % 8 * 4) & 15];
  }
  return text;
}

}  // namespace hypersonic
