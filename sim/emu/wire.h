// SPDX-License-Identifier: Apache-2.0
// FP32 on the wire <-> raw fixed point in the fabric, bit for bit as TensorSpec.to_raw and from_raw (hls/spec.py).
//
// Everything is done in double, where a float32 times a power of two is exact; rounding is the one of the fixed-point
// type on the way in and nearest even on the way out.
#ifndef HYPERSONIC_EMU_WIRE_H
#define HYPERSONIC_EMU_WIRE_H

#include <cmath>
#include <cstdint>

namespace emu {

enum class Rounding { kTruncate, kNearestUp, kNearestEven };  // AP_TRN, AP_RND, AP_RND_CONV
enum class Overflow { kWrap, kSaturate };                     // AP_WRAP, AP_SAT

// ap_fixed<width, width - fraction, rounding, overflow>, width 1 to 62.
struct FixedPoint {
    int width;
    int fraction;
    bool is_signed;
    Rounding rounding;
    Overflow overflow;

    constexpr int64_t min_raw() const { return is_signed ? -(int64_t{1} << (width - 1)) : 0; }
    constexpr int64_t max_raw() const { return (int64_t{1} << (width - (is_signed ? 1 : 0))) - 1; }
};

inline double round_to_integer(double value, Rounding rounding) {
    if (rounding == Rounding::kNearestEven) return std::nearbyint(value);
    const double low = std::floor(value);
    // value + 0.5 would round the largest double below 0.5 up
    return rounding == Rounding::kNearestUp && value - low >= 0.5 ? low + 1.0 : low;
}

inline int64_t saturate(double whole, const FixedPoint &type) {
    if (whole >= static_cast<double>(type.max_raw())) return type.max_raw();
    if (whole <= static_cast<double>(type.min_raw())) return type.min_raw();
    return static_cast<int64_t>(whole);
}

inline int64_t wrap(double whole, const FixedPoint &type) {
    const int64_t modulus = int64_t{1} << type.width;
    const int64_t low_bits = static_cast<int64_t>(std::fmod(whole, static_cast<double>(modulus))) & (modulus - 1);
    return low_bits > type.max_raw() ? low_bits - modulus : low_bits;
}

// One element of a request: x times 2**scale_exponent, quantised. NaN gives 0, an infinity the end of the range.
inline int64_t to_raw(float x, int scale_exponent, const FixedPoint &type) {
    const double value = std::ldexp(static_cast<double>(x), scale_exponent);
    if (std::isnan(value)) return 0;
    if (std::isinf(value)) return value > 0 ? type.max_raw() : type.min_raw();
    const double whole = round_to_integer(std::ldexp(value, type.fraction), type.rounding);
    return type.overflow == Overflow::kSaturate ? saturate(whole, type) : wrap(whole, type);
}

// One element of an answer: raw * 2**-fraction * 2**-scale_exponent, to the nearest float32, ties to even.
inline float from_raw(int64_t raw, int scale_exponent, const FixedPoint &type) {
    constexpr int64_t kExact = int64_t{1} << 53;
    int shift = 0;
    // Rounding to double first would round twice: keep what a double holds and let the last bit stand for the rest.
    while (raw > kExact || raw < -kExact) {
        raw = (raw >> 1) | (raw & 1);
        ++shift;
    }
    return static_cast<float>(std::ldexp(static_cast<double>(raw), shift - type.fraction - scale_exponent));
}

}  // namespace emu

#endif
