// SPDX-License-Identifier: Apache-2.0
// The file manifest.json of a published version, as firmware/publish/manifest.py writes it: what a server needs of it.
// It is read as hostile input: its size is bounded, and the type and range of every field are checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/xclbin.hpp"

namespace hypersonic {

// One tensor of a row. shape: without the batch dimension.
struct Tensor {
  std::string name;
  std::string datatype;  // Triton's name, such as FP32
  std::vector<std::int64_t> shape;
  std::size_t row_bytes;
  std::size_t offset;  // in the row, in bytes
};

// All inputs or all outputs: the tensors of a row one after another, without padding (hls/row.py).
struct Row {
  std::vector<Tensor> tensors;
  std::size_t bytes = 0;

  const Tensor* find(const std::string& name) const noexcept;
};

struct Manifest {
  std::string model;
  std::string kernel;
  std::string target;  // hw, hw_emu, sw_emu
  std::string platform;
  std::string uuid;    // of the xclbin, 32 hex digits
  std::string sha256;  // of model.xclbin
  Row inputs;
  Row outputs;
  std::vector<std::string> compute_units;
  std::int64_t max_batch_size = 0;
  std::uint64_t weights_bytes = 0;  // of weights.bin, 0 without one
  std::string weights_sha256;
  std::string kernel_sha256;  // the kernel's digest, "" if the xclbin does not name it
  std::string accepted;       // how far the answers are from the trained model's, if the build accepted that; otherwise ""

  bool emulated() const noexcept { return target != "hw"; }
};

// Reads <directory>/manifest.json. Throws Error (Manifest), which names the field.
Manifest read_manifest(const std::string& directory);

// Checks that <directory>/model.xclbin is the file that the manifest describes, and returns its contents.
// Throws Error (XclbinMismatch), which names the field.
Xclbin check_xclbin(const Manifest& manifest, const std::string& directory);

}  // namespace hypersonic
