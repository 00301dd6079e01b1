// SPDX-License-Identifier: Apache-2.0
// Converts elements between their wire format and raw fixed point, bit for bit as TensorSpec.to_raw and from_raw (hls/spec.py).
//
// Everything is computed in double, where a float32 or a 32-bit integer times a power of two is exact. Values are rounded in
// the mode of the fixed-point type, and to nearest even where the result is floating point.
#ifndef HYPERSONIC_EMU_WIRE_H
#define HYPERSONIC_EMU_WIRE_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace emu {

// AP_TRN, AP_RND, AP_RND_CONV, AP_TRN_ZERO, AP_RND_ZERO, AP_RND_INF, AP_RND_MIN_INF
enum class Rounding { kTruncate, kNearestUp, kNearestEven, kToZero, kNearestZero, kNearestAway, kNearestDown };
// AP_WRAP, AP_SAT, AP_SAT_ZERO, AP_SAT_SYM
enum class Overflow { kWrap, kSaturate, kZero, kSymmetric };

// ap_fixed<width, width - fraction, rounding, overflow>, width 1 to 62.
struct FixedPoint {
    int width;
    int fraction;
    bool is_signed;
    Rounding rounding;
    Overflow overflow;

    constexpr int64_t min_raw() const { return is_signed ? -(int64_t{1} << (width - 1)) : 0; }
    constexpr int64_t max_raw() const { return (int64_t{1} << (width - (is_signed ? 1 : 0))) - 1; }
    // The raw values of numbers that are too large or too small; in wrapping types only of the infinities.
    constexpr int64_t above() const { return overflow == Overflow::kZero ? 0 : max_raw(); }
    constexpr int64_t below() const {
        if (overflow == Overflow::kZero || !is_signed) return 0;
        return overflow == Overflow::kSymmetric ? -max_raw() : min_raw();
    }
};

// The wire format of an element: `bytes`, little endian; a float with `exponent_bits`, or an integer of type `integer` if
// these are 0.
struct Format {
    int bytes;
    int exponent_bits;
    FixedPoint integer;

    constexpr int mantissa_bits() const { return 8 * bytes - 1 - exponent_bits; }
    constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};

// Codes of a field of a packed row that are converted alike (hls/packing). A number is code * 2**-fraction. Other codes are
// looked up: `table` has per_code raw integers for each index, the selection above the low address_bits of the code.
struct Codes {
    size_t first_bit;
    size_t count;
    int bits;
    bool is_signed;
    int fraction;
    const int64_t *table;  // null for a number
    size_t per_code;
    int address_bits;
    size_t select_bit;
    int select_bits;
};

// One tensor of a row: the number of its elements, their wire format, their fixed-point type, and the power of two that scales
// each. A packed row has packed_bytes bytes and codes in place of elements.
struct Tensor {
    size_t size;
    Format format;
    FixedPoint fixed;
    const int *exponents;
    const Codes *codes = nullptr;
    size_t codes_count = 0;
    size_t packed_bytes = 0;

    constexpr size_t row_bytes() const {
        return codes != nullptr ? packed_bytes : size * static_cast<size_t>(format.bytes);
    }
};

inline double round_to_integer(double value, Rounding rounding) {
    const double low = std::floor(value);
    const double rest = value - low;  // value + 0.5 would round the largest double below 0.5 up
    const bool tie = rest == 0.5;
    bool up = rest > 0.5;
    switch (rounding) {
        case Rounding::kTruncate: up = false; break;
        case Rounding::kNearestUp: up = up || tie; break;
        case Rounding::kNearestEven: return std::nearbyint(value);
        case Rounding::kToZero: return std::trunc(value);
        case Rounding::kNearestZero: up = up || (tie && value < 0); break;
        case Rounding::kNearestAway: up = up || (tie && value > 0); break;
        case Rounding::kNearestDown: break;
    }
    return up ? low + 1.0 : low;
}

inline int64_t saturate(double whole, const FixedPoint &type) {
    // compares with powers of two, because a double may not represent the ends themselves
    const double least = static_cast<double>(type.min_raw());
    if (whole >= std::ldexp(1.0, type.width - (type.is_signed ? 1 : 0))) return type.above();
    if (whole < least || (whole == least && type.overflow == Overflow::kSymmetric)) return type.below();
    return static_cast<int64_t>(whole);
}

inline int64_t wrap(double whole, const FixedPoint &type) {
    const int64_t modulus = int64_t{1} << type.width;
    const int64_t low_bits = static_cast<int64_t>(std::fmod(whole, static_cast<double>(modulus))) & (modulus - 1);
    return low_bits > type.max_raw() ? low_bits - modulus : low_bits;
}

// Quantises one element of a request: x times 2**scale_exponent. NaN gives 0, and an infinity the end of the range.
inline int64_t to_raw(double x, int scale_exponent, const FixedPoint &type) {
    const double value = std::ldexp(x, scale_exponent);
    if (std::isnan(value)) return 0;
    if (std::isinf(value)) return value > 0 ? type.above() : type.below();
    const double whole = round_to_integer(std::ldexp(value, type.fraction), type.rounding);
    return type.overflow == Overflow::kWrap ? wrap(whole, type) : saturate(whole, type);
}

// Returns raw * 2**-fraction * 2**-scale_exponent as a double that rounds to any float format as the exact number does.
inline double from_raw(int64_t raw, int scale_exponent, const FixedPoint &type) {
    constexpr int64_t kExact = int64_t{1} << 53;
    int shift = 0;
    // Rounding to double first would round twice. So keep the bits that a double can hold, and make the last one sticky.
    while (raw > kExact || raw < -kExact) {
        raw = (raw >> 1) | (raw & 1);
        ++shift;
    }
    return std::ldexp(static_cast<double>(raw), shift - type.fraction - scale_exponent);
}

inline double load_float(uint32_t word, const Format &format) {
    const uint32_t exponent = (word >> format.mantissa_bits()) & ((1u << format.exponent_bits) - 1);
    const uint32_t fraction = word & ((1u << format.mantissa_bits()) - 1);
    double value = 0;
    if (exponent == (1u << format.exponent_bits) - 1) {
        value = fraction != 0 ? std::nan("") : HUGE_VAL;
    } else {
        const uint32_t mantissa = exponent != 0 ? fraction | 1u << format.mantissa_bits() : fraction;
        const int scale = static_cast<int>(std::max(exponent, 1u)) - format.bias() - format.mantissa_bits();
        value = std::ldexp(static_cast<double>(mantissa), scale);
    }
    return word >> (8 * format.bytes - 1) & 1 ? -value : value;
}

// Rounds to the nearest float of a format, ties to even.
inline uint32_t store_float(double value, const Format &format) {
    if (value == 0) return 0;
    const uint32_t sign = std::signbit(value) ? 1u << (8 * format.bytes - 1) : 0;
    int exponent = 0;
    std::frexp(value, &exponent);  // value is below 2**exponent
    const int least = 1 - format.bias() - format.mantissa_bits();
    const int ulp = std::max(exponent - 1 - format.mantissa_bits(), least);
    const uint64_t mantissa = static_cast<uint64_t>(std::nearbyint(std::ldexp(std::fabs(value), -ulp)));
    // The hidden bit adds 1 to the exponent field, and a carry out of the fraction another 1.
    const uint64_t word = (static_cast<uint64_t>(ulp - least) << format.mantissa_bits()) + mantissa;
    const uint64_t infinity = ((uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits();
    return sign | static_cast<uint32_t>(std::min(word, infinity));
}

inline int64_t load(const uint8_t *element, int scale_exponent, const Format &format, const FixedPoint &type) {
    uint32_t word = 0;
    std::memcpy(&word, element, static_cast<size_t>(format.bytes));  // little endian, as the card is
    if (format.exponent_bits != 0) return to_raw(load_float(word, format), scale_exponent, type);
    const int unused = 32 - 8 * format.bytes;
    const double value = format.integer.is_signed ? static_cast<double>(static_cast<int32_t>(word << unused) >> unused)
                                                  : static_cast<double>(word);
    return to_raw(value, -format.integer.fraction, type);
}

// Bits `first` to `first + bits - 1` of a row, which is little-endian.
inline uint32_t load_bits(const uint8_t *row, size_t first, int bits) {
    if (bits == 0) return 0;
    uint32_t word = 0;
    const size_t last = (first + static_cast<size_t>(bits) - 1) / 8;
    for (size_t byte = first / 8; byte <= last; ++byte) word |= uint32_t{row[byte]} << (8 * (byte - first / 8));
    return (word >> first % 8) & ((1u << bits) - 1);
}

// Converts the codes of a packed row and returns the place behind their raw integers.
inline int64_t *load_codes(const uint8_t *row, const Codes &codes, const FixedPoint &type, int64_t *raw) {
    const uint32_t selection = load_bits(row, codes.select_bit, codes.select_bits) << codes.address_bits;
    for (size_t i = 0; i < codes.count; ++i) {
        const uint32_t code = load_bits(row, codes.first_bit + i * static_cast<size_t>(codes.bits), codes.bits);
        if (codes.table == nullptr) {
            const bool negative = codes.is_signed && code >> (codes.bits - 1) != 0;
            const double value = static_cast<double>(code) - (negative ? std::ldexp(1.0, codes.bits) : 0.0);
            *raw++ = to_raw(value, -codes.fraction, type);
            continue;
        }
        const int64_t *entry = codes.table + (selection | (code & ((1u << codes.address_bits) - 1))) * codes.per_code;
        raw = std::copy(entry, entry + codes.per_code, raw);
    }
    return raw;
}

inline void store(uint8_t *element, int64_t raw, int scale_exponent, const Format &format, const FixedPoint &type) {
    const uint32_t word = format.exponent_bits != 0
                              ? store_float(from_raw(raw, scale_exponent, type), format)
                              : static_cast<uint32_t>(to_raw(from_raw(raw, 0, type), 0, format.integer));
    std::memcpy(element, &word, static_cast<size_t>(format.bytes));
}

}  // namespace emu

#endif
