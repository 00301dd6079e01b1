// SPDX-License-Identifier: Apache-2.0
// The objects behind XRT's handles: a card, the xclbin loaded on it, buffer objects, kernels and runs.
//
// Ownership is shared as in XRT: a run keeps its kernel alive, and a kernel and a buffer object keep the loaded xclbin. So
// handles may be closed in any order, and the simulation ends when the last of them is closed. But a compute unit that hangs
// stays hung until its card is reset, even if it is closed and opened again meanwhile.
//
// When a card is unplugged or reset, all handles opened before lose it: their calls fail with ENODEV. Runs in flight stay in
// their state (unplugged) or end as ABORT (reset, as XRT's driver does).
#ifndef HYPERSONIC_EMU_CARD_H
#define HYPERSONIC_EMU_CARD_H

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "axlf.h"
#include "compute_unit.h"
#include "memory.h"
#include "options.h"
#include "pcie.h"
#include "processes.h"
#include "worker.h"

namespace emu {

enum class Access { kShared, kExclusive };

// The context of one compute unit, shared by the kernel objects opened on it.
struct Context {
    ComputeUnit *compute_unit;
    Access access;
    SharedCard::Opened opened;  // against other processes
};

class Card;

// An xclbin loaded on a card, with its compute units out of reset.
class Loaded {
public:
    // hangs: whether HYPERSONIC_EMU_HANG applies; it does not to a card that has been reset.
    Loaded(Card &card, Xclbin content, const std::string &directory, bool hangs);
    ~Loaded();

    const Xclbin xclbin;
    const std::shared_ptr<Memory> memory;
    PcieLink to_device;
    PcieLink from_device;

    // Throws EBUSY if the compute unit is open in the other mode, or another process is in the way (processes.h).
    std::shared_ptr<Context> open(size_t compute_unit, Access access);
    bool in_use();
    bool connected(const Ip &ip, size_t argument, int bank) const;
    // The last bank that the argument is connected to, or -1.
    int bank_of(const Ip &ip, size_t argument) const;

    // Checks whether the card has been unplugged or reset.
    void look() const;
    // Throws ENODEV if the card has been unplugged or reset.
    void require() const;
    // Called by the card when it is unplugged or reset.
    void lose(bool reset);
    bool hung();

private:
    Card &card_;
    std::atomic<bool> lost_{false};
    const SharedCard shared_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<ComputeUnit *> compute_units_;  // of the workers, in the order of xclbin.compute_units
    std::mutex opening_;                        // held while another process may have to be waited for
    std::mutex mutex_;
    std::vector<std::weak_ptr<Context>> contexts_;
};

// One card, which exists as long as the process. Any thread.
class Card {
public:
    explicit Card(unsigned index);
    unsigned index() const { return index_; }

    // Throws ENODEV if there is no such card, or it is unplugged.
    static Card &of(unsigned index);

    // Counts one more opener; returns how often the card has been lost (unplugged or reset) so far.
    uint64_t open();
    void close();
    // Throws ENODEV if the card has been lost more than `losses` times: since its opener called open(). Replacing an xclbin takes
    // load_time(), in which other calls of load() and loaded() wait, as on a card.
    void load(const std::string &path, uint64_t losses);
    // Throws ENODEV as load() does, and while nothing is loaded.
    std::shared_ptr<Loaded> loaded(uint64_t losses);
    // Checks whether the card has been unplugged or reset.
    void look();

private:
    using Lock = std::unique_lock<std::mutex>;

    void look(const Lock &lock);
    void require(const Lock &lock, uint64_t losses);
    bool holds(const std::string &uuid) const;
    void pass(Lock &lock, std::chrono::milliseconds time, uint64_t losses);

    const unsigned index_;
    std::mutex mutex_;
    std::string directory_;  // HYPERSONIC_EMU_CARDS at the last open()
    CardEvents events_{};
    uint64_t losses_ = 0;
    unsigned open_ = 0;
    bool was_reset_ = false;
    std::shared_ptr<Loaded> loaded_;
    std::string held_;  // the uuid that the card holds, also when nobody has it open any more; empty: none
    bool loading_ = false;
    std::condition_variable loads_;
};

// A buffer object: host memory and device memory of one size. Only sync copies between them.
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
    // name is "kernel", "kernel:{cu}" or "kernel:{cu1,cu2}".
    KernelObject(std::shared_ptr<Loaded> loaded, const Uuid &uuid, const std::string &name, Access access);

    const Loaded &loaded() const { return *loaded_; }
    const std::string &name() const { return kernel_->name; }
    const std::vector<std::shared_ptr<Context>> &contexts() const { return contexts_; }
    // Throws EINVAL if the kernel has no such argument.
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

// A run: its arguments and its last start. For one thread at a time, as in XRT; other threads may call wait and state.
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
    std::vector<ComputeUnit *> candidates_;  // those connected to the banks of every buffer set so far
    std::vector<uint32_t> words_;
    mutable std::mutex mutex_;
    Started started_{};
};

}  // namespace emu

#endif
