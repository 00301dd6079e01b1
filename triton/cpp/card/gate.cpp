// SPDX-License-Identifier: Apache-2.0
#include "card/gate.hpp"

#include <algorithm>

#include "card/constants.inc"

namespace hypersonic {

void Gate::enter(const void* flow) {
  std::unique_lock lock(mutex_);
  served_.reserve(kTransfersInFlight);
  Turn turn{flow, false, {}};
  waiting_.push_back(&turn);
  give();
  turn.changed.wait(lock, [&turn] { return turn.due; });
}

void Gate::leave(const void* flow) noexcept {
  const std::scoped_lock lock(mutex_);
  served_.erase(std::find(served_.begin(), served_.end(), flow));
  give();
}

void Gate::give() noexcept {
  while (served_.size() < kTransfersInFlight && !waiting_.empty()) {
    auto next = std::find_if(waiting_.begin(), waiting_.end(), [this](const Turn* turn) { return !is_served(turn->flow); });
    next = next != waiting_.end() ? next : waiting_.begin();
    Turn& turn = **next;
    waiting_.erase(next);
    served_.push_back(turn.flow);
    turn.due = true;
    turn.changed.notify_one();  // with the lock held: the turn is gone once its thread sees that it is due
  }
}

bool Gate::is_served(const void* flow) const noexcept {
  return std::find(served_.begin(), served_.end(), flow) != served_.end();
}

}  // namespace hypersonic
