// SPDX-License-Identifier: Apache-2.0
// One compute unit: its simulator, its queue of runs, and what XRT's scheduler (KDS) does with them.
#ifndef HYPERSONIC_EMU_COMPUTE_UNIT_H
#define HYPERSONIC_EMU_COMPUTE_UNIT_H

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banks.h"
#include "memory.h"
#include "options.h"
#include "simulator.h"

namespace emu {

// The states of XRT's ert_cmd_state, with XRT's numbers.
enum class State { kNew = 1, kQueued = 2, kRunning = 3, kCompleted = 4, kError = 5, kAbort = 6 };

// One start of a run: its register words from offset 0x10 up. The compute unit changes its state, under its mutex.
struct Command {
    std::vector<uint32_t> words;
    State state = State::kNew;
    bool wrong = false;  // HYPERSONIC_EMU_WRONG: one bit of its answer
};

struct RegisterAccess {
    uint32_t offset;
    uint32_t value;
    bool is_write;
    std::optional<int> result;
};

// What a worker's thread waits with, and the mutex of the compute units that it simulates.
struct Wake {
    std::mutex mutex;
    std::condition_variable work;
};

// The card's memory as its compute units see it.
struct MemoryView {
    std::shared_ptr<Memory> memory;
    std::shared_ptr<Banks> banks;
    hypersonic_timing timing;
};

// All simulation is done by the thread of one worker (worker.h), which sleeps while nothing is in flight. The functions of the
// first group may be called from any thread, those of the second by the worker's thread only.
class ComputeUnit {
public:
    using Lock = std::unique_lock<std::mutex>;

    // image: a simulator of its kernel. shares: it shares a bank. hang_at_run: the first run, counted from 1, that never
    // completes; 0: none hangs. wrong: the first runs with a wrong answer.
    ComputeUnit(const Ip &ip, Mode mode, std::span<const uint8_t> image, const MemoryView &memory, bool shares,
                std::shared_ptr<Wake> wake, uint64_t hang_at_run, WrongAnswers wrong);
    ~ComputeUnit();
    ComputeUnit(const ComputeUnit &) = delete;
    ComputeUnit &operator=(const ComputeUnit &) = delete;

    const Ip &ip() const { return ip_; }

    void submit(const std::shared_ptr<Command> &command);
    State state(const std::shared_ptr<Command> &command);
    // Waits until the command is over or the time is, and returns its state. Without a timeout, waits for ever.
    State wait(const std::shared_ptr<Command> &command, std::optional<std::chrono::milliseconds> timeout);
    // Runs queued or in flight.
    size_t load();

    uint32_t read_register(uint32_t offset);
    void write_register(uint32_t offset, uint32_t value);

    // Ends the simulation because the card is lost. A reset aborts the commands that are not over; otherwise they keep
    // their state.
    void lose(bool reset);
    bool hung();

    // Under the lock, in order: takes no more commands; whether there is anything to do; accesses registers and begins a run,
    // at clock `now` of the lock step if none is in flight; whether runs are in flight; ends what is not over.
    void refuse() { stopping_ = true; }
    bool has_work() const;
    void prepare(Lock &lock, uint64_t now);
    bool running() const { return !hung_ && !in_flight_.empty(); }
    void abandon();
    // Runs the model for a slice of simulated time, and then reads its control register.
    void step(Lock &lock);
    // The same in parts: without the lock up to a clock of the lock step, and the register; under the lock the rest.
    void advance_to(uint64_t clock);
    void poll();
    void settle();
    // Its clock in the lock step.
    uint64_t clock() const { return simulator_.api().clocks(model_) + skew_; }
    uint32_t poll_clocks() const { return std::max(simulator_.api().poll_clocks, 1u); }
    // Beats read and written in shared banks, by Direction; the worker's count of the shares.
    uint64_t shared_beats[2] = {};

private:
    static uint8_t *resolve(void *card, uint64_t address, uint64_t *extent_bytes);
    static void report(void *card, const char *text);
    static void *bank(void *card, uint64_t address);
    static int beat(void *card, void *bank, int is_write, uint64_t clock, int claim);

    void advance(uint32_t clocks);
    void abort_runs();
    void serve_registers();
    void begin(Lock &lock);
    void complete(State state);
    void spoil(const Command &command);
    void give_up(const std::string &why);
    uint32_t access(uint32_t offset, uint32_t value, bool is_write);

    const Ip ip_;
    const std::shared_ptr<Memory> memory_;
    const std::shared_ptr<Banks> banks_;
    const std::shared_ptr<Wake> wake_;
    const Simulator simulator_;
    hypersonic_model *model_ = nullptr;  // used by the worker's thread only
    const uint64_t hang_at_run_;
    const WrongAnswers wrong_;

    // under wake_->mutex
    std::condition_variable over_;
    std::deque<std::shared_ptr<Command>> queue_;
    std::deque<std::shared_ptr<Command>> in_flight_;
    std::deque<RegisterAccess *> registers_;
    bool stopping_ = false;
    bool hung_ = false;

    // used by the worker's thread only
    bool startable_ = true;  // ap_start has read 0 since the last start
    bool faulty_ = false;    // a memory access has failed during the runs in flight
    uint64_t started_ = 0;
    uint64_t queued_ = 0;  // of them, while another run was in flight
    uint64_t progress_ = 0;
    uint64_t still_clocks_ = 0;
    uint64_t skew_ = 0;     // from the model's clocks to those of the lock step
    bool delayed_ = false;  // a shared bank has made it wait since the last poll
    // of the last slice
    uint64_t moved_ = 0;
    uint32_t slice_clocks_ = 0;
    uint32_t status_ = 0;
    int result_ = 0;
};

}  // namespace emu

#endif
