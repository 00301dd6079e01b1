// SPDX-License-Identifier: Apache-2.0
#include "card/figures.hpp"

#include <chrono>

namespace hypersonic {

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

Figures::InFlight::InFlight(Figures& figures) : figures_(figures) {
  const std::scoped_lock lock(figures_.mutex_);
  if (figures_.in_flight_++ == 0) {
    figures_.since_ns_ = now_ns();
  }
}

Figures::InFlight::~InFlight() {
  const std::scoped_lock lock(figures_.mutex_);
  if (--figures_.in_flight_ == 0) {
    figures_.busy_ns_ += now_ns() - figures_.since_ns_;
  }
}

std::uint64_t Figures::busy_ns() const {
  const std::scoped_lock lock(mutex_);
  return busy_ns_ + (in_flight_ != 0 ? now_ns() - since_ns_ : 0);
}

void Usage::hold(const std::string& bank, std::int64_t bytes) {
  const std::scoped_lock lock(mutex_);
  held_[bank] += static_cast<double>(bytes);
}

std::map<std::string, double> Usage::held_bytes() const {
  const std::scoped_lock lock(mutex_);
  return held_;
}

}  // namespace hypersonic
