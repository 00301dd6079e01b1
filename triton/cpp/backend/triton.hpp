// SPDX-License-Identifier: Apache-2.0
// Between Triton's C API and this backend: errors, logging, configuration as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>

#include "backend/api.hpp"

namespace hypersonic {

// An error with Triton's code, for a client or an operator.
class TritonError : public std::runtime_error {
 public:
  TritonError(TRITONSERVER_Error_Code code, const std::string& text) : std::runtime_error(text), code_(code) {}
  TRITONSERVER_Error_Code code() const noexcept { return code_; }

 private:
  TRITONSERVER_Error_Code code_;
};

// Throws TritonError (INTERNAL) for an error that Triton returned, and deletes it.
void check(TRITONSERVER_Error* error);
// Deletes an error that can only be ignored.
void ignore(TRITONSERVER_Error* error) noexcept;
// The error of the exception that is being handled.
TRITONSERVER_Error* current_error() noexcept;
// Calls a function, and returns its exception as an error: none may leave an extern "C" function.
template <typename Function>
TRITONSERVER_Error* guarded(const Function& function) noexcept {
  try {
    function();
    return nullptr;
  } catch (...) {
    return current_error();
  }
}

void log(TRITONSERVER_LogLevel level, const std::string& text) noexcept;

// A message of Triton as JSON, which is deleted.
nlohmann::json taken(TRITONSERVER_Message* message);
// A message of Triton as JSON, which belongs to Triton.
nlohmann::json borrowed(TRITONSERVER_Message* message);

}  // namespace hypersonic
