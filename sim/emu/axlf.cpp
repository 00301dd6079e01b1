// SPDX-License-Identifier: Apache-2.0
#include "axlf.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "error.h"

namespace emu {

namespace {

constexpr int64_t kMaxFileBytes = int64_t{2} << 30;
constexpr size_t kSectionHeaders = 456;
constexpr size_t kSectionHeaderBytes = 40;
constexpr uint32_t kMaxSections = 0x10000;
constexpr size_t kModeOffset = 304 + 28;
constexpr size_t kUuidOffset = 304 + 28 + 4 + 16 + 64;
constexpr size_t kNumSectionsOffset = kUuidOffset + 32;

enum Kind : uint32_t {
    kBitstream = 0,
    kEmbeddedMetadata = 2,
    kMemTopology = 6,
    kConnectivity = 7,
    kIpLayout = 8,
    kGroupTopology = 26,
    kGroupConnectivity = 27,
};

constexpr uint32_t kIpKernel = 1;

// A range of bytes in which every access is checked against the range.
class Range {
public:
    Range(const uint8_t *data, size_t size, const char *what) : data_(data), size_(size), what_(what) {}

    size_t size() const { return size_; }
    const uint8_t *data() const { return data_; }

    Range part(uint64_t offset, uint64_t size, const char *what) const {
        if (offset > size_ || size > size_ - offset)
            throw Error(EINVAL, std::string("Invalid xclbin: ") + what + " is bytes " + std::to_string(offset) + " to " +
                                    std::to_string(offset + size) + " of " + what_ + ", which has " + std::to_string(size_));
        return {data_ + offset, static_cast<size_t>(size), what};
    }

    template <typename T>
    T number(uint64_t offset) const {
        T value;
        std::memcpy(&value, part(offset, sizeof value, what_).data(), sizeof value);
        return value;
    }

    // The C string in an array of `size` bytes, which need not end in 0.
    std::string text(uint64_t offset, size_t size) const {
        const Range array = part(offset, size, what_);
        return {reinterpret_cast<const char *>(array.data()), strnlen(reinterpret_cast<const char *>(array.data()), size)};
    }

private:
    const uint8_t *data_;
    size_t size_;
    const char *what_;
};

std::vector<uint8_t> read_file(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    struct stat status{};
    if (!file || stat(path.c_str(), &status) != 0) throw Error(ENOENT, "Failed to open file '" + path + "' for reading");
    if (!S_ISREG(status.st_mode) || status.st_size > kMaxFileBytes)
        throw Error(EINVAL, "Failed to read file '" + path + "': it is not a regular file, or has more than 2 GiB");
    std::vector<uint8_t> content(static_cast<size_t>(status.st_size));
    file.read(reinterpret_cast<char *>(content.data()), status.st_size);
    if (!file) throw Error(EIO, "Failed to read file '" + path + "'");
    return content;
}

// The section of a kind; empty if there is none. Throws EINVAL if there is none and it is required.
Range section(const Range &image, Kind kind, const char *name, bool required) {
    const auto count = image.number<uint32_t>(kNumSectionsOffset);
    for (uint32_t i = 0; i < count; ++i) {
        const Range header = image.part(kSectionHeaders + uint64_t{i} * kSectionHeaderBytes, kSectionHeaderBytes, "section header");
        if (header.number<uint32_t>(0) == kind) return image.part(header.number<uint64_t>(24), header.number<uint64_t>(32), name);
    }
    if (required) throw Error(EINVAL, std::string("Invalid xclbin: it has no section ") + name);
    return {nullptr, 0, name};
}

// The number of entries in a table, which begins with it as an int32. Checks that the table has room for all of them.
uint32_t entries(const Range &table, size_t head_bytes, size_t entry_bytes) {
    if (table.size() == 0) return 0;
    const auto count = table.number<int32_t>(0);
    if (count < 0) throw Error(EINVAL, "Invalid xclbin: a table counts " + std::to_string(count) + " entries");
    table.part(head_bytes, static_cast<uint64_t>(count) * entry_bytes, "a table's entries");
    return static_cast<uint32_t>(count);
}

std::vector<MemoryBank> read_banks(const Range &table) {
    std::vector<MemoryBank> banks;
    const uint32_t count = entries(table, 8, 40);
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t at = 8 + uint64_t{i} * 40;
        const auto size_kib = table.number<uint64_t>(at + 8);
        const auto base = table.number<uint64_t>(at + 16);
        if (size_kib > uint64_t{1} << 40 || base > uint64_t{1} << 60)
            throw Error(EINVAL, "Invalid xclbin: memory " + std::to_string(i) + " has " + std::to_string(size_kib) + " KiB at " + hex(base));
        banks.push_back({table.number<uint8_t>(at + 1) != 0, size_kib * 1024, base, table.text(at + 24, 16)});
    }
    return banks;
}

std::vector<Ip> read_compute_units(const Range &table) {
    std::vector<Ip> found;
    const uint32_t count = entries(table, 8, 80);
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t at = 8 + uint64_t{i} * 80;
        if (table.number<uint32_t>(at) != kIpKernel) continue;
        const std::string name = table.text(at + 16, 64);
        const size_t colon = name.find(':');
        if (colon == std::string::npos) throw Error(EINVAL, "Invalid xclbin: compute unit '" + name + "' is not named kernel:instance");
        const auto protocol = static_cast<uint8_t>(table.number<uint32_t>(at + 4) >> 8);
        found.push_back({static_cast<int>(i), protocol, table.number<uint64_t>(at + 8), name.substr(0, colon), name.substr(colon + 1)});
    }
    std::stable_sort(found.begin(), found.end(), [](const Ip &a, const Ip &b) { return a.base < b.base; });
    return found;
}

std::vector<Connection> read_connections(const Range &table) {
    std::vector<Connection> connections;
    const uint32_t count = entries(table, 4, 12);
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t at = 4 + uint64_t{i} * 12;
        connections.push_back({table.number<int32_t>(at), table.number<int32_t>(at + 4), table.number<int32_t>(at + 8)});
    }
    return connections;
}

Mode read_mode(const Range &image) {
    const auto mode = image.number<uint16_t>(kModeOffset);
    if (mode == 4 || mode == 6) return Mode::kHwEmu;
    return mode == 5 ? Mode::kSwEmu : Mode::kHardware;
}

}  // namespace

Xclbin read_xclbin(const std::string &path) {
    const std::vector<uint8_t> content = read_file(path);
    const Range file(content.data(), content.size(), "the file");
    if (content.size() < kSectionHeaders || std::memcmp(content.data(), "xclbin2\0", 8) != 0)
        throw Error(EINVAL, "Invalid xclbin: '" + path + "' (" + std::to_string(content.size()) + " bytes) does not begin with xclbin2");
    const auto length = file.number<uint64_t>(304);
    if (length > content.size())
        throw Error(EINVAL, "Invalid xclbin: '" + path + "' has " + std::to_string(content.size()) + " of its " + std::to_string(length) + " bytes");
    const Range image = file.part(0, length, "the image");
    const auto count = image.number<uint32_t>(kNumSectionsOffset);
    if (count > kMaxSections)
        throw Error(EINVAL, "Invalid xclbin: it counts " + std::to_string(count) + " sections, expected at most 65536");
    image.part(kSectionHeaders, uint64_t{count} * kSectionHeaderBytes, "the section headers");
    Xclbin xclbin{};
    std::memcpy(xclbin.uuid.data(), image.part(kUuidOffset, 16, "uuid").data(), 16);
    xclbin.mode = read_mode(image);
    const Range groups = section(image, kGroupTopology, "GROUP_TOPOLOGY", false);
    const Range group_connections = section(image, kGroupConnectivity, "GROUP_CONNECTIVITY", false);
    xclbin.banks = read_banks(groups.size() != 0 ? groups : section(image, kMemTopology, "MEM_TOPOLOGY", true));
    xclbin.connections =
        read_connections(group_connections.size() != 0 ? group_connections : section(image, kConnectivity, "CONNECTIVITY", true));
    xclbin.compute_units = read_compute_units(section(image, kIpLayout, "IP_LAYOUT", true));
    const Range xml = section(image, kEmbeddedMetadata, "EMBEDDED_METADATA", true);
    xclbin.kernels = read_kernels({reinterpret_cast<const char *>(xml.data()), xml.size()});
    const Range bitstream = section(image, kBitstream, "BITSTREAM", true);
    xclbin.bitstream.assign(bitstream.data(), bitstream.data() + bitstream.size());
    return xclbin;
}

std::string uuid_text(const Uuid &uuid) {
    std::string text;
    for (size_t i = 0; i < uuid.size(); ++i) {
        char byte[4];
        std::snprintf(byte, sizeof byte, "%02x", uuid[i]);
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += byte;
    }
    return text;
}

}  // namespace emu
