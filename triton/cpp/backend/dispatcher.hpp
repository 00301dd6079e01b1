// SPDX-License-Identifier: Apache-2.0
// Distributes the rows of requests over the slots of a model's compute units. Each slot has a thread, which fills it, runs it
// and answers; so the next slot is filled while one computes. The rows of a run whose compute unit was lost run on another one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend/metrics.hpp"
#include "backend/pending.hpp"
#include "card/card.hpp"

namespace hypersonic {

// Rows of a request that run in one slot.
struct Share {
  Pending* pending;
  std::size_t first_row;  // in the request
  std::size_t rows;
  std::size_t at = 0;  // the row of the slot
};

using Job = std::vector<Share>;

class Dispatcher {
 public:
  Dispatcher(TRITONBACKEND_ModelInstance* instance, const Manifest& manifest, Metrics& metrics, unsigned timeout_ms,
             std::size_t slot_rows);
  // Waits until all jobs have ended.
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Starts the threads.
  void start(std::vector<std::unique_ptr<Tenant>> tenants);

  // Answers all requests, now or later on other threads. Returns once the last of their rows has a slot.
  void execute(TRITONBACKEND_Request** requests, std::uint32_t count) noexcept;

  // Called when compute units were lost or are back.
  void lanes_changed() noexcept;
  // Returns the reason why no compute unit is in service; empty if one is.
  std::string out_of_service() noexcept;

 private:
  struct Unit;
  struct Worker;

  void add(Pending* pending);
  // Waits for a free slot, and gives it the job. Returns false if no compute unit is in service.
  void submit(Job& job) noexcept;
  // The free slot of the compute unit that has least to do.
  Worker& free_worker() noexcept;
  void set_free(Worker& worker, bool is_free);
  void work(Worker& worker) noexcept;
  bool take(Worker& worker, std::unique_lock<std::mutex>& lock);
  void run(Worker& worker) noexcept;
  void compute(Worker& worker, Slot& slot);
  // Lets the rows of a lost run run on another compute unit.
  void retry(Job& job, const std::exception& error) noexcept;
  // The jobs that wait for a compute unit, if there is none in service. The lock is held.
  std::vector<Job> take_lost();
  void fail_lost(std::vector<Job>& lost) noexcept;
  void wake_workers() noexcept;
  // Why the last compute unit was lost.
  std::string reason() noexcept;
  std::string reason_locked() const;
  bool any_in_service() noexcept;
  void fail(Job& job, TRITONSERVER_Error_Code code, const std::string& text) noexcept;

  TRITONBACKEND_ModelInstance* instance_;
  const Manifest& manifest_;
  Metrics& metrics_;
  const unsigned timeout_ms_;
  const std::size_t slot_rows_;
  std::vector<std::unique_ptr<Tenant>> tenants_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Job filling_;  // of the thread that calls execute()
  std::size_t filling_rows_ = 0;

  std::mutex mutex_;
  std::condition_variable free_changed_;
  std::vector<Worker*> free_;  // in the order in which they became free
  std::deque<Job> retries_;
  std::string last_error_;
  std::size_t busy_ = 0;  // workers with a job
  bool closing_ = false;
};

}  // namespace hypersonic
