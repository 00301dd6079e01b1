// SPDX-License-Identifier: Apache-2.0
// The transfers in one direction of a card's link. Two are in flight, because one does not fill the link (docs/decisions.md).
// Of those that wait, the first one of a model with none in flight is next: while models compete, each has one place, however
// many slots it has.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <vector>

namespace hypersonic {

class Gate {
 public:
  // Held during a transfer. flow: identifies the model version.
  class Pass {
   public:
    Pass(Gate& gate, const void* flow) : gate_(gate), flow_(flow) { gate_.enter(flow); }
    ~Pass() { gate_.leave(flow_); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    Gate& gate_;
    const void* flow_;
  };

  // How many transfers wait for a place.
  std::size_t waiting() const {
    const std::scoped_lock lock(mutex_);
    return waiting_.size();
  }

 private:
  struct Turn {
    const void* flow;
    bool due = false;
    std::condition_variable changed;
  };

  void enter(const void* flow);
  void leave(const void* flow) noexcept;
  void give() noexcept;
  bool is_served(const void* flow) const noexcept;

  mutable std::mutex mutex_;
  std::list<Turn*> waiting_;
  std::vector<const void*> served_;  // the flow of each transfer in flight
};

}  // namespace hypersonic
