// SPDX-License-Identifier: Apache-2.0
// A thread that simulates compute units: one that shares no memory bank, or all those that share banks, in lock step.
#ifndef HYPERSONIC_EMU_WORKER_H
#define HYPERSONIC_EMU_WORKER_H

#include <memory>
#include <thread>
#include <vector>

#include "compute_unit.h"

namespace emu {

// In lock step, the compute units with runs in flight advance by the same few clocks, one after another, and each may use the
// clocks of a bank that those before it have left. The one that has used the banks least goes first, so the shares are equal,
// and what one does not use is for the others. A compute unit whose neighbours are idle runs as if it shared no bank.
class Worker {
public:
    Worker(std::vector<std::unique_ptr<ComputeUnit>> units, std::shared_ptr<Wake> wake);
    ~Worker();
    Worker(const Worker &) = delete;
    Worker &operator=(const Worker &) = delete;

    // Ends the thread and aborts the commands that are not over. Does nothing the second time.
    void stop();

private:
    void work();
    void lock_step(ComputeUnit::Lock &lock, const std::vector<ComputeUnit *> &running);
    void window(std::vector<ComputeUnit *> &running);

    const std::vector<std::unique_ptr<ComputeUnit>> units_;
    const std::shared_ptr<Wake> wake_;
    bool stopping_ = false;

    // used by the thread only
    uint64_t clock_ = 0;           // of the lock step: all running compute units have reached it
    Direction busier_ = kRead;     // the direction with more beats in the last window

    std::thread thread_;
};

}  // namespace emu

#endif
