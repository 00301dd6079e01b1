// SPDX-License-Identifier: Apache-2.0
// Triton's entry points of the backend "fpga": a version directory with model.xclbin and manifest.json, and with weights.bin if
// the kernel loads its weights at run time. One instance drives all compute units of the model's cards.
//
// --backend-config=fpga,emulation=true                loads xclbins for emulated cards, whose simulator is native code
// --backend-config=fpga,emulation-library=<path>      the emulated card's XRT library
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "backend/api.hpp"
#include "backend/config.hpp"
#include "backend/dispatcher.hpp"
#include "backend/metrics.hpp"
#include "backend/triton.hpp"
#include "card/cards.hpp"
#include "model/manifest.hpp"

#define FPGA_EXPORT extern "C" __attribute__((visibility("default")))

namespace hypersonic {
namespace {

constexpr std::uint32_t kApiMajor = 1;
constexpr std::uint32_t kApiMinor = 13;

struct BackendState {
  bool emulation;
  Cards cards;
  Metrics metrics{};
};

struct ModelState {
  std::string name;
  std::uint64_t version;
  std::string directory;
  Manifest manifest;
  Xclbin contents;  // of model.xclbin
  ModelSettings settings;
  BackendState& backend;
};

std::string option(const nlohmann::json& config, const std::string& name) {
  const auto cmdline = config.find("cmdline");
  return cmdline != config.end() && cmdline->is_object() ? cmdline->value(name, "") : "";
}

void initialize(TRITONBACKEND_Backend* backend) {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  check(TRITONBACKEND_ApiVersion(&major, &minor));
  if (major != kApiMajor || minor < kApiMinor) {
    throw TritonError(TRITONSERVER_ERROR_UNSUPPORTED, "Triton's backend API is " + std::to_string(major) + "." +
                                                          std::to_string(minor) +
                                                          ", expected 1.13 or a later 1.x: use tritonserver 2.35 or newer");
  }
  TRITONSERVER_Message* message = nullptr;
  check(TRITONBACKEND_BackendConfig(backend, &message));
  const nlohmann::json config = borrowed(message);
  const bool emulation = option(config, "emulation") == "true";
  const Log to_log = [](bool error, const std::string& text) {
    log(error ? TRITONSERVER_LOG_ERROR : TRITONSERVER_LOG_INFO, text);
  };
  auto state = std::unique_ptr<BackendState>(
      new BackendState{emulation, {emulation ? option(config, "emulation-library") : "", to_log}});
  check(TRITONBACKEND_BackendSetState(backend, state.get()));
  state.release();
}

BackendState& backend_of(TRITONBACKEND_Model* model) {
  TRITONBACKEND_Backend* backend = nullptr;
  void* state = nullptr;
  check(TRITONBACKEND_ModelBackend(model, &backend));
  check(TRITONBACKEND_BackendState(backend, &state));
  return *static_cast<BackendState*>(state);
}

std::string directory_of(TRITONBACKEND_Model* model, std::uint64_t version) {
  TRITONBACKEND_ArtifactType type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  const char* location = nullptr;
  check(TRITONBACKEND_ModelRepository(model, &type, &location));
  return std::string(location) + "/" + std::to_string(version);
}

nlohmann::json config_of(TRITONBACKEND_Model* model, const Manifest& manifest) {
  TRITONSERVER_Message* message = nullptr;
  check(TRITONBACKEND_ModelConfig(model, 1, &message));
  nlohmann::json config = taken(message);
  bool may_complete = false;
  check(TRITONBACKEND_ModelAutoCompleteConfig(model, &may_complete));
  if (may_complete && complete(config, manifest)) {
    const std::string text = config.dump();
    check(TRITONSERVER_MessageNewFromSerializedJson(&message, text.data(), text.size()));
    TRITONSERVER_Error* error = TRITONBACKEND_ModelSetConfig(model, 1, message);
    ignore(TRITONSERVER_MessageDelete(message));
    check(error);
  }
  return config;
}

void require_emulation(const BackendState& backend, const Manifest& manifest) {
  if (manifest.emulated() && !backend.emulation) {
    throw TritonError(TRITONSERVER_ERROR_INVALID_ARG,
                      "the xclbin is for an emulated card (target " + manifest.target +
                          "), whose simulator is native code in the server's process: start the server with "
                          "'--backend-config=fpga,emulation=true', or by `hypersonic triton serve`");
  }
}

void initialize_model(TRITONBACKEND_Model* model) {
  const char* name = nullptr;
  std::uint64_t version = 0;
  check(TRITONBACKEND_ModelName(model, &name));
  check(TRITONBACKEND_ModelVersion(model, &version));
  BackendState& backend = backend_of(model);
  const std::string directory = directory_of(model, version);
  Manifest manifest = read_manifest(directory);
  require_emulation(backend, manifest);
  const nlohmann::json config = config_of(model, manifest);
  ModelSettings settings = settings_of(config, manifest);
  Xclbin contents = check_xclbin(manifest, directory);
  if (!manifest.accepted.empty()) {
    log(TRITONSERVER_LOG_WARN, std::string("'") + name + "' version " + std::to_string(version) +
                                   " is far from the trained model, which its build accepted: " + manifest.accepted);
  }
  auto state = std::unique_ptr<ModelState>(
      new ModelState{name, version, directory, std::move(manifest), std::move(contents), std::move(settings), backend});
  check(TRITONBACKEND_ModelSetState(model, state.get()));
  state.release();
}

void initialize_instance(TRITONBACKEND_ModelInstance* instance) {
  TRITONBACKEND_Model* model = nullptr;
  void* found = nullptr;
  check(TRITONBACKEND_ModelInstanceModel(instance, &model));
  check(TRITONBACKEND_ModelState(model, &found));
  auto& state = *static_cast<ModelState*>(found);
  const ModelSettings& settings = state.settings;
  auto dispatcher =
      std::make_unique<Dispatcher>(instance, state.manifest, state.backend.metrics, settings.timeout_ms, settings.slot_rows);
  const Wish wish{state.name,      state.version,  state.manifest,     state.contents,
                  state.directory, settings.slots, settings.slot_rows, settings.retry_ms};
  auto tenants = state.backend.cards.place(wish, settings.cards, [&to = *dispatcher] { to.lanes_changed(); });
  dispatcher->start(std::move(tenants));
  check(TRITONBACKEND_ModelInstanceSetState(instance, dispatcher.get()));
  dispatcher.release();
}

Dispatcher* dispatcher_of(TRITONBACKEND_ModelInstance* instance) {
  void* state = nullptr;
  check(TRITONBACKEND_ModelInstanceState(instance, &state));
  return static_cast<Dispatcher*>(state);
}

}  // namespace
}  // namespace hypersonic

FPGA_EXPORT TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  return hypersonic::guarded([&] { hypersonic::initialize(backend); });
}

FPGA_EXPORT TRITONSERVER_Error* TRITONBACKEND_Finalize(TRITONBACKEND_Backend* backend) {
  return hypersonic::guarded([&] {
    void* state = nullptr;
    hypersonic::check(TRITONBACKEND_BackendState(backend, &state));
    delete static_cast<hypersonic::BackendState*>(state);
  });
}

FPGA_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  return hypersonic::guarded([&] { hypersonic::initialize_model(model); });
}

FPGA_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  return hypersonic::guarded([&] {
    void* state = nullptr;
    hypersonic::check(TRITONBACKEND_ModelState(model, &state));
    delete static_cast<hypersonic::ModelState*>(state);
  });
}

FPGA_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  return hypersonic::guarded([&] { hypersonic::initialize_instance(instance); });
}

FPGA_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
  return hypersonic::guarded([&] { delete hypersonic::dispatcher_of(instance); });
}

FPGA_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance,
                                                                   TRITONBACKEND_Request** requests,
                                                                   const uint32_t request_count) {
  return hypersonic::guarded([&] { hypersonic::dispatcher_of(instance)->execute(requests, request_count); });
}

// 25.12 and later call it
FPGA_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReady(TRITONBACKEND_ModelInstance* instance) {
  return hypersonic::guarded([&] {
    const std::string reason = hypersonic::dispatcher_of(instance)->out_of_service();
    if (!reason.empty()) {
      throw hypersonic::TritonError(TRITONSERVER_ERROR_UNAVAILABLE, reason);
    }
  });
}
