// SPDX-License-Identifier: Apache-2.0
//
// The variables of hls4ml's tracing, which its own bridge defines, and a function that sets where a layer's numbers go.
#include <cstddef>
#include <map>
#include <string>

namespace nnet {
bool trace_enabled = true;
std::map<std::string, void *> *trace_outputs = new std::map<std::string, void *>;
size_t trace_type_size = sizeof(double);
}  // namespace nnet

// From now on each row writes the layer's result to `place`, which has room for all its elements.
extern "C" __attribute__((visibility("default"))) void hypersonic_trace(const char *layer, double *place) {
    (*nnet::trace_outputs)[layer] = place;
}
