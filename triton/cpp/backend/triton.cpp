// SPDX-License-Identifier: Apache-2.0
#include "backend/triton.hpp"

#include <nlohmann/json.hpp>

#include "driver/error.hpp"

namespace hypersonic {
namespace {

TRITONSERVER_Error_Code code_of(Kind kind) {
  switch (kind) {
    case Kind::DeviceBusy:
    case Kind::DeviceLost:
    case Kind::ComputeUnitTimeout:
    case Kind::ComputeUnitOutOfService:
    case Kind::MemoryAccess:
      return TRITONSERVER_ERROR_UNAVAILABLE;
    case Kind::Manifest:
    case Kind::Weights:
    case Kind::XclbinMismatch:
      return TRITONSERVER_ERROR_INVALID_ARG;
    default:
      return TRITONSERVER_ERROR_INTERNAL;
  }
}

}  // namespace

void check(TRITONSERVER_Error* error) {
  if (error != nullptr) {
    const std::string text = TRITONSERVER_ErrorMessage(error);
    TRITONSERVER_ErrorDelete(error);
    throw TritonError(TRITONSERVER_ERROR_INTERNAL, text);
  }
}

void ignore(TRITONSERVER_Error* error) noexcept {
  if (error != nullptr) {
    TRITONSERVER_ErrorDelete(error);
  }
}

TRITONSERVER_Error* current_error() noexcept {
  try {
    throw;
  } catch (const TritonError& error) {
    return TRITONSERVER_ErrorNew(error.code(), error.what());
  } catch (const Error& error) {
    return TRITONSERVER_ErrorNew(code_of(error.kind()), error.what());
  } catch (const std::exception& error) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, error.what());
  } catch (...) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "the fpga backend failed");
  }
}

void log(TRITONSERVER_LogLevel level, const std::string& text) noexcept {
  ignore(TRITONSERVER_LogMessage(level, "fpga", 0, text.c_str()));
}

nlohmann::json borrowed(TRITONSERVER_Message* message) {
  const char* base = nullptr;
  size_t bytes = 0;
  check(TRITONSERVER_MessageSerializeToJson(message, &base, &bytes));
  return nlohmann::json::parse(base, base + bytes);
}

nlohmann::json taken(TRITONSERVER_Message* message) {
  try {
    nlohmann::json value = borrowed(message);
    ignore(TRITONSERVER_MessageDelete(message));
    return value;
  } catch (...) {
    ignore(TRITONSERVER_MessageDelete(message));
    throw;
  }
}

}  // namespace hypersonic
