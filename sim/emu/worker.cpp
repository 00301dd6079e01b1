// SPDX-License-Identifier: Apache-2.0
#include "worker.h"

#include <algorithm>

namespace emu {

namespace {

// The clocks that the compute units of a lock step advance by, one after another: a quarter of the longest burst.
constexpr uint32_t kWindowClocks = 16;

}  // namespace

Worker::Worker(std::vector<std::unique_ptr<ComputeUnit>> units, std::shared_ptr<Wake> wake) : units_(std::move(units)), wake_(std::move(wake)) {
    thread_ = std::thread(&Worker::work, this);
}

Worker::~Worker() { stop(); }

void Worker::stop() {
    {
        const std::lock_guard lock(wake_->mutex);
        stopping_ = true;
        for (const auto &unit : units_) unit->refuse();
        wake_->work.notify_one();
    }
    if (thread_.joinable()) thread_.join();
}

void Worker::work() {
    ComputeUnit::Lock lock(wake_->mutex);
    std::vector<ComputeUnit *> running;
    for (;;) {
        wake_->work.wait(lock, [this] {
            return stopping_ || std::any_of(units_.begin(), units_.end(), [](const auto &unit) { return unit->has_work(); });
        });
        if (stopping_) break;
        running.clear();
        for (const auto &unit : units_) {
            unit->prepare(lock, clock_);
            if (unit->running()) running.push_back(unit.get());
        }
        if (running.size() > 1) {
            lock_step(lock, running);
        } else if (running.size() == 1) {
            running.front()->step(lock);
            clock_ = std::max(clock_, running.front()->clock());
        }
    }
    for (const auto &unit : units_) unit->abandon();
}

// Runs the compute units for about as long as one would run alone between two polls of its control register.
void Worker::lock_step(ComputeUnit::Lock &lock, const std::vector<ComputeUnit *> &running) {
    uint32_t clocks = running.front()->poll_clocks();
    for (const ComputeUnit *unit : running) clocks = std::min(clocks, unit->poll_clocks());
    lock.unlock();
    std::vector<ComputeUnit *> order(running);
    for (uint32_t done = 0; done < clocks; done += kWindowClocks) window(order);
    for (ComputeUnit *unit : running) unit->poll();
    lock.lock();
    for (ComputeUnit *unit : running) unit->settle();
}

void Worker::window(std::vector<ComputeUnit *> &running) {
    // A compute unit that has used little, or nothing for a while, may be ahead of the others by two windows, no more.
    for (const Direction direction : {kRead, kWrite}) {
        uint64_t most = 0;
        for (const ComputeUnit *unit : running) most = std::max(most, unit->shared_beats[direction]);
        for (ComputeUnit *unit : running)
            unit->shared_beats[direction] = std::max(unit->shared_beats[direction], most - std::min<uint64_t>(most, 2 * kWindowClocks));
    }
    std::stable_sort(running.begin(), running.end(),
                     [this](const ComputeUnit *a, const ComputeUnit *b) { return a->shared_beats[busier_] < b->shared_beats[busier_]; });
    uint64_t before[2] = {};
    uint64_t after[2] = {};
    clock_ += kWindowClocks;
    for (ComputeUnit *unit : running) {
        for (const Direction direction : {kRead, kWrite}) before[direction] += unit->shared_beats[direction];
        unit->advance_to(clock_);
        for (const Direction direction : {kRead, kWrite}) after[direction] += unit->shared_beats[direction];
    }
    busier_ = after[kWrite] - before[kWrite] > after[kRead] - before[kRead] ? kWrite : kRead;
}

}  // namespace emu
