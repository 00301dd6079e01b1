// SPDX-License-Identifier: Apache-2.0
#include "model/xclbin.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "driver/error.hpp"

namespace hypersonic {
namespace {

using nlohmann::json;

#include "model/digest_key.inc"

constexpr char kMagic[] = "xclbin2";
constexpr std::size_t kMaxSectionBytes = 1 << 24;
constexpr std::size_t kMaxSections = 1 << 16;
constexpr unsigned kIpKernel = 1;
constexpr unsigned kDataClock = 1;

// axlf_section_kind
enum Section : std::uint32_t { kMemTopology = 6, kIpLayout = 8, kClocks = 11, kKeyValues = 15, kGroupTopology = 26 };

// Offsets in the file, and sizes of the entries of its tables.
constexpr std::size_t kMode = 304 + 28;
constexpr std::size_t kVbnv = 352;
constexpr std::size_t kUuid = 416;
constexpr std::size_t kCount = 448;
constexpr std::size_t kHeads = 456;
constexpr std::size_t kHeadBytes = 40;
constexpr std::size_t kMemoryBytes = 40;
constexpr std::size_t kIpBytes = 80;
constexpr std::size_t kClockBytes = 136;

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw Error(Kind::XclbinMismatch, path + " is not an xclbin file: " + what + ": publish the model again");
}

template <typename Number>
Number number_at(const std::string& bytes, std::size_t at) {
  Number value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string text_at(const std::string& bytes, std::size_t at, std::size_t most) {
  return {bytes.data() + at, strnlen(bytes.data() + at, most)};
}

std::string hex_at(const std::string& bytes, std::size_t at, std::size_t count) {
  std::string text;
  for (std::size_t index = at; index < at + count; ++index) {
    const auto byte = static_cast<unsigned char>(bytes[index]);
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string target_of(unsigned mode) {
  constexpr std::array<const char*, 7> kTargets{"hw", "hw", "hw", "hw", "hw_emu", "sw_emu", "hw_emu"};
  return mode < kTargets.size() ? kTargets[mode] : "unknown";
}

class File {
 public:
  explicit File(const std::string& path) : path_(path), file_(path, std::ios::binary | std::ios::ate) {
    size_ = file_ ? static_cast<std::size_t>(file_.tellg()) : 0;
  }

  // Throws Error if the file does not have these bytes.
  std::string read(std::size_t at, std::size_t count) {
    if (at > size_ || count > size_ - at) {
      damaged(path_, std::to_string(count) + " bytes at " + std::to_string(at) + " are outside of its " +
                         std::to_string(size_) + " bytes");
    }
    std::string bytes(count, '\0');
    file_.seekg(static_cast<std::streamoff>(at));
    if (!file_.read(bytes.data(), static_cast<std::streamsize>(count))) {
      damaged(path_, "it cannot be read");
    }
    return bytes;
  }

 private:
  std::string path_;
  std::ifstream file_;
  std::size_t size_ = 0;
};

// The entries of a table, which begin after its count. Throws Error if the section is too short for them.
std::vector<std::string> entries(const std::string& path, const std::string& payload, std::size_t start, std::size_t bytes) {
  const std::size_t count = payload.size() < start          ? 0
                            : start < sizeof(std::uint32_t) ? number_at<std::uint16_t>(payload, 0)
                                                            : number_at<std::uint32_t>(payload, 0);
  if (count != 0 && (payload.size() - start) / bytes < count) {
    damaged(path, "a section of " + std::to_string(payload.size()) + " bytes counts " + std::to_string(count) + " entries");
  }
  std::vector<std::string> found;
  found.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    found.push_back(payload.substr(start + index * bytes, bytes));
  }
  return found;
}

void read_units(const std::vector<std::string>& ips, Xclbin& xclbin) {
  for (const std::string& ip : ips) {
    const std::string name = text_at(ip, 16, 64);
    const std::size_t colon = name.find(':');
    if (number_at<std::uint32_t>(ip, 0) == kIpKernel && colon != std::string::npos) {
      xclbin.units.emplace_back(name.substr(0, colon), name.substr(colon + 1));
    }
  }
}

void read_clock(const std::vector<std::string>& clocks, Xclbin& xclbin) {
  for (const std::string& clock : clocks) {
    if (static_cast<unsigned char>(clock[2]) == kDataClock) {
      xclbin.kernel_clock_mhz = number_at<std::uint16_t>(clock, 0);
      return;
    }
  }
}

void read_digests(const std::string& payload, Xclbin& xclbin) {
  const json object = json::parse(payload.substr(0, payload.find('\0')), nullptr, false);
  const json values = object.is_object() ? object.value("key_values", json()) : json();
  for (const json& entry : values.is_array() ? values : json::array()) {
    const std::string key = entry.is_object() && entry.contains("key") && entry["key"].is_string() ? entry["key"] : "";
    if (key.rfind(kDigestKey, 0) == 0 && entry.contains("value") && entry["value"].is_string()) {
      xclbin.digests[key.substr(std::strlen(kDigestKey))] = entry["value"];
    }
  }
}

}  // namespace

std::vector<std::string> Xclbin::units_of(const std::string& kernel) const {
  std::vector<std::string> names;
  for (const auto& [of, name] : units) {
    if (of == kernel) {
      names.push_back(name);
    }
  }
  return names;
}

std::string Xclbin::digest_of(const std::string& kernel) const {
  const auto found = digests.find(kernel);
  return found != digests.end() ? found->second : "";
}

bool Xclbin::runs(const Xclbin& own, const std::string& kernel) const {
  const std::string digest = own.digest_of(kernel);
  return uuid == own.uuid || (target == own.target && vbnv == own.vbnv && !digest.empty() && digest == digest_of(kernel));
}

Xclbin read_xclbin(const std::string& path) {
  File file(path);
  const std::string head = file.read(0, kHeads);
  if (std::memcmp(head.data(), kMagic, sizeof kMagic) != 0) {
    damaged(path, "it does not begin with " + std::string(kMagic));
  }
  Xclbin xclbin;
  xclbin.target = target_of(static_cast<unsigned char>(head[kMode]));
  xclbin.vbnv = text_at(head, kVbnv, 64);
  xclbin.uuid = hex_at(head, kUuid, 16);
  const std::size_t count = number_at<std::uint32_t>(head, kCount);
  if (count > kMaxSections) {
    damaged(path, "it counts " + std::to_string(count) + " sections");
  }
  std::map<std::uint32_t, std::string> sections;
  const std::string heads = file.read(kHeads, count * kHeadBytes);
  for (std::size_t at = 0; at < heads.size(); at += kHeadBytes) {
    const auto kind = number_at<std::uint32_t>(heads, at);
    const auto size = number_at<std::uint64_t>(heads, at + 32);
    if (kind == kMemTopology || kind == kIpLayout || kind == kClocks || kind == kKeyValues || kind == kGroupTopology) {
      sections.emplace(kind,
                       file.read(number_at<std::uint64_t>(heads, at + 24), std::min<std::size_t>(size, kMaxSectionBytes)));
    }
  }
  for (const std::string& memory :
       entries(path, sections[sections.count(kGroupTopology) != 0 ? kGroupTopology : kMemTopology], 8, kMemoryBytes)) {
    xclbin.banks.push_back(text_at(memory, 24, 16));
  }
  read_units(entries(path, sections[kIpLayout], 8, kIpBytes), xclbin);
  read_clock(entries(path, sections[kClocks], 2, kClockBytes), xclbin);
  read_digests(sections[kKeyValues], xclbin);
  return xclbin;
}

}  // namespace hypersonic
