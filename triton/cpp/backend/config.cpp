// SPDX-License-Identifier: Apache-2.0
#include "backend/config.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backend/parameters.inc"
#include "backend/triton.hpp"
#include "driver/error.hpp"

namespace hypersonic {
namespace {

using nlohmann::json;

constexpr std::size_t kMostCards = 64;
constexpr std::size_t kMostDigits = 10;

[[noreturn]] void refuse(const std::string& text) { throw TritonError(TRITONSERVER_ERROR_INVALID_ARG, text); }

std::string parameter(const json& config, const std::string& name) {
  const auto parameters = config.find("parameters");
  if (parameters == config.end() || !parameters->is_object() || !parameters->contains(name)) {
    return "";
  }
  const json& value = (*parameters)[name];
  return value.is_object() ? value.value("string_value", "") : "";
}

std::int64_t number(const std::string& name, const std::string& text, std::int64_t least, std::int64_t most) {
  const bool digits = !text.empty() && text.size() <= kMostDigits && text.find_first_not_of("0123456789") == std::string::npos;
  const std::int64_t value = digits ? std::stoll(text) : -1;
  if (value < least || value > most) {
    refuse("parameter " + name + " is " + quoted(text) + ", expected an integer from " + std::to_string(least) + " to " +
           std::to_string(most));
  }
  return value;
}

std::int64_t number_of(const json& config, const parameters::Parameter& known) {
  const std::string text = parameter(config, known.name);
  return text.empty() ? known.absent : number(known.name, text, known.least, known.most);
}

std::vector<unsigned> cards_of(const json& config) {
  std::vector<unsigned> cards;
  std::stringstream text(parameter(config, "cards"));
  for (std::string item; std::getline(text, item, ',');) {
    item.erase(std::remove(item.begin(), item.end(), ' '), item.end());
    cards.push_back(static_cast<unsigned>(number("cards", item, 0, kMostCards - 1)));
  }
  return cards;
}

void refuse_foreign_parameters(const json& config) {
  const std::map<std::string, std::string> advice{
      {"share", "this backend runs requests in the order of Triton's queues: remove it, or use Triton's rate limiter"},
      {"fallback_backend", "Triton has no fallback between backends: remove it, or publish a second model on the host"},
      {"card_priority", "models do not take turns in tritonserver: load and unload models by the model control API"},
      {"card_residency_ms", "models do not take turns in tritonserver: load and unload models by the model control API"},
  };
  for (const auto& [name, what] : advice) {
    if (!parameter(config, name).empty()) {
      refuse(std::string("parameter ").append(name).append(" is for `hypersonic serve` only: ").append(what));
    }
  }
  const std::string policy = parameter(config, "card_policy");
  if (!policy.empty() && policy != "resident") {
    refuse("parameter card_policy is " + quoted(policy) +
           ", expected 'resident': models do not take turns in tritonserver: load and unload models by the model control API");
  }
}

// A tensor's datatype without Triton's prefix TYPE_.
std::string datatype_name(const json& tensor) {
  const std::string type = tensor.value("data_type", "");
  return type.rfind("TYPE_", 0) == 0 ? type.substr(std::strlen("TYPE_")) : type;
}

std::string described(const json& tensors) {
  std::string text;
  for (const json& tensor : tensors) {
    text.append(text.empty() ? "" : ", ").append(quoted(tensor.value("name", ""))).append(" ");
    text.append(datatype_name(tensor)).append(" ").append(tensor.value("dims", json::array()).dump());
  }
  return text.empty() ? "none" : text;
}

json tensors_of(const Row& row) {
  json tensors = json::array();
  for (const Tensor& tensor : row.tensors) {
    tensors.push_back({{"name", tensor.name}, {"data_type", "TYPE_" + tensor.datatype}, {"dims", tensor.shape}});
  }
  return tensors;
}

void check_tensors(const json& config, const char* side, const Row& row) {
  const json given = config.value(side, json::array());
  bool equal = given.size() == row.tensors.size();
  for (std::size_t index = 0; equal && index < given.size(); ++index) {
    const Tensor& tensor = row.tensors[index];
    std::vector<std::int64_t> dims;
    for (const json& dim : given[index].value("dims", json::array())) {
      dims.push_back(dim.is_string() ? std::stoll(dim.get<std::string>()) : dim.get<std::int64_t>());
    }
    equal = given[index].value("name", "") == tensor.name && given[index].value("data_type", "") == "TYPE_" + tensor.datatype &&
            dims == tensor.shape;
  }
  if (!equal) {
    refuse(std::string("config.pbtxt has ") + side + " " + described(given) + ", but the manifest has " +
           described(tensors_of(row)) + ": correct config.pbtxt or publish the model again");
  }
}

}  // namespace

bool complete(json& config, const Manifest& manifest) {
  bool changed = false;
  for (const auto& [side, row] : {std::pair{"input", &manifest.inputs}, {"output", &manifest.outputs}}) {
    if (config.value(side, json::array()).empty()) {
      config[side] = tensors_of(*row);
      changed = true;
    }
  }
  if (config.value("max_batch_size", 0) == 0) {
    config["max_batch_size"] = manifest.max_batch_size;
    changed = true;
  }
  return changed;
}

ModelSettings settings_of(const json& config, const Manifest& manifest) {
  if (config.value("max_batch_size", 0) < 1) {
    refuse("max_batch_size is 0, expected 1 or more: a kernel takes rows");
  }
  check_tensors(config, "input", manifest.inputs);
  check_tensors(config, "output", manifest.outputs);
  refuse_foreign_parameters(config);
  ModelSettings settings;
  settings.slots = static_cast<std::size_t>(number_of(config, parameters::kSlots));
  settings.slot_rows = static_cast<std::size_t>(number_of(config, parameters::kSlotRows));
  settings.timeout_ms = static_cast<unsigned>(number_of(config, parameters::kTimeoutMs));
  settings.retry_ms = static_cast<unsigned>(number_of(config, parameters::kRetryMs));
  settings.cards = cards_of(config);
  return settings;
}

TRITONSERVER_DataType datatype_of(const std::string& name) {
  static const std::map<std::string, TRITONSERVER_DataType> kTypes{
      {"FP32", TRITONSERVER_TYPE_FP32},   {"FP16", TRITONSERVER_TYPE_FP16},     {"BF16", TRITONSERVER_TYPE_BF16},
      {"INT8", TRITONSERVER_TYPE_INT8},   {"INT16", TRITONSERVER_TYPE_INT16},   {"INT32", TRITONSERVER_TYPE_INT32},
      {"UINT8", TRITONSERVER_TYPE_UINT8}, {"UINT16", TRITONSERVER_TYPE_UINT16}, {"UINT32", TRITONSERVER_TYPE_UINT32}};
  return kTypes.at(name);
}

}  // namespace hypersonic
