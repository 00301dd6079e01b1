// SPDX-License-Identifier: Apache-2.0
// The errors between this process and a card. Each text names the failure, the values got and expected, and what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace hypersonic {

// What failed; the names are those of host/errors.py without "Error".
enum class Kind {
  Device,
  LibraryNotFound,
  DeviceNotFound,
  DeviceBusy,
  DeviceLost,
  XclbinMismatch,
  Weights,
  ComputeUnitNotFound,
  BufferObject,
  Run,
  MemoryAccess,
  ComputeUnitTimeout,
  ComputeUnitOutOfService,
  Manifest,
};

class Error : public std::runtime_error {
 public:
  Error(Kind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

// The error of a failed call of XRT. Its kind follows from the errno where that identifies the cause; otherwise it is `kind`.
// code: an errno, positive or negative; 0 or -1 if XRT gave none.
Error failure(Kind kind, const std::string& what, int code);

// A text as errors show it: in quotes, without control characters, cut after `limit` bytes.
std::string quoted(const std::string& text, std::size_t limit = 80);

}  // namespace hypersonic
