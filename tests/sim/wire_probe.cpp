// SPDX-License-Identifier: Apache-2.0
// sim/emu/wire.h by ctypes: one type for all values, as in a tensor.
#include <cstddef>

#include "wire.h"

namespace {

emu::FixedPoint type_of(const int32_t *type) {
    return {type[0], type[1], type[2] != 0, static_cast<emu::Rounding>(type[3]), static_cast<emu::Overflow>(type[4])};
}

// format: bytes, exponent bits, and the five of an integer's type
emu::Format format_of(const int32_t *format) { return {format[0], format[1], type_of(format + 2)}; }

}  // namespace

extern "C" void to_raw(const int32_t *type, const int32_t *format, int32_t exponent, const uint8_t *x, int64_t *raw, size_t count) {
    for (size_t i = 0; i < count; ++i) raw[i] = emu::load(x + i * format[0], exponent, format_of(format), type_of(type));
}

extern "C" void from_raw(const int32_t *type, const int32_t *format, int32_t exponent, const int64_t *raw, uint8_t *y, size_t count) {
    for (size_t i = 0; i < count; ++i) emu::store(y + i * format[0], raw[i], exponent, format_of(format), type_of(type));
}
