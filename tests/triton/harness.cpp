// SPDX-License-Identifier: Apache-2.0
// A stand-in for tritonserver that can be compiled with sanitizers: it implements the functions of backend/api.hpp, loads one
// model version, sends batches of requests to it and compares every answer with y = 2 * x[0] + x[1].
//
//   harness MODEL_DIRECTORY EMULATION_LIBRARY BATCHES
//
// It prints the numbers of right, failed and wrong answers, and of requests that were never answered.
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "backend/api.hpp"

namespace {

constexpr int kColumns = 18;
constexpr unsigned kMostInFlight = 64;

std::mutex mutex;
std::condition_variable changed;
unsigned in_flight = 0;
std::atomic<unsigned> right{0};
std::atomic<unsigned> failed{0};
std::atomic<unsigned> wrong{0};
std::atomic<int> metrics{0};

}  // namespace

struct TRITONSERVER_Error {
  TRITONSERVER_Error_Code code;
  std::string text;
};
struct TRITONSERVER_Message {
  std::string json;
};
struct TRITONSERVER_Parameter {};
struct TRITONSERVER_MetricFamily {};
struct TRITONSERVER_Metric {
  double value = 0;
};
struct TRITONBACKEND_Backend {
  TRITONSERVER_Message config;
  void* state = nullptr;
};
struct TRITONBACKEND_Model {
  TRITONBACKEND_Backend* backend;
  std::string directory;
  std::string config;
  void* state = nullptr;
};
struct TRITONBACKEND_ModelInstance {
  TRITONBACKEND_Model* model;
  void* state = nullptr;
};
struct TRITONBACKEND_Input {
  std::int64_t shape[2];
  std::vector<std::vector<std::uint8_t>> buffers;
};
struct TRITONBACKEND_Output {
  std::vector<float> values;
};
struct TRITONBACKEND_Request {
  TRITONBACKEND_Input x;
  std::vector<float> expected;
  std::atomic<unsigned> responses{0};
};
struct TRITONBACKEND_Response {
  TRITONBACKEND_Request* request;
  TRITONBACKEND_Output y;
};

extern "C" {

TRITONSERVER_Error* TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char* msg) {
  return new TRITONSERVER_Error{code, msg};
}
void TRITONSERVER_ErrorDelete(TRITONSERVER_Error* error) { delete error; }
const char* TRITONSERVER_ErrorMessage(TRITONSERVER_Error* error) { return error->text.c_str(); }
TRITONSERVER_Error* TRITONSERVER_LogMessage(TRITONSERVER_LogLevel, const char*, int, const char* msg) {
  std::cerr << std::string(msg) + "\n";
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message** message, const char* base,
                                                              size_t byte_size) {
  *message = new TRITONSERVER_Message{std::string(base, byte_size)};
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message* message, const char** base, size_t* byte_size) {
  *base = message->json.data();
  *byte_size = message->json.size();
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MessageDelete(TRITONSERVER_Message* message) {
  delete message;
  return nullptr;
}
TRITONSERVER_Parameter* TRITONSERVER_ParameterNew(const char*, TRITONSERVER_ParameterType, const void*) {
  return new TRITONSERVER_Parameter;
}
void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter* parameter) { delete parameter; }
TRITONSERVER_Error* TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily** family, TRITONSERVER_MetricKind, const char*,
                                                 const char*) {
  *family = new TRITONSERVER_MetricFamily;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily* family) {
  delete family;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricNew(TRITONSERVER_Metric** metric, TRITONSERVER_MetricFamily*,
                                           const TRITONSERVER_Parameter**, uint64_t) {
  *metric = new TRITONSERVER_Metric;
  ++metrics;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricDelete(TRITONSERVER_Metric* metric) {
  delete metric;
  --metrics;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricIncrement(TRITONSERVER_Metric*, double) { return nullptr; }
TRITONSERVER_Error* TRITONSERVER_MetricSet(TRITONSERVER_Metric*, double) { return nullptr; }

TRITONSERVER_Error* TRITONBACKEND_ApiVersion(uint32_t* major, uint32_t* minor) {
  *major = 1;
  *minor = 13;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_BackendConfig(TRITONBACKEND_Backend* backend, TRITONSERVER_Message** config) {
  *config = &backend->config;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_BackendState(TRITONBACKEND_Backend* backend, void** state) {
  *state = backend->state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend* backend, void* state) {
  backend->state = state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelName(TRITONBACKEND_Model*, const char** name) {
  *name = "m";
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelVersion(TRITONBACKEND_Model*, uint64_t* version) {
  *version = 1;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelRepository(TRITONBACKEND_Model* model, TRITONBACKEND_ArtifactType* type,
                                                  const char** location) {
  *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  *location = model->directory.c_str();
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelConfig(TRITONBACKEND_Model* model, uint32_t, TRITONSERVER_Message** config) {
  *config = new TRITONSERVER_Message{model->config};
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model*, bool* complete) {
  *complete = true;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model* model, uint32_t, TRITONSERVER_Message* config) {
  model->config = config->json;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelBackend(TRITONBACKEND_Model* model, TRITONBACKEND_Backend** backend) {
  *backend = model->backend;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelState(TRITONBACKEND_Model* model, void** state) {
  *state = model->state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelSetState(TRITONBACKEND_Model* model, void* state) {
  model->state = state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Model** model) {
  *model = instance->model;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance* instance, void** state) {
  *state = instance->state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance* instance, void* state) {
  instance->state = state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportStatistics(TRITONBACKEND_ModelInstance*, TRITONBACKEND_Request*, bool,
                                                                uint64_t start, uint64_t compute_start, uint64_t compute_end,
                                                                uint64_t end) {
  if (start > compute_start || compute_start > compute_end || compute_end > end) {
    ++wrong;
  }
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportBatchStatistics(TRITONBACKEND_ModelInstance*, uint64_t, uint64_t, uint64_t,
                                                                     uint64_t, uint64_t) {
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestInput(TRITONBACKEND_Request* request, const char*, TRITONBACKEND_Input** input) {
  *input = &request->x;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request*, uint32_t* count) {
  *count = 1;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request*, uint32_t, const char** name) {
  *name = "y";
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestRelease(TRITONBACKEND_Request* request, uint32_t) {
  wrong += request->responses != 1;  // exactly one final response
  delete request;
  const std::scoped_lock lock(mutex);
  --in_flight;
  changed.notify_all();
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_InputProperties(TRITONBACKEND_Input* input, const char**, TRITONSERVER_DataType*,
                                                  const int64_t** shape, uint32_t* dims, uint64_t* bytes, uint32_t*) {
  *shape = input->shape;
  *dims = 2;
  *bytes = static_cast<uint64_t>(input->shape[0]) * kColumns * sizeof(float);
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_InputBuffer(TRITONBACKEND_Input* input, uint32_t index, const void** buffer, uint64_t* bytes,
                                              TRITONSERVER_MemoryType* memory, int64_t* id) {
  *buffer = input->buffers.at(index).data();
  *bytes = input->buffers[index].size();
  *memory = TRITONSERVER_MEMORY_CPU;
  *id = 0;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ResponseNew(TRITONBACKEND_Response** response, TRITONBACKEND_Request* request) {
  *response = new TRITONBACKEND_Response{request, {}};
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response* response, TRITONBACKEND_Output** output, const char*,
                                                 TRITONSERVER_DataType, const int64_t* shape, uint32_t) {
  response->y.values.resize(static_cast<size_t>(shape[0] * shape[1]), NAN);
  *output = &response->y;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output* output, void** buffer, uint64_t bytes,
                                               TRITONSERVER_MemoryType* memory, int64_t* id) {
  wrong += bytes != output->values.size() * sizeof(float);
  *buffer = output->values.data();
  *memory = TRITONSERVER_MEMORY_CPU;
  *id = 0;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ResponseSend(TRITONBACKEND_Response* response, uint32_t, TRITONSERVER_Error* error) {
  ++response->request->responses;
  if (error != nullptr) {
    ++failed;
    std::cerr << error->text + "\n";
  } else if (response->y.values == response->request->expected) {
    ++right;
  } else {
    ++wrong;
  }
  delete response;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend);
TRITONSERVER_Error* TRITONBACKEND_Finalize(TRITONBACKEND_Backend* backend);
TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model);
TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests,
                                                       uint32_t count);

}  // extern "C"

namespace {

void require(TRITONSERVER_Error* error) {
  if (error != nullptr) {
    std::cerr << error->text << "\n";
    std::exit(2);
  }
}

// A request of `rows` rows, whose bytes lie in one to three buffers.
TRITONBACKEND_Request* request_of(std::int64_t rows, std::mt19937& random) {
  auto request = std::make_unique<TRITONBACKEND_Request>();
  std::vector<float> x(static_cast<size_t>(rows) * kColumns);
  for (float& value : x) {
    value = static_cast<float>(static_cast<int>(random() % 2000) - 1000);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    request->expected.push_back(2 * x[static_cast<size_t>(row * kColumns)] + x[static_cast<size_t>(row * kColumns) + 1]);
  }
  request->x.shape[0] = rows;
  request->x.shape[1] = kColumns;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(x.data());
  const std::size_t size = x.size() * sizeof(float);
  std::size_t at = 0;
  for (int piece = 0; piece < 2 && at < size; ++piece) {
    const std::size_t end = at + random() % (size - at + 1);
    request->x.buffers.emplace_back(bytes + at, bytes + end);
    at = end;
  }
  request->x.buffers.emplace_back(bytes + at, bytes + size);
  return request.release();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "harness MODEL_DIRECTORY EMULATION_LIBRARY BATCHES\n";
    return 2;
  }
  std::ifstream file(std::string(argv[1]) + "/config.json");
  std::stringstream config;
  config << file.rdbuf();
  TRITONBACKEND_Backend backend{{std::string(R"({"cmdline":{"emulation":"true","emulation-library":")") + argv[2] + "\"}}"}};
  TRITONBACKEND_Model model{&backend, argv[1], config.str()};
  TRITONBACKEND_ModelInstance instance{&model};
  require(TRITONBACKEND_Initialize(&backend));
  require(TRITONBACKEND_ModelInitialize(&model));
  require(TRITONBACKEND_ModelInstanceInitialize(&instance));
  std::mt19937 random(1);
  for (int batch = std::stoi(argv[3]); batch > 0; --batch) {
    std::vector<TRITONBACKEND_Request*> requests;
    for (unsigned count = 1 + random() % 4; count > 0; --count) {
      const std::int64_t sizes[] = {1, 3, 16, 17, 40};
      requests.push_back(request_of(sizes[random() % 5], random));
    }
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [] { return in_flight < kMostInFlight; });
      in_flight += static_cast<unsigned>(requests.size());
    }
    require(TRITONBACKEND_ModelInstanceExecute(&instance, requests.data(), static_cast<uint32_t>(requests.size())));
  }
  require(TRITONBACKEND_ModelInstanceFinalize(&instance));
  require(TRITONBACKEND_ModelFinalize(&model));
  require(TRITONBACKEND_Finalize(&backend));
  std::cout << right << " right, " << failed << " failed, " << wrong << " wrong, " << in_flight << " unanswered, " << metrics
            << " metrics left\n";
  return wrong != 0 || in_flight != 0 || metrics != 0 ? 1 : 0;
}
