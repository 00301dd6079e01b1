// SPDX-License-Identifier: Apache-2.0
// The nouns behind XRT's handles: a card, the xclbin on it, buffer objects, kernels and runs.
//
// Ownership is shared downwards, as in XRT: a run keeps its kernel, a kernel and a buffer object keep what is loaded. So
// handles may be closed in any order, and the simulation ends when the last of them is; but a compute unit that hangs does
// so until its card is reset, whoever opens it meanwhile.
//
// A card that is unplugged or reset is lost to all handles of before: their calls fail with ENODEV, runs in flight stay as
// they are (unplugged) or end as ABORT (reset, which is what XRT's driver does to them).
#ifndef HYPERSONIC_EMU_CARD_H
#define HYPERSONIC_EMU_CARD_H

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "axlf.h"
#include "compute_unit.h"
#include "memory.h"
#include "options.h"

namespace emu {

enum class Access { kShared, kExclusive };

// A process's hold on one compute unit, shared by the kernels opened on it.
struct Context {
    ComputeUnit *compute_unit;
    Access access;
};

class Card;

// An xclbin on a card, its compute units out of reset.
class Loaded {
public:
    // `hangs`: as HYPERSONIC_EMU_HANG says; a card that has been reset does not.
    Loaded(Card &card, Xclbin content, bool hangs);
    ~Loaded();

    const Xclbin xclbin;
    const std::shared_ptr<Memory> memory;

    // Throws EBUSY when it is open in the other mode.
    std::shared_ptr<Context> open(size_t compute_unit, Access access);
    bool in_use();
    bool connected(const Ip &ip, size_t argument, int bank) const;
    // The last bank that argument reaches, or -1.
    int bank_of(const Ip &ip, size_t argument) const;

    // Sees what happened to the card meanwhile.
    void look() const;
    // Throws ENODEV once the card was unplugged or reset.
    void require() const;
    // The card's.
    void lose(bool reset);
    bool hung();

private:
    Card &card_;
    std::atomic<bool> lost_{false};
    std::vector<std::unique_ptr<ComputeUnit>> compute_units_;
    std::mutex mutex_;
    std::vector<std::weak_ptr<Context>> contexts_;
};

// One card for as long as the process lives. Any thread.
class Card {
public:
    explicit Card(unsigned index);
    unsigned index() const { return index_; }

    // Throws ENODEV when there is no such card, or it is unplugged.
    static Card &of(unsigned index);

    // Counts those who have it open; returns how often it was lost so far.
    uint64_t open();
    void close();
    // Throws ENODEV when the card was lost since it had been lost `losses` times.
    void load(const std::string &path, uint64_t losses);
    // Throws ENODEV as load() does, and while nothing is loaded.
    std::shared_ptr<Loaded> loaded(uint64_t losses);
    // Sees whether it was unplugged or reset meanwhile.
    void look();

private:
    using Lock = std::unique_lock<std::mutex>;

    void look(const Lock &lock);
    void require(const Lock &lock, uint64_t losses);

    const unsigned index_;
    std::mutex mutex_;
    std::string directory_;  // of the last open
    CardEvents events_{};
    uint64_t losses_ = 0;
    unsigned open_ = 0;
    bool was_reset_ = false;
    std::shared_ptr<Loaded> loaded_;
};

// Host memory and device memory of one size, copied by sync only.
class BufferObject {
public:
    BufferObject(std::shared_ptr<Loaded> loaded, size_t size_bytes, uint64_t flags, uint32_t group);
    ~BufferObject();
    BufferObject(const BufferObject &) = delete;
    BufferObject &operator=(const BufferObject &) = delete;

    void *host() const;
    uint64_t address() const { return address_; }
    size_t size_bytes() const { return size_bytes_; }
    uint32_t group() const { return group_; }
    const Loaded *loaded() const { return loaded_.get(); }
    void sync(int direction, size_t size_bytes, size_t offset);

private:
    const std::shared_ptr<Loaded> loaded_;
    const size_t size_bytes_;
    const uint32_t group_;
    uint64_t address_ = 0;
    void *host_ = nullptr;
};

class KernelObject {
public:
    // name: "kernel" or "kernel:{cu}" or "kernel:{cu1,cu2}".
    KernelObject(std::shared_ptr<Loaded> loaded, const Uuid &uuid, const std::string &name, Access access);

    const Loaded &loaded() const { return *loaded_; }
    const std::string &name() const { return kernel_->name; }
    const std::vector<std::shared_ptr<Context>> &contexts() const { return contexts_; }
    // Throws EINVAL for an argument the kernel does not have.
    const Argument &argument(int index) const;
    int group(int index) const;
    size_t register_words() const;
    uint32_t read_register(uint32_t offset) const;
    void write_register(uint32_t offset, uint32_t value) const;

private:
    ComputeUnit &exclusive_unit(uint32_t offset) const;

    const std::shared_ptr<Loaded> loaded_;
    const Kernel *kernel_ = nullptr;
    std::vector<std::shared_ptr<Context>> contexts_;
};

// Arguments and the last start. One thread at a time, as in XRT; wait and state may be called from others.
class Run {
public:
    explicit Run(std::shared_ptr<KernelObject> kernel);

    const Argument &argument(int index) const { return kernel_->argument(index); }
    void set_scalar(int index, uint64_t value);
    void set_buffer(int index, const BufferObject &buffer);
    void start();
    State state() const;
    State wait(std::optional<std::chrono::milliseconds> timeout) const;

private:
    struct Started {
        ComputeUnit *compute_unit;
        std::shared_ptr<Command> command;
    };
    Started started() const;

    const std::shared_ptr<KernelObject> kernel_;
    std::vector<ComputeUnit *> candidates_;  // narrowed by the banks of the buffers set
    std::vector<uint32_t> words_;
    mutable std::mutex mutex_;
    Started started_{};
};

}  // namespace emu

#endif
