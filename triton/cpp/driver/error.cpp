// SPDX-License-Identifier: Apache-2.0
#include "driver/error.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace hypersonic {
namespace {

struct Cause {
  int number;
  const char* name;
  Kind kind;
  const char* advice;
};

// errno -> kind and what to do: the table of host/errors.py, from which build.py writes causes.inc
constexpr Cause kCauses[] = {
#include "causes.inc"
};

std::string described(int number) {
  std::array<char, 128> text{};
  return strerror_r(number, text.data(), text.size());
}

}  // namespace

Error failure(Kind kind, const std::string& what, int code) {
  const int number = code == -1 ? 0 : std::abs(code);
  if (number == ENODEV && kind == Kind::DeviceNotFound) {
    return {kind, what + ": there is no such card; `hypersonic devices` lists the cards"};
  }
  for (const Cause& cause : kCauses) {
    if (cause.number == number) {
      return {cause.kind, what + ": XRT answered " + cause.name + " (" + described(number) + "); " + cause.advice};
    }
  }
  const std::string answered =
      number != 0 ? ": XRT answered errno " + std::to_string(number) + " (" + described(number) + ")" : "";
  return {kind, what + answered + "; XRT's own message is above, on standard error"};
}

std::string quoted(const std::string& text, std::size_t limit) {
  std::string shown = "'";
  for (const char letter : text.substr(0, limit)) {
    const auto code = static_cast<unsigned char>(letter);
    shown += code < 0x20 || code == 0x7f ? '?' : letter;
  }
  return shown + (text.size() > limit ? "'.." : "'");
}

}  // namespace hypersonic
