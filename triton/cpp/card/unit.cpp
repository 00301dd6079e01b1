// SPDX-License-Identifier: Apache-2.0
#include "card/unit.hpp"

#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

#include "card/constants.inc"
#include "driver/error.hpp"
#include "model/sha256.hpp"

namespace hypersonic {
namespace {

using namespace std::chrono_literals;

constexpr auto kIdleTimeout = 1s;
constexpr auto kPoll = 10ms;
constexpr std::size_t kPiece = 1 << 20;
constexpr unsigned kBeatBytes = 64;

bool knows_registers(const Library& library, Handle kernel) noexcept {
  try {
    return library.read_register(kernel, registers::kVersion) >> 16 == registers::kMapVersion >> 16;
  } catch (const Error&) {
    return false;
  }
}

std::string accesses(std::uint32_t error) {
  const bool read = (error & registers::kReadError) != 0;
  const bool write = (error & registers::kWriteError) != 0;
  return read && write ? "a read and a write" : read ? "a read" : write ? "a write" : "";
}

// Reads a file into memory and returns its SHA-256. Throws Error (Weights).
std::string fill(std::uint8_t* memory, const std::string& path, std::size_t bytes) {
  std::ifstream file(path, std::ios::binary);
  Sha256 sha;
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t piece = std::min(kPiece, bytes - at);
    file.read(reinterpret_cast<char*>(memory + at), static_cast<std::streamsize>(piece));
    if (static_cast<std::size_t>(file.gcount()) != piece) {
      throw Error(Kind::Weights, path + " cannot be read, or has less than " + std::to_string(bytes) +
                                     " bytes: copy the whole version directory, or publish the model again");
    }
    sha.update(memory + at, piece);
  }
  if (file.peek() != std::ifstream::traits_type::eof()) {
    throw Error(Kind::Weights, path + " has more than " + std::to_string(bytes) + " bytes: publish the model again");
  }
  return sha.hex();
}

}  // namespace

Unit::Unit(const Library& library, Handle device, const Xclbin& contents, Usage& usage, const std::string& kernel,
           const std::string& name)
    : library_(library),
      device_(device),
      banks_(contents.banks),
      usage_(usage),
      name_(name),
      kernel_(library.open_kernel(device, contents.uuid, kernel + ":{" + name + "}")) {
  tells_ = knows_registers(library_, kernel_);
  try {
    check_fit();
    new_busy_cycles();  // those of an earlier process
  } catch (...) {
    library_.close_kernel(kernel_);
    throw;
  }
}

Unit::~Unit() {
  dispose([library = &library_, kernel = kernel_] { library->close_kernel(kernel); });
}

void Unit::require_service() const {
  if (!in_service()) {
    const std::scoped_lock lock(mutex_);
    throw Error(Kind::ComputeUnitOutOfService, "compute unit " + name_ + " is out of service: " + why_);
  }
}

bool Unit::take_out_of_service(const std::string& why) noexcept {
  const std::scoped_lock lock(mutex_);
  const bool before = in_service_.exchange(false);
  if (before) {
    why_ = why;
  }
  return before;
}

void Unit::check_present() const {
  if (tells_ && !knows_registers(library_, kernel_)) {
    throw Error(Kind::DeviceLost, "compute unit " + name_ + " does not answer: the card is gone from the bus or was reset; " +
                                      kReset + " when it does not come back");
  }
}

void Unit::check_accesses() {
  if (!tells_) {
    return;
  }
  const std::string failed = accesses(library_.read_register(kernel_, registers::kAxiError));
  if (!failed.empty()) {
    const std::string text = "a run on " + name_ + " completed, but the memory responded to " + failed +
                             " with an error (AXI_ERROR): its results may be wrong; the compute unit is out of service and the "
                             "others continue: " +
                             kReset;
    take_out_of_service(text);
    throw Error(Kind::MemoryAccess, text);
  }
}

std::string Unit::bank(int group) const {
  const auto index = static_cast<std::size_t>(group);
  return index < banks_.size() ? banks_[index] : "memory " + std::to_string(group);
}

std::uint64_t Unit::busy_cycles() const {
  std::uint32_t high = library_.read_register(kernel_, registers::kBusyCycles + 4);
  while (true) {
    const std::uint32_t low = library_.read_register(kernel_, registers::kBusyCycles);
    const std::uint32_t before = high;
    high = library_.read_register(kernel_, registers::kBusyCycles + 4);
    if (before == high) {
      return std::uint64_t{high} << 32 | low;
    }
  }
}

std::uint64_t Unit::new_busy_cycles() noexcept {
  try {
    const std::uint64_t now = tells_ ? busy_cycles() : 0;
    const std::uint64_t before = std::exchange(busy_cycles_, now);
    return now >= before ? now - before : now;  // after a reset of the card it counts from 0
  } catch (const Error&) {
    return 0;
  }
}

void Unit::check_fit() const {
  if (!tells_) {
    return;
  }
  const auto deadline = std::chrono::steady_clock::now() + kIdleTimeout;
  while ((library_.read_register(kernel_, registers::kControl) & registers::kApIdle) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw Error(Kind::ComputeUnitOutOfService, "compute unit " + name_ +
                                                     " is not idle before its first run: an earlier run is still "
                                                     "hung, or another process runs it; " +
                                                     kReset);
    }
    std::this_thread::sleep_for(kPoll);
  }
  const std::string failed = accesses(library_.read_register(kernel_, registers::kAxiError));
  if (!failed.empty()) {
    throw Error(Kind::ComputeUnitOutOfService,
                "compute unit " + name_ + " has AXI_ERROR set before its first run (" + failed + " since reset): " + kReset);
  }
}

std::shared_ptr<Buffer> Unit::weights(const std::string& path, std::size_t bytes, const std::string& sha256) {
  const std::scoped_lock lock(weights_mutex_);
  if (auto there = weights_[sha256].lock()) {
    return there;
  }
  auto buffer = loaded(path, bytes, sha256);
  weights_[sha256] = buffer;
  return buffer;
}

std::shared_ptr<Buffer> Unit::loaded(const std::string& path, std::size_t bytes, const std::string& sha256) {
  const std::uint64_t wanted =
      tells_ ? std::uint64_t{library_.read_register(kernel_, registers::kWeightsBeats)} * kBeatBytes : bytes;
  if (wanted == 0 || wanted > bytes) {
    throw Error(Kind::XclbinMismatch, "compute unit " + name_ + " reads " + std::to_string(wanted) + " bytes of weights, " +
                                          path + " has " + std::to_string(bytes) +
                                          ": they are not from the same build: publish the model again");
  }
  auto buffer = std::make_shared<Buffer>(*this, bytes, kW);
  if (buffer->address() == last_weights()) {
    // The kernel would consider the weights at this address loaded. While it is allocated, another buffer has another address.
    buffer = std::make_shared<Buffer>(*this, bytes, kW);
  }
  const std::string found = fill(buffer->data(), path, bytes);
  if (found != sha256) {
    throw Error(Kind::Weights, path + " has sha256 " + found + ", expected " + sha256 +
                                   " as in the manifest: it was changed, or is from another build: publish the model again");
  }
  buffer->sync(kToDevice, bytes);
  return buffer;
}

std::uint64_t Unit::last_weights() const noexcept {
  try {
    return library_.read_register(kernel_, registers::kW) | std::uint64_t{library_.read_register(kernel_, registers::kW + 4)}
                                                                << 32;
  } catch (const Error&) {
    return ~std::uint64_t{0};
  }
}

void Unit::dispose(std::function<void()> free) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (!in_service() && !released_) {
      held_.push_back(std::move(free));
      return;
    }
  }
  free();
}

void Unit::release() noexcept {
  std::vector<std::function<void()>> held;
  {
    const std::scoped_lock lock(mutex_);
    released_ = true;
    held.swap(held_);
  }
  for (const auto& free : held) {
    free();
  }
}

Buffer::Buffer(Unit& unit, std::size_t bytes, Argument argument)
    : unit_(unit),
      bytes_(bytes),
      group_(unit.library().group_id(unit.kernel(), argument)),
      handle_(unit.library().allocate(unit.device(), bytes, group_)) {
  try {
    data_ = unit.library().map(handle_);
  } catch (...) {
    unit.library().free(handle_);
    throw;
  }
  unit.usage().hold(unit.bank(group_), static_cast<std::int64_t>(bytes));
}

Buffer::~Buffer() {
  unit_.dispose([library = &unit_.library(), handle = handle_, usage = &unit_.usage(), bank = unit_.bank(group_),
                 bytes = static_cast<std::int64_t>(bytes_)] {
    library->free(handle);
    usage->hold(bank, -bytes);
  });
}

void Buffer::sync(Direction direction, std::size_t bytes) const {
  unit_.library().sync(handle_, direction, bytes);
  (direction == kToDevice ? unit_.usage().bytes_to_card : unit_.usage().bytes_from_card) += bytes;
}

}  // namespace hypersonic
