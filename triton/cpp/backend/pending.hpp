// SPDX-License-Identifier: Apache-2.0
// One request from Triton until its response is sent. Its rows may be computed in several parts, on several compute units.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "backend/triton.hpp"
#include "model/manifest.hpp"

namespace hypersonic {

// The most tensors of a row that a manifest may have.
constexpr std::size_t kMostTensors = 64;

// The times of a run in ns of the steady clock, for statistics.
struct ComputeTimes {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
};

class Pending {
 public:
  // Owns the request from now on. Throws TritonError (INVALID_ARG) if its inputs do not fit the row; answer the request with
  // fail() then.
  Pending(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request* request, const Manifest& manifest,
          std::uint64_t exec_start_ns);
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  // Reads the inputs, and finds out how many rows there are.
  void open();
  std::size_t rows() const noexcept { return rows_; }
  // Throws TritonError (CANCELLED) if the client has cancelled the request.
  void require_wanted() const;
  std::uint64_t exec_start_ns() const noexcept { return exec_start_ns_; }

  // Called once, before the first part is given to a thread.
  void set_parts(std::uint32_t parts) noexcept { parts_.store(parts, std::memory_order_relaxed); }

  // Copies rows of the request's inputs to `x`, which has the layout of the manifest's row. Throws TritonError.
  void fill(std::uint8_t* x, std::size_t first_row, std::size_t rows) const;
  // Copies rows from `y` to the response, and ends this part. The last part sends the response, and the Pending is gone.
  void answer(const std::uint8_t* y, std::size_t first_row, std::size_t rows, const ComputeTimes& times) noexcept;
  // Ends a part that failed.
  void fail(TRITONSERVER_Error* error) noexcept;

 private:
  void open_response();
  void write(const std::uint8_t* y, std::size_t first_row, std::size_t rows);
  void keep(TRITONSERVER_Error* error) noexcept;
  void end_part() noexcept;

  TRITONBACKEND_ModelInstance* instance_;
  TRITONBACKEND_Request* request_;
  const Manifest& manifest_;
  std::uint64_t exec_start_ns_;
  std::size_t rows_ = 0;
  std::array<TRITONBACKEND_Input*, kMostTensors> inputs_;
  std::atomic<std::uint32_t> parts_{1};

  std::mutex mutex_;  // protects the following, between parts
  TRITONBACKEND_Response* response_ = nullptr;
  std::array<std::uint8_t*, kMostTensors> outputs_;
  TRITONSERVER_Error* error_ = nullptr;
  ComputeTimes times_;
};

}  // namespace hypersonic
