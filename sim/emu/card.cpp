// SPDX-License-Identifier: Apache-2.0
#include "card.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "error.h"

namespace emu {

namespace {

// Every worker that has a thread, so that the process can end while one of them simulates. Never destroyed, because
// the exit handler below runs while objects of static storage are already being destroyed.
struct Running {
    std::mutex mutex;
    std::set<Worker *> workers;
};

Running &running() {
    static auto *all = new Running;
    return *all;
}

// How often a card is checked for a reset while it loads an xclbin.
constexpr std::chrono::milliseconds kLook{20};

void stop_all() {
    const std::lock_guard lock(running().mutex);
    for (Worker *worker : running().workers) worker->stop();
}

// Marks a card as loading while it exists. lock: of the card's mutex; it is held again when this object is destroyed.
class Loading {
public:
    Loading(std::unique_lock<std::mutex> &lock, bool &loading, std::condition_variable &loads) : lock_(lock), loading_(loading), loads_(loads) {
        loading_ = true;
    }
    ~Loading() {
        if (!lock_.owns_lock()) lock_.lock();
        loading_ = false;
        loads_.notify_all();
    }
    Loading(const Loading &) = delete;
    Loading &operator=(const Loading &) = delete;

private:
    std::unique_lock<std::mutex> &lock_;
    bool &loading_;
    std::condition_variable &loads_;
};

}  // namespace

Loaded::Loaded(Card &card, Xclbin content, const std::string &directory, bool hangs)
    : xclbin(std::move(content)), memory(std::make_shared<Memory>(xclbin.banks)), to_device(pcie_rates(), wrong_from_copy()), from_device(pcie_rates()),
      card_(card), shared_(directory, card.index()), compute_units_(xclbin.compute_units.size()), contexts_(xclbin.compute_units.size()) {
    const Images images(xclbin.bitstream);
    const MemoryView view{memory, std::make_shared<Banks>(xclbin), memory_timing()};
    for (const Ip &ip : xclbin.compute_units)
        if (ip.control_protocol != 1)
            throw Error(ENOTSUP, "Compute unit " + ip.compute_unit + " has control protocol " + std::to_string(ip.control_protocol) +
                                     ", the emulated card runs ap_ctrl_chain (1) only");
    for (const std::vector<size_t> &group : view.banks->groups()) {
        const auto wake = std::make_shared<Wake>();
        std::vector<std::unique_ptr<ComputeUnit>> units;
        for (const size_t index : group) {
            const Ip &ip = xclbin.compute_units[index];
            const uint64_t hangs_at = hangs ? hang_at_run(ip.compute_unit, card.index()) : 0;
            units.push_back(std::make_unique<ComputeUnit>(ip, xclbin.mode, images.of(ip.kernel), view, group.size() > 1, wake, hangs_at,
                                                          wrong_answers(ip.compute_unit)));
            compute_units_[index] = units.back().get();
        }
        workers_.push_back(std::make_unique<Worker>(std::move(units), wake));
    }
    {
        const std::lock_guard lock(running().mutex);
        for (const auto &worker : workers_) running().workers.insert(worker.get());
    }
    // Registered after the simulators' own exit handlers, so it runs before them and no thread is inside a simulator that
    // is being destroyed.
    std::atexit(stop_all);
}

Loaded::~Loaded() {
    const std::lock_guard lock(running().mutex);
    for (const auto &worker : workers_) running().workers.erase(worker.get());
}

std::shared_ptr<Context> Loaded::open(size_t compute_unit, Access access) {
    const std::lock_guard opening(opening_);
    std::shared_ptr<Context> context = contexts_[compute_unit].lock();
    if (!context) {
        auto opened = shared_.open(uuid_text(xclbin.uuid), compute_unit, access == Access::kExclusive);
        context = std::make_shared<Context>(Context{compute_units_[compute_unit], access, std::move(opened)});
        const std::lock_guard lock(mutex_);
        contexts_[compute_unit] = context;
    }
    if (context->access != access) throw Error(EBUSY, "Conflicting access mode for IP(" + std::to_string(compute_unit) + ")");
    return context;
}

bool Loaded::in_use() {
    const std::lock_guard lock(mutex_);
    return std::any_of(contexts_.begin(), contexts_.end(), [](const auto &context) { return !context.expired(); });
}

bool Loaded::connected(const Ip &ip, size_t argument, int bank) const {
    return std::any_of(xclbin.connections.begin(), xclbin.connections.end(), [&](const Connection &c) {
        return c.ip == ip.layout_index && c.argument == static_cast<int>(argument) && c.memory == bank;
    });
}

int Loaded::bank_of(const Ip &ip, size_t argument) const {
    int bank = -1;
    for (const Connection &c : xclbin.connections)
        if (c.ip == ip.layout_index && c.argument == static_cast<int>(argument)) bank = std::max(bank, c.memory);
    return bank;
}

void Loaded::look() const { card_.look(); }

void Loaded::require() const {
    look();
    if (lost_) throw Error(ENODEV, "No such device: the card was unplugged or reset");
}

void Loaded::lose(bool reset) {
    lost_ = true;
    for (ComputeUnit *unit : compute_units_) unit->lose(reset);
    const std::lock_guard lock(mutex_);
    for (const auto &context : contexts_)
        if (const auto open = context.lock()) open->opened = {};
}

bool Loaded::hung() {
    return std::any_of(compute_units_.begin(), compute_units_.end(), [](ComputeUnit *unit) { return unit->hung(); });
}

Card::Card(unsigned index) : index_(index) {}

Card &Card::of(unsigned index) {
    static auto *mutex = new std::mutex;
    static auto *cards = new std::map<unsigned, std::unique_ptr<Card>>;
    if (index >= device_count() || card_events(cards_directory(), index).unplugged)
        throw Error(ENODEV, "No such device with index '" + std::to_string(index) + "'");
    const std::lock_guard lock(*mutex);
    std::unique_ptr<Card> &card = (*cards)[index];
    if (!card) card = std::make_unique<Card>(index);
    return *card;
}

uint64_t Card::open() {
    const Lock lock(mutex_);
    const std::string directory = cards_directory();
    look(lock);
    if (directory != directory_) {
        directory_ = directory;
        events_ = card_events(directory, index_);
        was_reset_ = false;
        held_.clear();
    }
    ++open_;
    return losses_;
}

void Card::close() {
    const Lock lock(mutex_);
    look(lock);
    if (--open_ == 0 && loaded_ && !loaded_->hung()) loaded_.reset();
}

void Card::load(const std::string &path, uint64_t losses) {
    Xclbin xclbin = read_xclbin(path);
    if (xclbin.mode == Mode::kHardware)
        throw Error(ENOTSUP, "'" + path + "' was built for a card (target hw); the emulated card runs sw_emu and hw_emu");
    const std::string uuid = uuid_text(xclbin.uuid);
    Lock lock(mutex_);
    loads_.wait(lock, [this] { return !loading_; });
    require(lock, losses);
    if (loaded_ && loaded_->xclbin.uuid == xclbin.uuid && holds(uuid)) return;
    if (loaded_ && loaded_->in_use())
        throw Error(EBUSY, "Failed to load xclbin: kernels of xclbin " + uuid_text(loaded_->xclbin.uuid) + " are open");
    if (loaded_ && !loaded_->memory->empty()) throw Error(EPERM, "Failed to load xclbin: buffers are still allocated");
    const Loading loading(lock, loading_, loads_);
    const std::string directory = directory_;
    const bool hangs = !was_reset_;
    lock.unlock();
    auto next = std::make_shared<Loaded>(*this, std::move(xclbin), directory, hangs);
    SharedCard::Change change(SharedCard(directory, index_), uuid);
    lock.lock();
    if (change.replaces() || (directory.empty() && !held_.empty() && held_ != uuid)) pass(lock, load_time(), losses);
    require(lock, losses);
    change.commit();
    held_ = uuid;
    loaded_ = std::move(next);
}

std::shared_ptr<Loaded> Card::loaded(uint64_t losses) {
    Lock lock(mutex_);
    loads_.wait(lock, [this] { return !loading_; });
    require(lock, losses);
    if (!loaded_) throw Error(ENODEV, "No xclbin is loaded");
    if (!holds(uuid_text(loaded_->xclbin.uuid)))
        throw Error(EBUSY, "Another process has loaded another xclbin than " + uuid_text(loaded_->xclbin.uuid) + " on the card");
    return loaded_;
}

// Whether no other process has replaced the xclbin.
bool Card::holds(const std::string &uuid) const { return SharedCard(directory_, index_).held().value_or(uuid) == uuid; }

// Lets time pass without the lock. Throws ENODEV when the card is lost meanwhile.
void Card::pass(Lock &lock, std::chrono::milliseconds time, uint64_t losses) {
    const auto end = std::chrono::steady_clock::now() + time;
    for (auto now = end - time; now < end; now = std::chrono::steady_clock::now()) {
        lock.unlock();
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(end - now, kLook));
        lock.lock();
        require(lock, losses);
    }
}

void Card::look() {
    const Lock lock(mutex_);
    look(lock);
}

void Card::look(const Lock &) {
    const CardEvents now = card_events(directory_, index_);
    const bool reset = now.resets != events_.resets;
    const bool lost = reset || (now.unplugged && !events_.unplugged);
    events_ = now;
    if (!lost) return;
    ++losses_;
    was_reset_ = true;  // an unplugged card has no power, so it loses its state too
    if (loaded_) loaded_->lose(reset);
    loaded_.reset();
}

void Card::require(const Lock &lock, uint64_t losses) {
    look(lock);
    if (losses != losses_ || events_.unplugged) throw Error(ENODEV, "No such device: card " + std::to_string(index_) + " was unplugged or reset");
}

}  // namespace emu
