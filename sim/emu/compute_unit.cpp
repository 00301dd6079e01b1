// SPDX-License-Identifier: Apache-2.0
#include "compute_unit.h"

#include <algorithm>

#include "error.h"

namespace emu {

namespace {

// The control register and its bits (UG1393, ap_ctrl_chain).
constexpr uint32_t kControl = 0x00;
constexpr uint32_t kStart = 1u << 0;
constexpr uint32_t kDone = 1u << 1;
constexpr uint32_t kContinue = 1u << 4;
constexpr uint32_t kArguments = 0x10;

// A kernel that moves no data for so many clocks, or for its simulator's patience_clocks if these are more, is hung: its
// simulation stops, and the run stays RUNNING as on a card.
constexpr uint64_t kStillClocks = 1'000'000;

bool is_over(State state) { return state == State::kCompleted || state == State::kError || state == State::kAbort; }

}  // namespace

ComputeUnit::ComputeUnit(const Ip &ip, const Xclbin &xclbin, const std::shared_ptr<Memory> &memory,
                         const hypersonic_timing &timing, uint64_t hang_at_run)
    : ip_(ip), memory_(memory), simulator_(xclbin.bitstream, xclbin.mode), hang_at_run_(hang_at_run) {
    const auto &api = simulator_.api();
    if (ip.kernel != api.kernel)
        throw Error(EINVAL, "Invalid xclbin: compute unit " + ip.compute_unit + " is of kernel '" + ip.kernel + "', BITSTREAM simulates '" +
                                api.kernel + "'");
    const hypersonic_memory view{this, &ComputeUnit::resolve, &ComputeUnit::report};
    model_ = api.create(&view, &timing);
    if (model_ == nullptr) throw Error(ENOMEM, "Failed to create the simulation of compute unit " + ip.compute_unit);
    thread_ = std::thread(&ComputeUnit::work, this);
}

ComputeUnit::~ComputeUnit() {
    stop();
    simulator_.api().destroy(model_);
}

uint8_t *ComputeUnit::resolve(void *card, uint64_t address, uint64_t *extent_bytes) {
    return static_cast<ComputeUnit *>(card)->memory_->resolve(address, extent_bytes);
}

// Called by the model on the compute unit's thread.
void ComputeUnit::report(void *card, const char *text) {
    auto *unit = static_cast<ComputeUnit *>(card);
    if (!unit->faulty_) say("ERROR", ("Compute unit " + unit->ip_.compute_unit + ": " + text).c_str());
    unit->faulty_ = true;
}

void ComputeUnit::submit(const std::shared_ptr<Command> &command) {
    const Lock lock(mutex_);
    if (stopping_) throw Error(ENODEV, "Compute unit " + ip_.compute_unit + " is stopped");
    if (command->state == State::kQueued || command->state == State::kRunning) throw Error(EBUSY, "bad command state, can't launch");
    command->state = State::kQueued;
    queue_.push_back(command);
    work_.notify_one();
}

State ComputeUnit::state(const std::shared_ptr<Command> &command) {
    const Lock lock(mutex_);
    return command->state;
}

State ComputeUnit::wait(const std::shared_ptr<Command> &command, std::optional<std::chrono::milliseconds> timeout) {
    Lock lock(mutex_);
    const auto over = [&] { return is_over(command->state); };
    if (timeout)
        over_.wait_for(lock, *timeout, over);
    else
        over_.wait(lock, over);
    return command->state;
}

size_t ComputeUnit::load() {
    const Lock lock(mutex_);
    return queue_.size() + in_flight_.size();
}

uint32_t ComputeUnit::read_register(uint32_t offset) { return access(offset, 0, false); }

void ComputeUnit::write_register(uint32_t offset, uint32_t value) { access(offset, value, true); }

uint32_t ComputeUnit::access(uint32_t offset, uint32_t value, bool is_write) {
    RegisterAccess request{offset, value, is_write, std::nullopt};
    Lock lock(mutex_);
    if (stopping_) throw Error(ENODEV, "Compute unit " + ip_.compute_unit + " is stopped");
    registers_.push_back(&request);
    work_.notify_one();
    over_.wait(lock, [&] { return request.result.has_value(); });
    if (*request.result != 0)
        throw Error(EIO, "Compute unit " + ip_.compute_unit + " did not " + (is_write ? "take a write to" : "answer a read of") + " register " +
                             hex(offset));
    return request.value;
}

void ComputeUnit::stop() {
    {
        const Lock lock(mutex_);
        stopping_ = true;
        work_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
}

bool ComputeUnit::has_work() const {
    return stopping_ || !registers_.empty() || (!hung_ && (!queue_.empty() || !in_flight_.empty()));
}

void ComputeUnit::work() {
    Lock lock(mutex_);
    for (;;) {
        work_.wait(lock, [this] { return has_work(); });
        if (stopping_) break;
        serve_registers();
        if (hung_) continue;
        if (startable_ && !queue_.empty()) begin(lock);
        if (!hung_ && !in_flight_.empty()) step(lock);
    }
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
    const Lock lock(mutex_);
    hung_ = true;
    if (reset) abort_runs();
    over_.notify_all();
}

bool ComputeUnit::hung() {
    const Lock lock(mutex_);
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
    if (hang_at_run_ != 0 && ++started_ >= hang_at_run_) {
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

// Runs the model for a slice of simulated time, and then reads its control register.
void ComputeUnit::step(Lock &lock) {
    lock.unlock();
    const uint32_t clocks = std::max(simulator_.api().poll_clocks, 1u);
    const uint64_t progress = simulator_.api().advance(model_, clocks);
    uint32_t status = 0;
    int result = simulator_.api().read(model_, kControl, &status);
    if (status & kDone) result |= simulator_.api().write(model_, kControl, kContinue);
    lock.lock();
    if (hung_) return;
    if (result != 0) return give_up("does not answer at its control register");
    still_clocks_ = progress == progress_ && (status & kDone) == 0 ? still_clocks_ + clocks : 0;
    progress_ = progress;
    const bool stuck = hang_at_run_ != 0 && started_ >= hang_at_run_;
    if ((status & kStart) == 0 && !stuck) startable_ = true;
    if (status & kDone) complete(faulty_ ? State::kError : State::kCompleted);
    if (stuck && in_flight_.size() == 1) hung_ = true;
    if (still_clocks_ >= std::max<uint64_t>(kStillClocks, simulator_.api().patience_clocks)) give_up("has moved no data for " + std::to_string(still_clocks_) + " clocks");
}

// Ends the oldest run. Runs complete in order. A fault during runs that overlap could be of any of them, so all get it.
void ComputeUnit::complete(State state) {
    in_flight_.front()->state = state;
    in_flight_.pop_front();
    if (in_flight_.empty()) faulty_ = false;
    over_.notify_all();
}

void ComputeUnit::give_up(const std::string &why) {
    hung_ = true;
    say("ERROR", ("Compute unit " + ip_.compute_unit + " " + why + ": its simulation is stopped, its runs stay RUNNING").c_str());
}

}  // namespace emu
