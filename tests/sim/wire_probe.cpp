// SPDX-License-Identifier: Apache-2.0
// sim/emu/wire.h by ctypes: one type for all values, as in a tensor.
#include <cstddef>

#include "wire.h"

namespace {

emu::FixedPoint type_of(const int32_t *type) {
    return {type[0], type[1], type[2] != 0, static_cast<emu::Rounding>(type[3]), static_cast<emu::Overflow>(type[4])};
}

}  // namespace

extern "C" void to_raw(const int32_t *type, int32_t exponent, const float *x, int64_t *raw, size_t count) {
    for (size_t i = 0; i < count; ++i) raw[i] = emu::to_raw(x[i], exponent, type_of(type));
}

extern "C" void from_raw(const int32_t *type, int32_t exponent, const int64_t *raw, float *y, size_t count) {
    for (size_t i = 0; i < count; ++i) y[i] = emu::from_raw(raw[i], exponent, type_of(type));
}
