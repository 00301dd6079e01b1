// SPDX-License-Identifier: Apache-2.0
// One compute unit: its simulator, its queue of runs, and a thread that does the work of XRT's scheduler (KDS).
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

// The states of XRT's ert_cmd_state, with XRT's numbers.
enum class State { kNew = 1, kQueued = 2, kRunning = 3, kCompleted = 4, kError = 5, kAbort = 6 };

// One start of a run: its register words from offset 0x10 up. The compute unit changes its state, under its mutex.
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

// All simulation is done by the compute unit's own thread, which sleeps while nothing is in flight. Public functions may be
// called from any thread.
class ComputeUnit {
public:
    // hang_at_run: the first run, counted from 1, that never completes; 0: none hangs.
    ComputeUnit(const Ip &ip, const Xclbin &xclbin, const std::shared_ptr<Memory> &memory, const hypersonic_timing &timing,
                uint64_t hang_at_run);
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

    // Ends the thread and aborts the commands that are not over. Does nothing the second time.
    void stop();

    // Ends the simulation because the card is lost. A reset aborts the commands that are not over; otherwise they keep
    // their state.
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
    hypersonic_model *model_ = nullptr;  // used by the thread only
    const uint64_t hang_at_run_;

    std::mutex mutex_;
    std::condition_variable work_;
    std::condition_variable over_;
    std::deque<std::shared_ptr<Command>> queue_;
    std::deque<std::shared_ptr<Command>> in_flight_;
    std::deque<RegisterAccess *> registers_;
    bool stopping_ = false;
    bool hung_ = false;

    // used by the thread only
    bool startable_ = true;  // ap_start has read 0 since the last start
    bool faulty_ = false;    // a memory access has failed during the runs in flight
    uint64_t started_ = 0;
    uint64_t progress_ = 0;
    uint64_t still_clocks_ = 0;

    std::thread thread_;
};

}  // namespace emu

#endif
