// SPDX-License-Identifier: Apache-2.0
// A card's address, serial number, temperatures and power, from the files of XRT's driver in sysfs, as host/sysfs.py and
// host/telemetry.py read them. What cannot be read is absent. tests/triton compares the two.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace hypersonic {

struct Telemetry {
  std::map<std::string, double> temperatures_c;  // by sensor
  std::optional<double> power_w;
};

// The PCI addresses of the cards that this process was given, in XRT's order.
std::vector<std::string> card_addresses(const std::filesystem::path& sysfs);
// The serial number of the card at a PCI address, "" without a plausible one.
std::string serial_number(const std::string& address, const std::filesystem::path& sysfs);
// Blocks for as long as the card's driver does.
Telemetry read_telemetry(const std::string& address, const std::filesystem::path& sysfs);

// The readings of one card. A thread of its own reads it, so that a driver that hangs delays a caller by a quarter of a second.
class Sensors : public std::enable_shared_from_this<Sensors> {
 public:
  explicit Sensors(std::function<Telemetry()> read) : read_(std::move(read)) {}

  // A new reading, or the last one if the driver takes long; nothing once that is older than a minute.
  Telemetry latest();

 private:
  void renew() noexcept;

  std::function<Telemetry()> read_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool reading_ = false;
  Telemetry last_;
  std::chrono::steady_clock::time_point at_;
};

}  // namespace hypersonic
