// SPDX-License-Identifier: Apache-2.0
// The least that a backend of tritonserver does: it copies each input into a
// fixed buffer and each output out of it.
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend/api.hpp"
#include "backend/triton.hpp"

namespace {

constexpr std::size_t kBytes = 64 << 20;

struct State {
  std::int64_t outputs; // FP32 numbers of a row of y
  std::vector<std::uint8_t> buffer = std::vector<std::uint8_t>(kBytes);
};

void answer(TRITONBACKEND_ModelInstance *instance,
            TRITONBACKEND_Request *request, State &state) {
  using hypersonic::check;
  TRITONBACKEND_Input *input = nullptr;
  const std::int64_t *shape = nullptr;
  std::uint32_t buffers = 0;
  check(TRITONBACKEND_RequestInput(request, "x", &input));
  check(TRITONBACKEND_InputProperties(input, nullptr, nullptr, &shape, nullptr,
                                      nullptr, &buffers));
  std::size_t at = 0;
  for (std::uint32_t index = 0; index < buffers; ++index) {
    const void *from = nullptr;
    std::uint64_t bytes = 0;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    std::int64_t id = 0;
    check(TRITONBACKEND_InputBuffer(input, index, &from, &bytes, &memory, &id));
    std::memcpy(state.buffer.data() + at, from, bytes);
    at += bytes;
  }
  TRITONBACKEND_Response *response = nullptr;
  TRITONBACKEND_Output *output = nullptr;
  check(TRITONBACKEND_ResponseNew(&response, request));
  const std::int64_t dims[2] = {shape[0], state.outputs};
  check(TRITONBACKEND_ResponseOutput(response, &output, "y",
                                     TRITONSERVER_TYPE_FP32, dims, 2));
  void *to = nullptr;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
  std::int64_t id = 0;
  const auto bytes = static_cast<std::uint64_t>(4 * dims[0] * dims[1]);
  check(TRITONBACKEND_OutputBuffer(output, &to, bytes, &memory, &id));
  std::memcpy(to, state.buffer.data(), bytes);
  check(TRITONBACKEND_ResponseSend(
      response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, nullptr));
  check(TRITONBACKEND_ModelInstanceReportStatistics(instance, request, true, 1,
                                                    1, 1, 1));
  check(
      TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
}

} // namespace

extern "C" __attribute__((visibility("default"))) TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance) {
  return hypersonic::guarded([&] {
    TRITONBACKEND_Model *model = nullptr;
    TRITONSERVER_Message *message = nullptr;
    hypersonic::check(TRITONBACKEND_ModelInstanceModel(instance, &model));
    hypersonic::check(TRITONBACKEND_ModelConfig(model, 1, &message));
    const nlohmann::json config = hypersonic::taken(message);
    const nlohmann::json dims = config["output"][0]["dims"][0];
    hypersonic::check(TRITONBACKEND_ModelInstanceSetState(
        instance,
        new State{dims.is_string() ? std::stoll(dims.get<std::string>())
                                   : dims.get<std::int64_t>()}));
  });
}

extern "C" __attribute__((visibility("default"))) TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance) {
  return hypersonic::guarded([&] {
    void *state = nullptr;
    hypersonic::check(TRITONBACKEND_ModelInstanceState(instance, &state));
    delete static_cast<State *>(state);
  });
}

extern "C" __attribute__((visibility("default"))) TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request **requests,
                                   const uint32_t count) {
  return hypersonic::guarded([&] {
    void *state = nullptr;
    hypersonic::check(TRITONBACKEND_ModelInstanceState(instance, &state));
    for (std::uint32_t index = 0; index < count; ++index) {
      answer(instance, requests[index], *static_cast<State *>(state));
    }
    hypersonic::check(TRITONBACKEND_ModelInstanceReportBatchStatistics(
        instance, count, 1, 1, 1, 1));
  });
}
