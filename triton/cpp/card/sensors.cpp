// SPDX-License-Identifier: Apache-2.0
#include "card/sensors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <regex>
#include <system_error>
#include <thread>

namespace hypersonic {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kPatience = 250ms;
constexpr auto kStale = 60s;
constexpr std::size_t kMostEntries = 1024;
constexpr double kLeastC = -60;
constexpr double kMostC = 250;
constexpr double kMostW = 5000;

std::vector<std::string> names(const fs::path& directory) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end && found.size() < kMostEntries;
       entry.increment(error)) {
    found.push_back(entry->path().filename());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The path with its links resolved; nothing if it does not exist or is not below `root`.
std::optional<fs::path> resolved(const fs::path& path, const fs::path& root) {
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  const fs::path base = error ? fs::path() : fs::canonical(root, error);
  if (error || std::mismatch(base.begin(), base.end(), real.begin(), real.end()).first != base.end()) {
    return {};
  }
  return real;
}

// The text of a small regular file below `root`. A pipe or a device in its place is not opened.
std::optional<std::string> text(const fs::path& path, const fs::path& root) {
  const auto real = resolved(path, root);
  std::error_code error;
  if (!real || !fs::is_regular_file(*real, error)) {
    return {};
  }
  const int file = open(real->c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) {
    return {};
  }
  std::array<char, 128> buffer{};
  const ssize_t count = read(file, buffer.data(), buffer.size());
  close(file);
  if (count < 0) {
    return {};
  }
  const std::string whole(buffer.data(), static_cast<std::size_t>(count));
  const std::size_t first = whole.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : whole.substr(first, whole.find_last_not_of(" \t\r\n") + 1 - first);
}

std::optional<double> number(const fs::path& path, const fs::path& root) {
  static const std::regex kNumber("-?[0-9]{1,18}");
  const auto content = text(path, root);
  return content && std::regex_match(*content, kNumber) ? std::optional<double>(std::stod(*content)) : std::nullopt;
}

std::vector<fs::path> below(const fs::path& directory, const std::string& folder, const std::string& prefix) {
  std::vector<fs::path> found;
  for (const std::string& name : names(directory / folder)) {
    const auto path = name.rfind(prefix, 0) == 0 ? resolved(directory / folder / name, directory) : std::nullopt;
    if (path) {
      found.push_back(*path);
    }
  }
  return found;
}

std::optional<fs::path> card_directory(const std::string& address, const fs::path& sysfs) {
  return resolved(sysfs / "bus" / "pci" / "devices" / address, sysfs);
}

bool has_device_node(const fs::path& entry, const fs::path& sysfs) {
  static const std::regex kNode("renderD[0-9]{1,4}");
  bool any = false;
  for (const std::string& name : names(entry / "drm")) {
    if (std::regex_match(name, kNode)) {
      std::error_code error;
      any = true;
      if (fs::exists(sysfs.parent_path() / "dev" / "dri" / name, error)) {
        return true;
      }
    }
  }
  return !any;
}

bool is_ready(const fs::path& entry) {
  const auto content = text(entry / "ready", entry);
  return content && std::strtol(content->c_str(), nullptr, 0) != 0;
}

std::optional<double> celsius(std::optional<double> value, double per_degree) {
  const double degrees = value.value_or(0) / per_degree;
  return degrees != 0 && degrees >= kLeastC && degrees <= kMostC ? std::optional<double>(degrees) : std::nullopt;
}

std::optional<double> watts(const fs::path& path, const fs::path& directory) {
  const double value = number(path, directory).value_or(0) / 1e6;
  return value > 0 && value <= kMostW ? std::optional<double>(value) : std::nullopt;
}

// "FPGA TEMP" -> "fpga"
std::string sensor_of(const std::string& label) {
  static const std::regex kOther("[^A-Za-z0-9]+");
  constexpr std::size_t kMost = 32;
  const std::string suffix = "_temp";
  std::string name = std::regex_replace(label, kOther, "_");
  name.erase(0, std::min(name.find_first_not_of('_'), name.size()));
  name.erase(name.find_last_not_of('_') + 1);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  name = name.substr(0, kMost);
  const bool ends = name.size() >= suffix.size() && name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
  return ends ? name.substr(0, name.size() - suffix.size()) : name;
}

void read_hwmon(const fs::path& monitor, const fs::path& directory, std::map<std::string, double>& temperatures) {
  static const std::regex kInput("temp([0-9]{1,3})_input");
  for (const std::string& name : names(monitor)) {
    std::smatch match;
    if (!std::regex_match(name, match, kInput)) {
      continue;
    }
    const std::string label = text(monitor / ("temp" + match[1].str() + "_label"), directory).value_or("");
    const std::string sensor = sensor_of(label.empty() ? "temp" + match[1].str() : label);
    const auto degrees = celsius(number(monitor / name, directory), 1000);
    // settings, which are not measured: the targets of clock scaling, the fan's trigger
    if (!sensor.empty() && degrees && sensor.rfind("cs_target", 0) != 0 && sensor.rfind("tcrit", 0) != 0) {
      temperatures.emplace(sensor, *degrees);
    }
  }
}

void read_xmc(const fs::path& microblaze, const fs::path& directory, std::map<std::string, double>& temperatures) {
  std::map<std::string, std::string> files{{"xmc_fpga_temp", "fpga"},          {"xmc_hbm_temp", "hbm"},
                                           {"xmc_vccint_temp", "vccint"},      {"xmc_se98_temp0", "pcb_top_front"},
                                           {"xmc_se98_temp1", "pcb_top_rear"}, {"xmc_se98_temp2", "pcb_btm_front"}};
  for (const char* number : {"0", "1", "2", "3"}) {
    files[std::string("xmc_dimm_temp") + number] = std::string("dimm") + number;
    files[std::string("xmc_cage_temp") + number] = std::string("qspf_") + number;
  }
  for (const auto& [file, sensor] : files) {
    if (const auto degrees = celsius(number(microblaze / file, directory), 1)) {
      temperatures.emplace(sensor, *degrees);
    }
  }
}

}  // namespace

std::vector<std::string> card_addresses(const fs::path& sysfs) {
  static const std::regex kAddress("[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7]");
  const fs::path driver = sysfs / "bus" / "pci" / "drivers" / "xocl";
  std::vector<std::string> found;
  for (const std::string& name : names(driver)) {
    if (std::regex_match(name, kAddress) && has_device_node(driver / name, sysfs)) {
      found.push_back(name);
    }
  }
  std::stable_partition(found.begin(), found.end(), [&driver](const std::string& name) { return is_ready(driver / name); });
  return found;
}

std::string serial_number(const std::string& address, const fs::path& sysfs) {
  static const std::regex kSerial("[0-9A-Za-z]{6,32}");
  const auto directory = card_directory(address, sysfs);
  if (!directory) {
    return "";
  }
  for (const char* prefix : {"xmc.", "hwmon_sdm."}) {
    for (const fs::path& monitor : below(*directory, "", prefix)) {
      const std::string serial = text(monitor / "serial_num", *directory).value_or("");
      if (std::regex_match(serial, kSerial) && serial.find_first_not_of(serial[0]) != std::string::npos) {
        return serial;
      }
    }
  }
  return "";
}

Telemetry read_telemetry(const std::string& address, const fs::path& sysfs) {
  Telemetry telemetry;
  const auto directory = card_directory(address, sysfs);
  if (!directory) {
    return telemetry;
  }
  const auto read = [&](const std::vector<fs::path>& places, auto read_temperatures, const char* power) {
    for (const fs::path& place : places) {
      if (telemetry.temperatures_c.empty()) {
        read_temperatures(place, *directory, telemetry.temperatures_c);
      }
      telemetry.power_w = telemetry.power_w ? telemetry.power_w : watts(place / power, *directory);
    }
  };
  read(below(*directory, "hwmon", "hwmon"), read_hwmon, "power1_input");
  read(below(*directory, "", "xmc."), read_xmc, "xmc_power");
  return telemetry;
}

Telemetry Sensors::latest() {
  std::unique_lock lock(mutex_);
  if (!reading_) {
    // The library stays in memory when it is unloaded (-z nodelete), so a thread that a driver keeps may end at any time.
    try {
      std::thread([self = shared_from_this()] { self->renew(); }).detach();
      reading_ = true;
    } catch (const std::system_error&) {
      reading_ = false;  // there are no more threads: the last reading is all there is
    }
  }
  done_.wait_for(lock, kPatience, [this] { return !reading_; });
  return std::chrono::steady_clock::now() - at_ < kStale ? last_ : Telemetry();
}

void Sensors::renew() noexcept {
  Telemetry reading;
  try {
    reading = read_();
  } catch (const std::exception&) {
    reading = {};
  }
  const std::scoped_lock lock(mutex_);
  last_ = std::move(reading);
  at_ = std::chrono::steady_clock::now();
  reading_ = false;
  done_.notify_all();
}

}  // namespace hypersonic
