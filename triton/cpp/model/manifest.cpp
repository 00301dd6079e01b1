// SPDX-License-Identifier: Apache-2.0
#include "model/manifest.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "driver/error.hpp"
#include "model/sha256.hpp"

namespace hypersonic {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxTensors = 64;
constexpr std::size_t kMaxDims = 8;
constexpr std::size_t kMaxUnits = 1024;
constexpr std::size_t kMaxRowBytes = 1 << 30;
constexpr std::int64_t kMaxCount = (std::int64_t{1} << 31) - 1;
constexpr std::uint64_t kMaxWeightsBytes = std::uint64_t{1} << 40;
constexpr std::size_t kNameLength = 128;
constexpr std::uint64_t kBeatBytes = 64;
// the first schema that this reads, and the present one
constexpr int kOldestSchema = 3;
constexpr int kSchema = 4;

[[noreturn]] void wrong(const std::string& field, const json& value, const std::string& expected) {
  const std::string got = value.is_null() ? "missing" : value.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 80);
  throw Error(Kind::Manifest, "manifest: " + field + " is " + got + ", expected " + expected);
}

const json& field(const json& object, const std::string& name) {
  static const json missing;
  const auto found = object.find(name);
  return found != object.end() ? *found : missing;
}

bool is_name(const std::string& text) {
  const auto allowed = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || std::strchr("_.-", letter) != nullptr;
  };
  return !text.empty() && text.size() <= kNameLength && std::isalnum(static_cast<unsigned char>(text[0])) != 0 &&
         std::all_of(text.begin(), text.end(), allowed);
}

std::string name_of(const json& object, const std::string& name) {
  const json& value = field(object, name);
  if (!value.is_string() || !is_name(value.get<std::string>())) {
    wrong(name, value, "a name");
  }
  return value;
}

std::string hex_of(const json& object, const std::string& name, std::size_t digits) {
  const json& value = field(object, name);
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  if (text.size() != digits || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    wrong(name, value, std::to_string(digits) + " hexadecimal digits");
  }
  return text;
}

std::int64_t count_of(const json& object, const std::string& name) {
  const json& value = field(object, name);
  if (!value.is_number_integer() || value.get<std::int64_t>() < 1 || value.get<std::int64_t>() > kMaxCount) {
    wrong(name, value, "a positive integer");
  }
  return value;
}

std::size_t element_bytes(const json& tensor) {
  const json& value = field(tensor, "datatype");
  const std::string name = value.is_string() ? value.get<std::string>() : "";
  for (const auto& [datatype, bytes] : {std::pair{"FP32", 4},
                                        {"FP16", 2},
                                        {"BF16", 2},
                                        {"INT8", 1},
                                        {"INT16", 2},
                                        {"INT32", 4},
                                        {"UINT8", 1},
                                        {"UINT16", 2},
                                        {"UINT32", 4}}) {
    if (name == datatype) {
      return static_cast<std::size_t>(bytes);
    }
  }
  wrong("datatype", value, "FP32, FP16, BF16, INT8, INT16, INT32, UINT8, UINT16 or UINT32");
}

Tensor tensor_of(const json& value, std::size_t offset) {
  const json& name = field(value, "name");
  if (!name.is_string() || name.get<std::string>().empty()) {
    wrong("name of a tensor", name, "a text");
  }
  Tensor tensor{name,
                field(value, "datatype").is_string() ? field(value, "datatype").get<std::string>() : "",
                {},
                element_bytes(value),
                offset};
  const json& shape = field(value, "shape");
  if (!shape.is_array() || shape.empty() || shape.size() > kMaxDims) {
    wrong("shape of " + tensor.name, shape, "1 to 8 positive dimensions");
  }
  for (const json& dimension : shape) {
    if (!dimension.is_number_integer() || dimension.get<std::int64_t>() < 1 ||
        dimension.get<std::uint64_t>() > kMaxRowBytes / tensor.row_bytes) {
      wrong("shape of " + tensor.name, shape, "positive dimensions, of a row of at most 1 GiB");
    }
    tensor.shape.push_back(dimension);
    tensor.row_bytes *= dimension.get<std::size_t>();
  }
  return tensor;
}

Row row_of(const json& object, const std::string& name) {
  const json& values = field(object, name);
  if (!values.is_array() || values.empty() || values.size() > kMaxTensors) {
    wrong(name, values, "1 to 64 tensors");
  }
  Row row;
  std::set<std::string> names;
  for (const json& value : values) {
    if (!value.is_object()) {
      wrong(name, value, "tensors");
    }
    row.tensors.push_back(tensor_of(value, row.bytes));
    row.bytes += row.tensors.back().row_bytes;
    if (row.bytes > kMaxRowBytes || !names.insert(row.tensors.back().name).second) {
      wrong(name, value, "tensors of different names, of a row of at most 1 GiB");
    }
  }
  return row;
}

std::vector<std::string> names_of(const json& object, const std::string& name) {
  const json& values = field(object, name);
  std::vector<std::string> names;
  if (values.is_array() && values.size() <= kMaxUnits) {
    for (const json& value : values) {
      if (!value.is_string() || !is_name(value.get<std::string>())) {
        wrong(name, values, "a list of names");
      }
      names.push_back(value);
    }
  }
  if (names.empty()) {
    wrong(name, values, "a list of names");
  }
  return names;
}

void read_weights(const json& object, Manifest& manifest) {
  const json& bytes = field(object, "weights_bytes");
  if (!bytes.is_number_unsigned() || bytes.get<std::uint64_t>() > kMaxWeightsBytes ||
      bytes.get<std::uint64_t>() % kBeatBytes != 0) {
    wrong("weights_bytes", bytes, "0, or whole beats of 64 bytes up to 1 TiB");
  }
  manifest.weights_bytes = bytes;
  manifest.weights_sha256 = manifest.weights_bytes != 0 ? hex_of(object, "weights_sha256", 64) : "";
}

// The digest of the kernel; "" where it is not known, as in the first schema.
std::string digest_of(const json& object) {
  const json& value = field(object, "kernel_sha256");
  const bool known = field(object, "schema") != kOldestSchema && !(value.is_string() && value.get<std::string>().empty());
  return known ? hex_of(object, "kernel_sha256", 64) : "";
}

std::string accepted_of(const json& object) {
  const json& report = field(object, "report");
  const json& gate = report.is_object() ? field(report, "gate") : report;
  const json& said = gate.is_object() ? field(gate, "accepted") : gate;
  std::string text;
  if (said.is_array()) {
    for (const json& reason : said) {
      text += (text.empty() ? "" : "; ") + (reason.is_string() ? reason.get<std::string>() : reason.dump());
    }
  }
  return text;
}

json parsed(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  if (!file) {
    throw Error(Kind::Manifest, path + " cannot be read: publish the model again");
  }
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxBytes) {
    throw Error(Kind::Manifest, path + ": manifest is more than " + std::to_string(kMaxBytes) + " bytes");
  }
  json object = json::parse(text, nullptr, false);
  if (!object.is_object()) {
    throw Error(Kind::Manifest, path + ": manifest is not a JSON object: publish the model again");
  }
  return object;
}

[[noreturn]] void mismatch(const Manifest& manifest, const std::string& what) {
  throw Error(Kind::XclbinMismatch, "manifest of model " + quoted(manifest.model) + ": " + what +
                                        "; the two files are not from the same build: publish the model again");
}

}  // namespace

const Tensor* Row::find(const std::string& name) const noexcept {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& tensor) { return tensor.name == name; });
  return found != tensors.end() ? &*found : nullptr;
}

Manifest read_manifest(const std::string& directory) {
  const json object = parsed(directory + "/manifest.json");
  const json& schema = field(object, "schema");
  if (schema != kSchema && schema != kOldestSchema) {
    wrong("schema", schema, std::to_string(kSchema) + "; publish the model again");
  }
  Manifest manifest;
  manifest.model = name_of(object, "model");
  manifest.kernel = name_of(object, "kernel");
  manifest.target = name_of(object, "target");
  if (manifest.target != "hw" && manifest.target != "hw_emu" && manifest.target != "sw_emu") {
    wrong("target", manifest.target, "one of hw, hw_emu, sw_emu");
  }
  manifest.platform = name_of(object, "platform");
  manifest.uuid = hex_of(object, "uuid", 32);
  manifest.sha256 = hex_of(object, "sha256", 64);
  manifest.inputs = row_of(object, "inputs");
  manifest.outputs = row_of(object, "outputs");
  manifest.compute_units = names_of(object, "compute_units");
  manifest.max_batch_size = count_of(object, "max_batch_size");
  read_weights(object, manifest);
  manifest.kernel_sha256 = digest_of(object);
  manifest.accepted = accepted_of(object);
  return manifest;
}

Xclbin check_xclbin(const Manifest& manifest, const std::string& directory) {
  const std::string path = directory + "/model.xclbin";
  Xclbin xclbin = read_xclbin(path);
  const auto compare = [&manifest](const char* name, const json& described, const json& actual) {
    if (described != actual) {
      mismatch(manifest, std::string(name) + " is " + described.dump() + ", but the xclbin has " + actual.dump());
    }
  };
  compare("target", manifest.target, xclbin.target);
  compare("compute_units", manifest.compute_units, xclbin.units_of(manifest.kernel));
  compare("kernel_sha256", manifest.kernel_sha256, xclbin.digest_of(manifest.kernel));
  compare("uuid", manifest.uuid, xclbin.uuid);
  compare("sha256", manifest.sha256, sha256_of_file(path));
  return xclbin;
}

}  // namespace hypersonic
