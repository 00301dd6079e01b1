// SPDX-License-Identifier: Apache-2.0
#include "backend/dispatcher.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "driver/error.hpp"

namespace hypersonic {
namespace {

// Whether the rows of a run that ended so run on another compute unit. After MemoryAccess the rows themselves may be the cause.
bool may_retry(Kind kind) {
  return kind == Kind::ComputeUnitTimeout || kind == Kind::ComputeUnitOutOfService || kind == Kind::DeviceLost;
}

}  // namespace

struct Dispatcher::Unit {
  Tenant* tenant;
  Lane* lane;
  std::size_t free_slots = 0;

  [[nodiscard]] bool in_service() const noexcept {
    const Lane::Use use(*lane);
    return lane->in_service();
  }
};

struct Dispatcher::Worker {
  Unit* unit;
  std::size_t slot;
  Job job;
  std::condition_variable given;
  bool has_job = false;
  bool is_free = false;
  std::thread thread;
};

Dispatcher::Dispatcher(TRITONBACKEND_ModelInstance* instance, const Manifest& manifest, Metrics& metrics, unsigned timeout_ms,
                       std::size_t slot_rows)
    : instance_(instance), manifest_(manifest), metrics_(metrics), timeout_ms_(timeout_ms), slot_rows_(slot_rows) {}

void Dispatcher::start(std::vector<std::unique_ptr<Tenant>> tenants) {
  tenants_ = std::move(tenants);
  std::size_t slots = 0;
  for (const auto& tenant : tenants_) {
    metrics_.show(*tenant);
    for (const auto& lane : tenant->lanes()) {
      units_.push_back(std::unique_ptr<Unit>(new Unit{tenant.get(), lane.get()}));
      slots = std::max(slots, lane->size());
    }
  }
  for (std::size_t slot = 0; slot < slots; ++slot) {
    for (const auto& unit : units_) {
      workers_.push_back(std::make_unique<Worker>());
      workers_.back()->unit = unit.get();
      workers_.back()->slot = slot;
    }
  }
  for (const auto& worker : workers_) {
    worker->thread = std::thread([this, worker = worker.get()] { work(*worker); });
  }
}

Dispatcher::~Dispatcher() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
    for (const auto& worker : workers_) {
      worker->given.notify_one();
    }
  }
  for (const auto& worker : workers_) {
    worker->thread.join();
  }
  for (const auto& tenant : tenants_) {
    metrics_.hide(*tenant);
  }
  tenants_.clear();  // a card may still report a change until its tenant has left
}

void Dispatcher::execute(TRITONBACKEND_Request** requests, std::uint32_t count) noexcept {
  const std::uint64_t start_ns = now_ns();
  for (std::uint32_t index = 0; index < count; ++index) {
    auto* pending = new (std::nothrow) Pending(instance_, requests[index], manifest_, start_ns);
    if (pending == nullptr) {
      continue;  // Triton answers a request that was never released with its own timeout
    }
    TRITONSERVER_Error* error = guarded([pending] { pending->open(); });
    if (error != nullptr) {
      pending->fail(error);
    } else if (pending->rows() == 0) {
      pending->answer(nullptr, 0, 0, {start_ns, start_ns});
    } else {
      add(pending);
    }
  }
  if (!filling_.empty()) {
    submit(filling_);
    filling_rows_ = 0;
  }
}

void Dispatcher::add(Pending* pending) {
  const std::size_t rows = pending->rows();
  if (filling_rows_ > 0 && rows > slot_rows_ - filling_rows_) {
    submit(filling_);
    filling_rows_ = 0;
  }
  pending->set_parts(static_cast<std::uint32_t>((rows + slot_rows_ - 1) / slot_rows_));
  for (std::size_t first = 0; first < rows; first += slot_rows_) {
    const std::size_t part = std::min(slot_rows_, rows - first);
    filling_.push_back({pending, first, part});
    filling_rows_ += part;
    if (filling_rows_ == slot_rows_) {
      submit(filling_);
      filling_rows_ = 0;
    }
  }
}

void Dispatcher::submit(Job& job) noexcept {
  std::unique_lock lock(mutex_);
  while (free_.empty()) {
    if (!any_in_service()) {
      const std::string text = reason_locked();
      lock.unlock();
      fail(job, TRITONSERVER_ERROR_UNAVAILABLE, text);
      return;
    }
    free_changed_.wait(lock);
  }
  Worker& worker = free_worker();
  set_free(worker, false);
  worker.job.swap(job);
  job.clear();
  worker.has_job = true;
  worker.given.notify_one();
}

Dispatcher::Worker& Dispatcher::free_worker() noexcept {
  const auto has_less_to_do = [](const Worker* one, const Worker* other) {
    return one->unit->free_slots < other->unit->free_slots;
  };
  // of equal ones the last, whose memory was used most recently and may still be in a cache
  return **std::max_element(free_.rbegin(), free_.rend(), has_less_to_do);
}

void Dispatcher::set_free(Worker& worker, bool is_free) {
  if (worker.is_free == is_free) {
    return;
  }
  worker.is_free = is_free;
  if (is_free) {
    free_.push_back(&worker);
    ++worker.unit->free_slots;
  } else {
    free_.erase(std::find(free_.begin(), free_.end(), &worker));
    --worker.unit->free_slots;
  }
}

void Dispatcher::work(Worker& worker) noexcept {
  std::unique_lock lock(mutex_);
  while (take(worker, lock)) {
    ++busy_;
    lock.unlock();
    run(worker);
    lock.lock();
    worker.has_job = false;
    --busy_;
    if (closing_) {
      wake_workers();
    }
  }
}

bool Dispatcher::take(Worker& worker, std::unique_lock<std::mutex>& lock) {
  while (!worker.has_job) {
    if (worker.unit->in_service() && !retries_.empty()) {
      worker.job.swap(retries_.front());
      retries_.pop_front();
      worker.has_job = true;
      break;
    }
    if (closing_ && busy_ == 0) {  // until then, the rows of a run may come back
      return false;
    }
    if (!worker.is_free && worker.unit->in_service()) {
      set_free(worker, true);
      free_changed_.notify_one();
    }
    worker.given.wait(lock);
  }
  set_free(worker, false);
  return true;
}

void Dispatcher::run(Worker& worker) noexcept {
  Lane& lane = *worker.unit->lane;
  try {
    const Lane::Use use(lane);
    Slot* slot = lane.in_service() ? lane.slot(worker.slot) : nullptr;
    if (slot == nullptr) {
      throw Error(Kind::ComputeUnitOutOfService, "compute unit " + lane.unit_name() + " is out of service");
    }
    try {
      compute(worker, *slot);
    } catch (const Error& error) {
      worker.unit->tenant->card().report(error, lane.unit());
      throw;
    }
  } catch (const Error& error) {
    if (may_retry(error.kind())) {
      retry(worker.job, error);
    } else {
      fail(worker.job, TRITONSERVER_ERROR_INTERNAL, error.what());
    }
  } catch (const std::exception& error) {
    fail(worker.job, TRITONSERVER_ERROR_INTERNAL, error.what());
  }
  worker.job.clear();
}

void Dispatcher::compute(Worker& worker, Slot& slot) {
  std::size_t rows = 0;
  for (Share& share : worker.job) {
    share.at = rows;
    TRITONSERVER_Error* error = guarded([&] {
      share.pending->require_wanted();
      share.pending->fill(slot.x() + share.at * manifest_.inputs.bytes, share.first_row, share.rows);
    });
    if (error != nullptr) {
      share.pending->fail(error);
      share.pending = nullptr;
    }
    rows += share.rows;
  }
  worker.job.erase(
      std::remove_if(worker.job.begin(), worker.job.end(), [](const Share& share) { return share.pending == nullptr; }),
      worker.job.end());
  if (worker.job.empty()) {
    return;
  }
  const std::uint64_t start_ns = worker.job.front().pending->exec_start_ns();
  const RunTimes times = slot.run(rows, timeout_ms_);
  for (const Share& share : worker.job) {
    const std::uint8_t* y = slot.y() + share.at * manifest_.outputs.bytes;
    share.pending->answer(y, share.first_row, share.rows, {times.launched_ns, times.done_ns});
  }
  ignore(
      TRITONBACKEND_ModelInstanceReportBatchStatistics(instance_, rows, start_ns, times.launched_ns, times.done_ns, now_ns()));
}

void Dispatcher::retry(Job& job, const std::exception& error) noexcept {
  std::vector<Job> lost;
  {
    const std::scoped_lock lock(mutex_);
    last_error_ = error.what();
    retries_.push_back(std::move(job));
    job = Job();
    lost = take_lost();
    wake_workers();
  }
  fail_lost(lost);
}

std::vector<Job> Dispatcher::take_lost() {
  std::vector<Job> lost;
  if (!any_in_service()) {
    std::move(retries_.begin(), retries_.end(), std::back_inserter(lost));
    retries_.clear();
  }
  return lost;
}

void Dispatcher::fail_lost(std::vector<Job>& lost) noexcept {
  for (Job& job : lost) {
    fail(job, TRITONSERVER_ERROR_UNAVAILABLE, reason());
  }
}

void Dispatcher::wake_workers() noexcept {
  for (const auto& worker : workers_) {
    worker->given.notify_one();
  }
}

void Dispatcher::lanes_changed() noexcept {
  std::vector<Job> lost;
  {
    const std::scoped_lock lock(mutex_);
    if (closing_) {
      return;
    }
    for (const auto& worker : workers_) {
      if (!worker->unit->in_service()) {
        set_free(*worker, false);
      }
    }
    lost = take_lost();
    wake_workers();
    free_changed_.notify_all();
  }
  fail_lost(lost);
}

std::string Dispatcher::out_of_service() noexcept {
  const std::scoped_lock lock(mutex_);
  return any_in_service() ? "" : reason_locked();
}

std::string Dispatcher::reason() noexcept {
  const std::scoped_lock lock(mutex_);
  return reason_locked();
}

std::string Dispatcher::reason_locked() const { return last_error_.empty() ? "no compute unit is in service" : last_error_; }

bool Dispatcher::any_in_service() noexcept {
  return std::any_of(units_.begin(), units_.end(), [](const auto& unit) { return unit->in_service(); });
}

void Dispatcher::fail(Job& job, TRITONSERVER_Error_Code code, const std::string& text) noexcept {
  for (const Share& share : job) {
    share.pending->fail(TRITONSERVER_ErrorNew(code, text.c_str()));
  }
  job.clear();
}

}  // namespace hypersonic
