// SPDX-License-Identifier: Apache-2.0
#include "processes.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstring>

#include "error.h"

namespace emu {

namespace {

constexpr size_t kUuidDigits = 36;

int operation(FileLock::Kind kind) { return kind == FileLock::Kind::kShared ? LOCK_SH : LOCK_EX; }

}  // namespace

FileLock::FileLock(const std::string &path) : path_(path), descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (descriptor_ < 0) throw Error(EINVAL, "HYPERSONIC_EMU_CARDS: '" + path + "' cannot be opened: " + std::strerror(errno));
}

FileLock::~FileLock() { close(descriptor_); }

void FileLock::wait(Kind kind) {
    while (flock(descriptor_, operation(kind)) != 0)
        if (errno != EINTR) throw Error(EINVAL, "HYPERSONIC_EMU_CARDS: '" + path_ + "' cannot be locked: " + std::strerror(errno));
}

bool FileLock::try_lock(Kind kind) {
    while (flock(descriptor_, operation(kind) | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) return false;
        if (errno != EINTR) throw Error(EINVAL, "HYPERSONIC_EMU_CARDS: '" + path_ + "' cannot be locked: " + std::strerror(errno));
    }
    return true;
}

void FileLock::unlock() { flock(descriptor_, LOCK_UN); }

std::string FileLock::content() const {
    char text[kUuidDigits];
    const ssize_t size = pread(descriptor_, text, sizeof text, 0);
    return size == static_cast<ssize_t>(sizeof text) ? std::string(text, sizeof text) : std::string();
}

void FileLock::replace_content(const std::string &text) {
    if (pwrite(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
        throw Error(EINVAL, "HYPERSONIC_EMU_CARDS: '" + path_ + "' cannot be written: " + std::strerror(errno));
}

SharedCard::SharedCard(const std::string &directory, unsigned card)
    : stem_(directory.empty() ? "" : directory + "/" + std::to_string(card)) {}

std::optional<std::string> SharedCard::held() const {
    if (stem_.empty()) return std::nullopt;
    const std::string uuid = FileLock(name(".xclbin")).content();
    return uuid.empty() ? std::nullopt : std::optional(uuid);
}

SharedCard::Change::Change(const SharedCard &card, const std::string &uuid) : uuid_(uuid) {
    if (card.stem_.empty()) return;
    load_ = std::make_unique<FileLock>(card.name(".load"));
    load_->wait(FileLock::Kind::kExclusive);
    xclbin_ = std::make_unique<FileLock>(card.name(".xclbin"));
    const std::string before = xclbin_->content();
    if (before == uuid) return;
    replaces_ = !before.empty();
    if (!xclbin_->try_lock(FileLock::Kind::kExclusive))
        throw Error(EBUSY, "Failed to load xclbin: another process has kernels of xclbin " + before + " open");
}

void SharedCard::Change::commit() {
    if (xclbin_ && xclbin_->content() != uuid_) xclbin_->replace_content(uuid_);
}

SharedCard::Opened SharedCard::open(const std::string &uuid, size_t compute_unit, bool exclusive) const {
    Opened opened;
    if (stem_.empty()) return opened;
    FileLock load(name(".load"));
    load.wait(FileLock::Kind::kExclusive);
    opened.xclbin = std::make_unique<FileLock>(name(".xclbin"));
    if (const std::string held = opened.xclbin->content(); held != uuid)
        throw Error(EBUSY, "Failed to open a compute unit of xclbin " + uuid + ": another process has loaded xclbin " + held);
    opened.xclbin->wait(FileLock::Kind::kShared);
    opened.unit = std::make_unique<FileLock>(name(".unit" + std::to_string(compute_unit)));
    if (!opened.unit->try_lock(exclusive ? FileLock::Kind::kExclusive : FileLock::Kind::kShared))
        throw Error(EBUSY, "Another process has compute unit " + std::to_string(compute_unit) + " of the card open");
    return opened;
}

}  // namespace emu
