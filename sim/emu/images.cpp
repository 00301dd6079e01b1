// SPDX-License-Identifier: Apache-2.0
// The ustar archive (POSIX.1-1988) of simulators in the BITSTREAM section of an xclbin with several kernels.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>

#include "error.h"
#include "simulator.h"

namespace emu {

namespace {

constexpr size_t kBlock = 512;
constexpr size_t kNameBytes = 100;
constexpr size_t kSizeOffset = 124;
constexpr size_t kChecksumOffset = 148;
constexpr size_t kTypeOffset = 156;
constexpr size_t kMagicOffset = 257;
constexpr size_t kPrefixOffset = 345;
constexpr std::string_view kMagic = "ustar";
constexpr std::string_view kSuffix = ".so";

using Bytes = std::span<const uint8_t>;

[[noreturn]] void damaged(size_t offset, const std::string &what) {
    throw Error(EINVAL, "Invalid xclbin: the archive in BITSTREAM is damaged: at byte " + std::to_string(offset) + " " + what);
}

bool is_archive(Bytes bytes) { return bytes.size() >= kBlock && std::memcmp(bytes.data() + kMagicOffset, kMagic.data(), kMagic.size()) == 0; }

bool is_zero(Bytes block) {
    return std::all_of(block.begin(), block.end(), [](uint8_t byte) { return byte == 0; });
}

// A field of octal digits that a space or a 0 may end.
std::optional<uint64_t> octal(Bytes field) {
    uint64_t value = 0;
    size_t digits = 0;
    for (const uint8_t byte : field) {
        if (byte == ' ' || byte == 0) break;
        if (byte < '0' || byte > '7') return std::nullopt;
        value = value * 8 + (byte - '0');
        ++digits;
    }
    if (digits == 0) return std::nullopt;
    return value;
}

uint64_t checksum(Bytes header) {
    uint64_t sum = 0;
    for (size_t i = 0; i < header.size(); ++i) sum += i >= kChecksumOffset && i < kChecksumOffset + 8 ? ' ' : header[i];
    return sum;
}

// "facile.so" -> "facile"
std::string kernel_of(size_t at, Bytes header) {
    const auto *text = reinterpret_cast<const char *>(header.data());
    const std::string name(text, strnlen(text, kNameBytes));
    const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; });
    const uint8_t type = header[kTypeOffset];
    const bool file = (type == '0' || type == 0) && header[kPrefixOffset] == 0;
    if (!plain || !file || name.size() <= kSuffix.size() || !name.ends_with(kSuffix)) damaged(at, "there is no regular file KERNEL.so");
    return name.substr(0, name.size() - kSuffix.size());
}

}  // namespace

Images::Images(Bytes bitstream) : bitstream_(bitstream) {
    if (!is_archive(bitstream)) return;
    for (size_t at = 0;;) {
        if (bitstream.size() - at < kBlock) damaged(at, "it ends before its end mark");
        const Bytes header = bitstream.subspan(at, kBlock);
        if (is_zero(header)) break;
        if (!is_archive(header) || octal(header.subspan(kChecksumOffset, 8)) != checksum(header)) damaged(at, "there is no header, or one with a wrong checksum");
        const std::string kernel = kernel_of(at, header);
        const std::optional<uint64_t> size = octal(header.subspan(kSizeOffset, 12));
        const size_t room = bitstream.size() - at - kBlock;
        if (!size || *size > room) damaged(at, "the size of " + kernel + ".so is not a number, or is beyond the archive's end");
        if (std::any_of(members_.begin(), members_.end(), [&](const Member &member) { return member.kernel == kernel; }))
            damaged(at, "there is a second " + kernel + ".so");
        members_.push_back({kernel, bitstream.subspan(at + kBlock, *size)});
        const size_t blocks = (*size + kBlock - 1) / kBlock * kBlock;
        if (blocks > room) damaged(at, "it ends before its end mark");
        at += kBlock + blocks;
    }
    if (members_.empty()) damaged(0, "it has no member");
}

Bytes Images::of(const std::string &kernel) const {
    if (members_.empty()) return bitstream_;
    std::string there;
    for (const Member &member : members_) {
        if (member.kernel == kernel) return member.image;
        there += (there.empty() ? "" : ", ") + member.kernel;
    }
    throw Error(EINVAL, "Invalid xclbin: BITSTREAM has no simulator of kernel '" + kernel + "', it has those of " + there);
}

}  // namespace emu
