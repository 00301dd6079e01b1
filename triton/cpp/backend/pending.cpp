// SPDX-License-Identifier: Apache-2.0
#include "backend/pending.hpp"

#include <algorithm>
#include <cstring>

#include "backend/config.hpp"
#include "backend/gpu.hpp"
#include "card/slot.hpp"
#include "driver/error.hpp"

namespace hypersonic {
namespace {

constexpr std::size_t kMostDims = 9;

// Copies bytes that begin `position` bytes into a tensor's rows to the tensor's place in each row.
void scatter(std::uint8_t* x, std::size_t row_bytes, const Tensor& tensor, std::size_t position, const std::uint8_t* from,
             std::size_t bytes) {
  if (row_bytes == tensor.row_bytes) {
    std::memcpy(x + position, from, bytes);
    return;
  }
  while (bytes > 0) {
    const std::size_t row = position / tensor.row_bytes;
    const std::size_t within = position % tensor.row_bytes;
    const std::size_t piece = std::min(bytes, tensor.row_bytes - within);
    std::memcpy(x + row * row_bytes + tensor.offset + within, from, piece);
    position += piece;
    from += piece;
    bytes -= piece;
  }
}

void gather(std::uint8_t* to, const std::uint8_t* y, std::size_t row_bytes, const Tensor& tensor, std::size_t rows) {
  if (row_bytes == tensor.row_bytes) {
    std::memcpy(to, y, rows * row_bytes);
    return;
  }
  for (std::size_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * tensor.row_bytes, y + row * row_bytes + tensor.offset, tensor.row_bytes);
  }
}

}  // namespace

Pending::Pending(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request* request, const Manifest& manifest,
                 std::uint64_t exec_start_ns)
    : instance_(instance), request_(request), manifest_(manifest), exec_start_ns_(exec_start_ns) {}

void Pending::open() {
  for (std::size_t index = 0; index < manifest_.inputs.tensors.size(); ++index) {
    const Tensor& tensor = manifest_.inputs.tensors[index];
    check(TRITONBACKEND_RequestInput(request_, tensor.name.c_str(), &inputs_[index]));
    const std::int64_t* shape = nullptr;
    std::uint32_t dims = 0;
    std::uint64_t bytes = 0;
    check(TRITONBACKEND_InputProperties(inputs_[index], nullptr, nullptr, &shape, &dims, &bytes, nullptr));
    const std::size_t rows = dims > 0 ? static_cast<std::size_t>(shape[0]) : 0;
    if (index == 0) {
      rows_ = rows;
    }
    if (rows != rows_ || bytes / tensor.row_bytes != rows || bytes % tensor.row_bytes != 0) {
      throw TritonError(TRITONSERVER_ERROR_INVALID_ARG, "input " + quoted(tensor.name) + " has " + std::to_string(bytes) +
                                                            " bytes, expected " + std::to_string(rows_) + " rows of " +
                                                            std::to_string(tensor.row_bytes) + " bytes");
    }
  }
}

void Pending::require_wanted() const {
  bool is_cancelled = false;
  if (TRITONBACKEND_RequestIsCancelled != nullptr) {
    ignore(TRITONBACKEND_RequestIsCancelled(request_, &is_cancelled));
  }
  if (is_cancelled) {
    throw TritonError(TRITONSERVER_ERROR_CANCELLED, "the request was cancelled");
  }
}

void Pending::fill(std::uint8_t* x, std::size_t first_row, std::size_t rows) const {
  for (std::size_t index = 0; index < manifest_.inputs.tensors.size(); ++index) {
    const Tensor& tensor = manifest_.inputs.tensors[index];
    std::size_t skip = first_row * tensor.row_bytes;
    const std::size_t wanted = rows * tensor.row_bytes;
    std::size_t done = 0;
    for (std::uint32_t piece = 0; done < wanted; ++piece) {
      const void* buffer = nullptr;
      std::uint64_t bytes = 0;
      TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
      std::int64_t id = 0;
      check(TRITONBACKEND_InputBuffer(inputs_[index], piece, &buffer, &bytes, &memory, &id));
      const std::size_t skipped = std::min<std::size_t>(skip, bytes);
      skip -= skipped;
      const std::size_t taken = std::min<std::size_t>(bytes - skipped, wanted - done);
      const auto* from = static_cast<const std::uint8_t*>(buffer) + skipped;
      if (memory == TRITONSERVER_MEMORY_GPU) {
        const HostCopy copy(from, taken);
        scatter(x, manifest_.inputs.bytes, tensor, done, copy.data(), taken);
      } else if (taken > 0) {
        scatter(x, manifest_.inputs.bytes, tensor, done, from, taken);
      }
      done += taken;
    }
  }
}

void Pending::answer(const std::uint8_t* y, std::size_t first_row, std::size_t rows, const ComputeTimes& times) noexcept {
  TRITONSERVER_Error* error = guarded([&] {
    {
      const std::scoped_lock lock(mutex_);
      if (error_ != nullptr) {
        return;
      }
      if (response_ == nullptr) {
        open_response();
      }
      times_.start_ns = times_.start_ns != 0 ? std::min(times_.start_ns, times.start_ns) : times.start_ns;
      times_.end_ns = std::max(times_.end_ns, times.end_ns);
    }
    write(y, first_row, rows);
  });
  keep(error);
  end_part();
}

void Pending::fail(TRITONSERVER_Error* error) noexcept {
  keep(error);
  end_part();
}

void Pending::open_response() {
  check(TRITONBACKEND_ResponseNew(&response_, request_));
  outputs_.fill(nullptr);
  std::uint32_t wanted = 0;
  check(TRITONBACKEND_RequestOutputCount(request_, &wanted));
  for (std::uint32_t number = 0; number < wanted; ++number) {
    const char* name = nullptr;
    check(TRITONBACKEND_RequestOutputName(request_, number, &name));
    const Tensor* tensor = manifest_.outputs.find(name);
    if (tensor == nullptr) {
      throw TritonError(TRITONSERVER_ERROR_INVALID_ARG, "output " + quoted(name) + " is not an output of the model");
    }
    std::array<std::int64_t, kMostDims> shape{static_cast<std::int64_t>(rows_)};
    std::copy(tensor->shape.begin(), tensor->shape.end(), shape.begin() + 1);
    TRITONBACKEND_Output* output = nullptr;
    check(TRITONBACKEND_ResponseOutput(response_, &output, name, datatype_of(tensor->datatype), shape.data(),
                                       static_cast<std::uint32_t>(tensor->shape.size() + 1)));
    void* buffer = nullptr;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    std::int64_t id = 0;
    check(TRITONBACKEND_OutputBuffer(output, &buffer, rows_ * tensor->row_bytes, &memory, &id));
    if (memory == TRITONSERVER_MEMORY_GPU) {
      throw TritonError(TRITONSERVER_ERROR_UNSUPPORTED,
                        "output " + quoted(name) + " is wanted in GPU memory, expected memory of the host");
    }
    outputs_[static_cast<std::size_t>(tensor - manifest_.outputs.tensors.data())] = static_cast<std::uint8_t*>(buffer);
  }
}

void Pending::write(const std::uint8_t* y, std::size_t first_row, std::size_t rows) {
  for (std::size_t index = 0; index < manifest_.outputs.tensors.size(); ++index) {
    const Tensor& tensor = manifest_.outputs.tensors[index];
    if (outputs_[index] != nullptr && rows > 0) {
      gather(outputs_[index] + first_row * tensor.row_bytes, y, manifest_.outputs.bytes, tensor, rows);
    }
  }
}

void Pending::keep(TRITONSERVER_Error* error) noexcept {
  const std::scoped_lock lock(mutex_);
  if (error_ == nullptr) {
    error_ = error;
  } else {
    ignore(error);
  }
}

void Pending::end_part() noexcept {
  if (parts_.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  const bool success = error_ == nullptr;
  if (response_ == nullptr && !success) {
    ignore(TRITONBACKEND_ResponseNew(&response_, request_));
  }
  const std::uint64_t end_ns = now_ns();
  const std::uint64_t start_ns = times_.start_ns != 0 ? times_.start_ns : end_ns;
  ignore(TRITONBACKEND_ModelInstanceReportStatistics(instance_, request_, success, exec_start_ns_, start_ns,
                                                     times_.end_ns != 0 ? times_.end_ns : end_ns, end_ns));
  if (response_ != nullptr) {
    ignore(TRITONBACKEND_ResponseSend(response_, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error_));
  }
  ignore(error_);
  ignore(TRITONBACKEND_RequestRelease(request_, TRITONSERVER_REQUEST_RELEASE_ALL));
  delete this;
}

}  // namespace hypersonic
