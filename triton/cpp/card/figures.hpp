// SPDX-License-Identifier: Apache-2.0
// What is counted of cards and compute units, for metrics. Any thread may use it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace hypersonic {

// The time of the steady clock in ns.
std::uint64_t now_ns() noexcept;

// What a model version has done on a compute unit.
class Figures {
 public:
  std::atomic<std::uint64_t> runs{0};
  std::atomic<std::uint64_t> timeouts{0};
  std::atomic<std::uint64_t> revived{0};
  std::atomic<std::uint64_t> bytes_in{0};
  std::atomic<std::uint64_t> bytes_out{0};

  // Exists while a run is in flight. Runs that overlap count once.
  class InFlight {
   public:
    explicit InFlight(Figures& figures);
    ~InFlight();
    InFlight(const InFlight&) = delete;
    InFlight& operator=(const InFlight&) = delete;

   private:
    Figures& figures_;
  };
  // The time with a run in flight.
  std::uint64_t busy_ns() const;

 private:
  mutable std::mutex mutex_;
  unsigned in_flight_ = 0;
  std::uint64_t since_ns_ = 0;
  std::uint64_t busy_ns_ = 0;
};

// What this process has sent to a card and fetched from it, and what it holds in each memory bank.
class Usage {
 public:
  std::atomic<std::uint64_t> loads{0};  // of xclbins
  std::atomic<std::uint64_t> bytes_to_card{0};
  std::atomic<std::uint64_t> bytes_from_card{0};

  // bytes: negative for a buffer that was freed.
  void hold(const std::string& bank, std::int64_t bytes);
  // By the tag of the bank in the xclbin.
  std::map<std::string, double> held_bytes() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double> held_;
};

}  // namespace hypersonic
