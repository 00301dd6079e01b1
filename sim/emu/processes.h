// SPDX-License-Identifier: Apache-2.0
// The rules of one card among several processes. HYPERSONIC_EMU_CARDS names a directory with these files for card 0:
//
//   0.xclbin   the uuid of the xclbin that the card holds; locked (shared) by each process that has kernels open
//   0.load     locked by a process that loads an xclbin or opens a compute unit
//   0.unit1    locked by each process that has compute unit 1 open: exclusively, or shared
//
// The locks are those of flock(2), which end with the process, however it ends. The memory of the card is not shared.
#ifndef HYPERSONIC_EMU_PROCESSES_H
#define HYPERSONIC_EMU_PROCESSES_H

#include <memory>
#include <optional>
#include <string>

#include "axlf.h"

namespace emu {

// An open file with a lock, which ends with this object.
class FileLock {
public:
    enum class Kind { kShared, kExclusive };

    // Opens the file, and makes it if there is none. Throws EINVAL if it cannot.
    explicit FileLock(const std::string &path);
    ~FileLock();
    FileLock(const FileLock &) = delete;
    FileLock &operator=(const FileLock &) = delete;

    void wait(Kind kind);
    // Returns false if another process holds the lock.
    bool try_lock(Kind kind);
    void unlock();

    std::string content() const;
    void replace_content(const std::string &text);

private:
    const std::string path_;
    int descriptor_;
};

// The state of a card that processes share. With an empty directory nothing is shared, and all functions allow everything.
class SharedCard {
public:
    SharedCard(const std::string &directory, unsigned card);

    // The uuid of the xclbin that the card holds, if it is known.
    std::optional<std::string> held() const;

    // A change of the xclbin. While it exists, no other process loads an xclbin or opens a compute unit.
    class Change {
    public:
        // Waits for other changes. Throws EBUSY if another process has kernels open with another xclbin than `uuid`.
        Change(const SharedCard &card, const std::string &uuid);
        // Whether the card holds another xclbin now.
        bool replaces() const { return replaces_; }
        void commit();

    private:
        const std::string uuid_;
        std::unique_ptr<FileLock> load_;
        std::unique_ptr<FileLock> xclbin_;
        bool replaces_ = false;
    };

    // A compute unit open in this process.
    struct Opened {
        std::unique_ptr<FileLock> xclbin;
        std::unique_ptr<FileLock> unit;
    };
    // Throws EBUSY if another process has loaded another xclbin than `uuid`, or has the compute unit open in a mode that
    // excludes this one.
    Opened open(const std::string &uuid, size_t compute_unit, bool exclusive) const;

private:
    std::string name(const std::string &suffix) const { return stem_ + suffix; }

    const std::string stem_;  // empty: nothing is shared
};

}  // namespace emu

#endif
