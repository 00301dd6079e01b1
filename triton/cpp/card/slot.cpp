// SPDX-License-Identifier: Apache-2.0
#include "card/slot.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "driver/error.hpp"

namespace hypersonic {
namespace {

// interval at which a thread that waits for a run checks that the card is still there
constexpr unsigned kHeartbeatMs = 500;

bool is_pending(int state) { return state == 1 || state == 2 || state == 3 || state == 7; }

}  // namespace

Slot::Slot(Unit& unit, Link& link, Figures& figures, const void* flow, std::size_t rows, std::size_t row_in_bytes,
           std::size_t row_out_bytes, std::shared_ptr<Buffer> weights)
    : unit_(unit),
      link_(link),
      figures_(figures),
      flow_(flow),
      capacity_rows_(rows),
      row_in_bytes_(row_in_bytes),
      row_out_bytes_(row_out_bytes),
      weights_(std::move(weights)),
      x_(unit, rows * row_in_bytes, kX),
      y_(unit, rows * row_out_bytes, kY),
      run_(unit.library().open_run(unit.kernel())) {
  try {
    unit.library().set_buffer(run_, kX, x_.handle());
    unit.library().set_buffer(run_, kY, y_.handle());
    if (weights_ != nullptr) {
      unit.library().set_buffer(run_, kW, weights_->handle());
    }
  } catch (...) {
    unit.library().close_run(run_);
    throw;
  }
}

Slot::~Slot() {
  unit_.dispose([library = &unit_.library(), run = run_] { library->close_run(run); });
}

RunTimes Slot::run(std::size_t rows, unsigned timeout_ms) {
  RunTimes times{};
  {
    const Gate::Pass pass(link_.to_card, flow_);
    unit_.require_service();
    x_.sync(kToDevice, rows * row_in_bytes_);
  }
  compute(rows, timeout_ms, times);
  unit_.check_accesses();
  {
    const Gate::Pass pass(link_.from_card, flow_);
    y_.sync(kFromDevice, rows * row_out_bytes_);
  }
  ++figures_.runs;
  figures_.bytes_in += rows * row_in_bytes_;
  figures_.bytes_out += rows * row_out_bytes_;
  return times;
}

void Slot::compute(std::size_t rows, unsigned timeout_ms, RunTimes& times) {
  std::unique_lock starting(unit_.starting);
  unit_.require_service();
  unit_.library().set_scalar(run_, kRows, static_cast<std::uint32_t>(rows));
  const Figures::InFlight in_flight(figures_);
  unit_.library().start(run_);
  starting.unlock();
  times.launched_ns = now_ns();
  wait(rows, timeout_ms);
  times.done_ns = now_ns();
}

void Slot::wait(std::size_t rows, unsigned timeout_ms) {
  const std::uint64_t end_ns = now_ns() + std::uint64_t{timeout_ms} * 1000000;
  while (true) {
    const std::uint64_t now = now_ns();
    const std::uint64_t left_ms = end_ns > now ? (end_ns - now) / 1000000 + 1 : 0;
    // 0 would wait for ever
    const int state = unit_.library().wait(run_, static_cast<unsigned>(std::clamp<std::uint64_t>(left_ms, 1, kHeartbeatMs)));
    if (state == kCompleted) {
      return;
    }
    unit_.check_present();
    if (!is_pending(state)) {
      throw Error(Kind::Run, "a run of " + std::to_string(rows) + " rows on " + unit_.name() + " ended in state " +
                                 std::to_string(state) + ", expected " + std::to_string(kCompleted) + " (completed)");
    }
    unit_.require_service();
    if (left_ms == 0) {
      ++figures_.timeouts;
      const std::string text = "a run of " + std::to_string(rows) + " rows on " + unit_.name() + " did not complete within " +
                               std::to_string(timeout_ms) +
                               " ms; the compute unit is out of service and the others continue: " + kReset +
                               " and load the model again";
      unit_.take_out_of_service(std::string("a run did not complete; ") + kReset);
      throw Error(Kind::ComputeUnitTimeout, text);
    }
  }
}

}  // namespace hypersonic
