// SPDX-License-Identifier: Apache-2.0
#include "compute_unit.h"

#include <algorithm>
#include <utility>

#include "error.h"

namespace emu {

namespace {

// The control register and its bits (UG1393, ap_ctrl_chain).
constexpr uint32_t kControl = 0x00;
constexpr uint32_t kStart = 1u << 0;
constexpr uint32_t kDone = 1u << 1;
constexpr uint32_t kContinue = 1u << 4;
constexpr uint32_t kArguments = 0x10;

// The address of the answers among a run's register words (docs/registers.md).
constexpr size_t kAnswers = (0x1c - kArguments) / 4;

// A kernel that moves no data for so many clocks, or for its simulator's patience_clocks if these are more, is hung: its
// simulation stops, and the run stays RUNNING as on a card.
constexpr uint64_t kStillClocks = 1'000'000;

bool is_over(State state) { return state == State::kCompleted || state == State::kError || state == State::kAbort; }

}  // namespace

ComputeUnit::ComputeUnit(const Ip &ip, Mode mode, std::span<const uint8_t> image, const MemoryView &memory, bool shares,
                         std::shared_ptr<Wake> wake, uint64_t hang_at_run, WrongAnswers wrong)
    : ip_(ip), memory_(memory.memory), banks_(memory.banks), wake_(std::move(wake)), simulator_(image, mode), hang_at_run_(hang_at_run),
      wrong_(wrong) {
    const auto &api = simulator_.api();
    if (ip.kernel != api.kernel)
        throw Error(EINVAL, "Invalid xclbin: compute unit " + ip.compute_unit + " is of kernel '" + ip.kernel + "', BITSTREAM simulates '" +
                                api.kernel + "'");
    const hypersonic_memory view{this, &ComputeUnit::resolve, &ComputeUnit::report, shares ? &ComputeUnit::bank : nullptr,
                                 shares ? &ComputeUnit::beat : nullptr};
    model_ = api.create(&view, &memory.timing);
    if (model_ == nullptr) throw Error(ENOMEM, "Failed to create the simulation of compute unit " + ip.compute_unit);
}

ComputeUnit::~ComputeUnit() { simulator_.api().destroy(model_); }

uint8_t *ComputeUnit::resolve(void *card, uint64_t address, uint64_t *extent_bytes) {
    return static_cast<ComputeUnit *>(card)->memory_->resolve(address, extent_bytes);
}

// Called by the model on the worker's thread, like the two after it.
void ComputeUnit::report(void *card, const char *text) {
    auto *unit = static_cast<ComputeUnit *>(card);
    if (!unit->faulty_) say("ERROR", ("Compute unit " + unit->ip_.compute_unit + ": " + text).c_str());
    unit->faulty_ = true;
}

void *ComputeUnit::bank(void *card, uint64_t address) { return static_cast<ComputeUnit *>(card)->banks_->find(address); }

int ComputeUnit::beat(void *card, void *bank, int is_write, uint64_t clock, int claim) {
    auto *unit = static_cast<ComputeUnit *>(card);
    auto *shared = static_cast<SharedBank *>(bank);
    const Direction direction = is_write != 0 ? kWrite : kRead;
    const uint64_t now = clock + unit->skew_;
    if (!shared->free(direction, now)) {
        unit->delayed_ = true;
        return 0;
    }
    if (claim == 0) return 1;
    shared->claim(direction, now);
    ++unit->shared_beats[direction];
    return 1;
}

void ComputeUnit::submit(const std::shared_ptr<Command> &command) {
    const Lock lock(wake_->mutex);
    if (stopping_) throw Error(ENODEV, "Compute unit " + ip_.compute_unit + " is stopped");
    if (command->state == State::kQueued || command->state == State::kRunning) throw Error(EBUSY, "bad command state, can't launch");
    command->state = State::kQueued;
    queue_.push_back(command);
    wake_->work.notify_one();
}

State ComputeUnit::state(const std::shared_ptr<Command> &command) {
    const Lock lock(wake_->mutex);
    return command->state;
}

State ComputeUnit::wait(const std::shared_ptr<Command> &command, std::optional<std::chrono::milliseconds> timeout) {
    Lock lock(wake_->mutex);
    const auto over = [&] { return is_over(command->state); };
    if (timeout)
        over_.wait_for(lock, *timeout, over);
    else
        over_.wait(lock, over);
    return command->state;
}

size_t ComputeUnit::load() {
    const Lock lock(wake_->mutex);
    return queue_.size() + in_flight_.size();
}

uint32_t ComputeUnit::read_register(uint32_t offset) { return access(offset, 0, false); }

void ComputeUnit::write_register(uint32_t offset, uint32_t value) { access(offset, value, true); }

uint32_t ComputeUnit::access(uint32_t offset, uint32_t value, bool is_write) {
    RegisterAccess request{offset, value, is_write, std::nullopt};
    Lock lock(wake_->mutex);
    if (stopping_) throw Error(ENODEV, "Compute unit " + ip_.compute_unit + " is stopped");
    registers_.push_back(&request);
    wake_->work.notify_one();
    over_.wait(lock, [&] { return request.result.has_value(); });
    if (*request.result != 0)
        throw Error(EIO, "Compute unit " + ip_.compute_unit + " did not " + (is_write ? "take a write to" : "answer a read of") + " register " +
                             hex(offset));
    return request.value;
}

bool ComputeUnit::has_work() const { return !registers_.empty() || (!hung_ && (!queue_.empty() || !in_flight_.empty())); }

void ComputeUnit::prepare(Lock &lock, uint64_t now) {
    serve_registers();
    if (hung_ || !startable_ || queue_.empty()) return;
    if (in_flight_.empty()) skew_ = now - simulator_.api().clocks(model_);
    begin(lock);
}

void ComputeUnit::abandon() {
    abort_runs();
    for (RegisterAccess *request : registers_) request->result = -1;
    registers_.clear();
    over_.notify_all();
}

void ComputeUnit::abort_runs() {
    for (auto *list : {&queue_, &in_flight_})
        while (!list->empty()) {
            list->front()->state = State::kAbort;
            list->pop_front();
        }
}

void ComputeUnit::lose(bool reset) {
    const Lock lock(wake_->mutex);
    hung_ = true;
    if (reset) abort_runs();
    over_.notify_all();
}

bool ComputeUnit::hung() {
    const Lock lock(wake_->mutex);
    return hung_;
}

void ComputeUnit::serve_registers() {
    if (registers_.empty()) return;
    for (RegisterAccess *request : registers_) {
        request->result = request->is_write ? simulator_.api().write(model_, request->offset, request->value)
                                            : simulator_.api().read(model_, request->offset, &request->value);
        // the model never saw the start of a run that HYPERSONIC_EMU_HANG makes hang, so its register would read idle
        if (hung_ && !request->is_write && request->offset == kControl) request->value = kStart;
    }
    registers_.clear();
    over_.notify_all();
}

// Writes the next run's arguments and starts it, which the chain protocol allows as soon as ap_start reads 0.
void ComputeUnit::begin(Lock &lock) {
    const std::shared_ptr<Command> command = queue_.front();
    queue_.pop_front();
    in_flight_.push_back(command);
    command->state = State::kRunning;
    ++started_;
    if (in_flight_.size() > 1) ++queued_;
    command->wrong = (wrong_.from_run != 0 && started_ >= wrong_.from_run) ||
                     (wrong_.from_queued_run != 0 && in_flight_.size() > 1 && queued_ >= wrong_.from_queued_run);
    if (hang_at_run_ != 0 && started_ >= hang_at_run_) {
        if (in_flight_.size() == 1) hung_ = true;
        startable_ = false;
        return;
    }
    lock.unlock();
    const auto &api = simulator_.api();
    int result = 0;
    for (size_t i = 0; i < command->words.size(); ++i)
        result |= api.write(model_, kArguments + 4 * static_cast<uint32_t>(i), command->words[i]);
    result |= api.write(model_, kControl, kStart);
    lock.lock();
    if (hung_) return;  // the card was lost meanwhile
    startable_ = false;
    if (result != 0) give_up("does not take register writes");
}

void ComputeUnit::step(Lock &lock) {
    lock.unlock();
    advance(poll_clocks());
    poll();
    lock.lock();
    settle();
}

void ComputeUnit::advance(uint32_t clocks) {
    moved_ = simulator_.api().advance(model_, clocks);
    slice_clocks_ += clocks;
}

void ComputeUnit::advance_to(uint64_t clock) {
    const auto left = static_cast<int64_t>(clock - this->clock());
    if (left > 0) advance(static_cast<uint32_t>(left));
}

void ComputeUnit::poll() {
    status_ = 0;
    result_ = simulator_.api().read(model_, kControl, &status_);
    if (status_ & kDone) result_ |= simulator_.api().write(model_, kControl, kContinue);
}

// A compute unit that waits for a shared bank is not hung.
void ComputeUnit::settle() {
    const uint32_t clocks = std::exchange(slice_clocks_, 0);
    const bool delayed = std::exchange(delayed_, false);
    const uint32_t status = status_;
    if (hung_) return;
    if (result_ != 0) return give_up("does not answer at its control register");
    still_clocks_ = moved_ == progress_ && !delayed && (status & kDone) == 0 ? still_clocks_ + clocks : 0;
    progress_ = moved_;
    const bool stuck = hang_at_run_ != 0 && started_ >= hang_at_run_;
    if ((status & kStart) == 0 && !stuck) startable_ = true;
    if (status & kDone) complete(faulty_ ? State::kError : State::kCompleted);
    if (stuck && in_flight_.size() == 1) hung_ = true;
    if (still_clocks_ >= std::max<uint64_t>(kStillClocks, simulator_.api().patience_clocks)) give_up("has moved no data for " + std::to_string(still_clocks_) + " clocks");
}

// Ends the oldest run. Runs complete in order. A fault during runs that overlap could be of any of them, so all get it.
void ComputeUnit::complete(State state) {
    if (in_flight_.front()->wrong) spoil(*in_flight_.front());
    in_flight_.front()->state = state;
    in_flight_.pop_front();
    if (in_flight_.empty()) faulty_ = false;
    over_.notify_all();
}

// Flips the lowest bit of the first answer.
void ComputeUnit::spoil(const Command &command) {
    if (command.words.size() < kAnswers + 2) return;
    uint64_t extent_bytes = 0;
    const uint64_t address = command.words[kAnswers] | uint64_t{command.words[kAnswers + 1]} << 32;
    if (uint8_t *answer = memory_->resolve(address, &extent_bytes)) *answer ^= 1;
}

void ComputeUnit::give_up(const std::string &why) {
    hung_ = true;
    say("ERROR", ("Compute unit " + ip_.compute_unit + " " + why + ": its simulation is stopped, its runs stay RUNNING").c_str());
}

}  // namespace emu
