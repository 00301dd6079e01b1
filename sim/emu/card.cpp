// SPDX-License-Identifier: Apache-2.0
#include "card.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "error.h"

namespace emu {

namespace {

// Every compute unit that has a thread, so that the process can end while one of them simulates. Never destroyed, because
// the exit handler below runs while objects of static storage are already being destroyed.
struct Running {
    std::mutex mutex;
    std::set<ComputeUnit *> units;
};

Running &running() {
    static auto *all = new Running;
    return *all;
}

void stop_all() {
    const std::lock_guard lock(running().mutex);
    for (ComputeUnit *unit : running().units) unit->stop();
}

}  // namespace

Loaded::Loaded(Card &card, Xclbin content, bool hangs)
    : xclbin(std::move(content)), memory(std::make_shared<Memory>(xclbin.banks)), card_(card) {
    const hypersonic_timing timing = memory_timing();
    for (const Ip &ip : xclbin.compute_units) {
        if (ip.control_protocol != 1)
            throw Error(ENOTSUP, "Compute unit " + ip.compute_unit + " has control protocol " + std::to_string(ip.control_protocol) +
                                     ", the emulated card runs ap_ctrl_chain (1) only");
        compute_units_.push_back(std::make_unique<ComputeUnit>(ip, xclbin, memory, timing, hangs ? hang_at_run(ip.compute_unit, card.index()) : 0));
    }
    contexts_.resize(compute_units_.size());
    {
        const std::lock_guard lock(running().mutex);
        for (const auto &unit : compute_units_) running().units.insert(unit.get());
    }
    // Registered after the simulators' own exit handlers, so it runs before them and no thread is inside a simulator that
    // is being destroyed.
    std::atexit(stop_all);
}

Loaded::~Loaded() {
    const std::lock_guard lock(running().mutex);
    for (const auto &unit : compute_units_) running().units.erase(unit.get());
}

std::shared_ptr<Context> Loaded::open(size_t compute_unit, Access access) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Context> context = contexts_[compute_unit].lock();
    if (!context) {
        context = std::make_shared<Context>(Context{compute_units_[compute_unit].get(), access});
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
    for (const auto &unit : compute_units_) unit->lose(reset);
}

bool Loaded::hung() {
    return std::any_of(compute_units_.begin(), compute_units_.end(), [](const auto &unit) { return unit->hung(); });
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
    const Lock lock(mutex_);
    require(lock, losses);
    if (loaded_ && loaded_->xclbin.uuid == xclbin.uuid) return;
    if (loaded_ && loaded_->in_use())
        throw Error(EBUSY, "Failed to load xclbin: kernels of xclbin " + uuid_text(loaded_->xclbin.uuid) + " are open");
    if (loaded_ && !loaded_->memory->empty()) throw Error(EPERM, "Failed to load xclbin: buffers are still allocated");
    loaded_ = std::make_shared<Loaded>(*this, std::move(xclbin), !was_reset_);
}

std::shared_ptr<Loaded> Card::loaded(uint64_t losses) {
    const Lock lock(mutex_);
    require(lock, losses);
    if (!loaded_) throw Error(ENODEV, "No xclbin is loaded");
    return loaded_;
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
