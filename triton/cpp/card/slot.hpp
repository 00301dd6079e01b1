// SPDX-License-Identifier: Apache-2.0
// The memory of one run of a model on a compute unit. While one slot computes, the bytes of another are transferred.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "card/figures.hpp"
#include "card/gate.hpp"
#include "card/unit.hpp"

namespace hypersonic {

// The directions of a card's link.
struct Link {
  Gate to_card;
  Gate from_card;
};

// The times of a run, in ns of the steady clock.
struct RunTimes {
  std::uint64_t launched_ns;  // x was on the card and the run had been started
  std::uint64_t done_ns;      // the run had completed
};

class Slot {
 public:
  // flow: identifies the model version at the link. weights: null for a kernel that reads none. Throws Error.
  Slot(Unit& unit, Link& link, Figures& figures, const void* flow, std::size_t rows, std::size_t row_in_bytes,
       std::size_t row_out_bytes, std::shared_ptr<Buffer> weights);
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  std::uint8_t* x() const noexcept { return x_.data(); }
  const std::uint8_t* y() const noexcept { return y_.data(); }
  std::size_t capacity_rows() const noexcept { return capacity_rows_; }

  // Computes the first `rows` rows of x into y. Throws Error: ComputeUnitTimeout (the unit is out of service then, and this
  // slot must not be used again), ComputeUnitOutOfService, MemoryAccess, DeviceLost, Run, BufferObject.
  RunTimes run(std::size_t rows, unsigned timeout_ms);

 private:
  void compute(std::size_t rows, unsigned timeout_ms, RunTimes& times);
  void wait(std::size_t rows, unsigned timeout_ms);

  Unit& unit_;
  Link& link_;
  Figures& figures_;
  const void* flow_;
  std::size_t capacity_rows_;
  std::size_t row_in_bytes_;
  std::size_t row_out_bytes_;
  std::shared_ptr<Buffer> weights_;
  Buffer x_;
  Buffer y_;
  Handle run_;
};

}  // namespace hypersonic
