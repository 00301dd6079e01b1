// SPDX-License-Identifier: Apache-2.0
// A compute unit of an open card, which models may share, and the memory that it works on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "card/figures.hpp"
#include "driver/library.hpp"
#include "model/xclbin.hpp"

namespace hypersonic {

// How to make a card usable again after a run has hung, as an instruction for the operator: Library.reset of host/xrt.py.
inline constexpr const char* kReset = "reset the card (`xrt-smi reset`; `xbutil reset` before XRT 2.18)";

// The indices of a kernel's arguments.
enum Argument : int { kX = 0, kY = 1, kRows = 2, kW = 3 };

class Buffer;

// Opened exclusively, because XRT allows access to registers only then. Any thread may use it.
//
// It is taken out of service when a run does not complete. Until the card is reset, that run may still write into the unit's
// buffers, so these are not freed before release().
class Unit {
 public:
  // Opens and checks the unit. Throws Error: ComputeUnitNotFound, ComputeUnitOutOfService (an earlier run is still hung).
  // contents: of the xclbin on the card.
  Unit(const Library& library, Handle device, const Xclbin& contents, Usage& usage, const std::string& kernel,
       const std::string& name);
  ~Unit();
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  const std::string& name() const noexcept { return name_; }
  const Library& library() const noexcept { return library_; }
  Handle kernel() const noexcept { return kernel_; }
  Handle device() const noexcept { return device_; }
  Usage& usage() const noexcept { return usage_; }
  // The name of a memory group.
  std::string bank(int group) const;
  bool in_service() const noexcept { return in_service_.load(); }

  // Throws Error (ComputeUnitOutOfService) with the reason.
  void require_service() const;
  // Returns whether it was in service.
  bool take_out_of_service(const std::string& why) noexcept;

  // Throws Error (DeviceLost) if the card does not answer.
  void check_present() const;
  // Checks the memory's responses to the last runs. Throws Error (MemoryAccess), and takes the unit out of service.
  void check_accesses();
  // The clocks with a run in flight since the last call; 0 where registers cannot be read. One thread calls it.
  std::uint64_t new_busy_cycles() noexcept;

  // The weights in a file, in the bank of argument w; equal weights are stored once. Throws Error.
  std::shared_ptr<Buffer> weights(const std::string& path, std::size_t bytes, const std::string& sha256);

  // Frees an object of the unit now, or once the card is released if the unit may still use it.
  void dispose(std::function<void()> free) noexcept;
  // Frees everything: the card has been reset, or its next user checks the unit for a hung run.
  void release() noexcept;

  // Held while a run is started.
  std::mutex starting;

 private:
  void check_fit() const;
  std::uint64_t last_weights() const noexcept;
  std::uint64_t busy_cycles() const;
  std::shared_ptr<Buffer> loaded(const std::string& path, std::size_t bytes, const std::string& sha256);

  const Library& library_;
  Handle device_;
  std::vector<std::string> banks_;
  Usage& usage_;
  std::string name_;
  Handle kernel_;
  // True if the registers can be read and are those of this project's kernels.
  bool tells_;
  std::uint64_t busy_cycles_ = 0;  // that were counted
  std::atomic<bool> in_service_{true};
  bool released_ = false;
  mutable std::mutex mutex_;
  std::string why_;
  std::vector<std::function<void()>> held_;
  std::mutex weights_mutex_;
  std::map<std::string, std::weak_ptr<Buffer>> weights_;
};

// A buffer object in the bank of a unit's argument.
class Buffer {
 public:
  // Throws Error (BufferObject).
  Buffer(Unit& unit, std::size_t bytes, Argument argument);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Handle handle() const noexcept { return handle_; }
  // The host's copy.
  std::uint8_t* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::uint64_t address() const noexcept { return unit_.library().address(handle_); }
  // Copies its first bytes. Throws Error (BufferObject).
  void sync(Direction direction, std::size_t bytes) const;

 private:
  Unit& unit_;
  std::size_t bytes_;
  int group_;
  Handle handle_;
  std::uint8_t* data_;
};

}  // namespace hypersonic
