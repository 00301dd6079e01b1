// SPDX-License-Identifier: Apache-2.0
// One compute unit: its simulator, its queue of runs, and the thread that plays XRT's scheduler (KDS) for it.
#ifndef HYPERSONIC_EMU_COMPUTE_UNIT_H
#define HYPERSONIC_EMU_COMPUTE_UNIT_H

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "memory.h"
#include "simulator.h"

namespace emu {

// ert_cmd_state, XRT's numbers.
enum class State { kNew = 1, kQueued = 2, kRunning = 3, kCompleted = 4, kError = 5, kAbort = 6 };

// What one start of a run carries: register words from 0x10 up. Its state is the compute unit's, under its mutex.
struct Command {
    std::vector<uint32_t> words;
    State state = State::kNew;
};

struct RegisterAccess {
    uint32_t offset;
    uint32_t value;
    bool is_write;
    std::optional<int> result;
};

// All simulation happens on the compute unit's own thread, which sleeps while nothing is in flight. Public functions may
// be called from any thread.
class ComputeUnit {
public:
    // `hang_at_run`: the first run (from 1) that never completes; 0 for none.
    ComputeUnit(const Ip &ip, const Xclbin &xclbin, const std::shared_ptr<Memory> &memory, const hypersonic_timing &timing,
                uint64_t hang_at_run);
    ~ComputeUnit();
    ComputeUnit(const ComputeUnit &) = delete;
    ComputeUnit &operator=(const ComputeUnit &) = delete;

    const Ip &ip() const { return ip_; }

    void submit(const std::shared_ptr<Command> &command);
    State state(const std::shared_ptr<Command> &command);
    // The state once the command is over, or the one at the end of the time. No time given: waits for ever.
    State wait(const std::shared_ptr<Command> &command, std::optional<std::chrono::milliseconds> timeout);
    // Runs queued or in flight.
    size_t load();

    uint32_t read_register(uint32_t offset);
    void write_register(uint32_t offset, uint32_t value);

    // Ends the thread; what is not over is aborted. Again: does nothing.
    void stop();

    // The card is gone: nothing is simulated any more. What is not over is aborted by a reset, else it stays as it is.
    void lose(bool reset);
    bool hung();

private:
    using Lock = std::unique_lock<std::mutex>;

    static uint8_t *resolve(void *card, uint64_t address, uint64_t *extent_bytes);
    static void report(void *card, const char *text);

    void work();
    bool has_work() const;
    void abort_runs();
    void serve_registers();
    void begin(Lock &lock);
    void step(Lock &lock);
    void complete(State state);
    void give_up(const std::string &why);
    uint32_t access(uint32_t offset, uint32_t value, bool is_write);

    const Ip ip_;
    const std::shared_ptr<Memory> memory_;
    const Simulator simulator_;
    hypersonic_model *model_ = nullptr;  // the thread's
    const uint64_t hang_at_run_;

    std::mutex mutex_;
    std::condition_variable work_;
    std::condition_variable over_;
    std::deque<std::shared_ptr<Command>> queue_;
    std::deque<std::shared_ptr<Command>> in_flight_;
    std::deque<RegisterAccess *> registers_;
    bool stopping_ = false;
    bool hung_ = false;

    // the thread's
    bool startable_ = true;  // ap_start has been seen low since the last start
    bool faulty_ = false;    // an access failed while the runs in flight were in flight
    uint64_t started_ = 0;
    uint64_t progress_ = 0;
    uint64_t still_clocks_ = 0;

    std::thread thread_;
};

}  // namespace emu

#endif
