// SPDX-License-Identifier: Apache-2.0
// A model's configuration in Triton: what it says about cards, checked against the manifest.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backend/api.hpp"
#include "model/manifest.hpp"

namespace hypersonic {

struct ModelSettings {
  std::size_t slots = 0;
  std::size_t slot_rows = 0;
  unsigned timeout_ms = 0;      // of a run
  unsigned retry_ms = 0;        // polling interval while a card is lost
  std::vector<unsigned> cards;  // the indices of the model's cards, empty for one card of any index
};

// Adds what config.pbtxt leaves out and the manifest determines: inputs, outputs, max_batch_size. Returns whether it did.
bool complete(nlohmann::json& config, const Manifest& manifest);

// The settings of a model. Throws TritonError (INVALID_ARG) for a configuration that the manifest contradicts, for values out
// of bounds, and for parameters that only hypersonic's own server has.
ModelSettings settings_of(const nlohmann::json& config, const Manifest& manifest);

// Triton's number of a datatype's name.
TRITONSERVER_DataType datatype_of(const std::string& name);

}  // namespace hypersonic
