// SPDX-License-Identifier: Apache-2.0
//
// What the patched ap_types call (see patch.py): counts what each variable is given, and follows the numbers that wrapped.
//
// A number that is not what unwrapped arithmetic gives carries a note: the difference, and the variable that wrapped. Sums,
// differences, products and shifts pass it on. If a later wrap of the same variable makes the difference 0, the note is
// removed, since two's complement is exact then. If the number is compared, divided, sliced, converted, or stored in another
// variable, it has left with a difference and counts as a wrong number of its variable. The other variable starts
// without a note.
//
// One thread at a time.
#ifndef HYPERSONIC_OVERFLOW_H
#define HYPERSONIC_OVERFLOW_H

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

namespace hypersonic_overflow {

// A type of a variable. tag: the typedef's number, or 0 for a type that the C++ writes out. rounding, overflow: ap_q_mode and
// ap_o_mode; rounding is -1 for ap_int and ap_uint.
struct Kind {
    int32_t tag, width, integer, is_signed, rounding, overflow;
};

// What was counted for a variable of a layer. constant: of the values converted from C++'s floating point, such as weights and
// tables. least, greatest: of what it was given, unwrapped. low, high: of what it would have to hold to be right.
struct Cell {
    const Kind *kind;
    uint64_t layer, constant, given, wrapped, saturated, zeroed, wrong, wrong_rows, saturated_rows;
    double least, greatest, low, high;
    uint64_t last_wrong, last_saturated;
};

// lost: what unwrapped arithmetic gives, minus the number. wanted: what the variable should have held. origin: the note of the
// number that wrapped and from which this number was computed.
struct Note {
    double lost, wanted;
    Cell *owner;
    uint32_t origin;
    bool left;
};

constexpr uint64_t NEVER = ~uint64_t(0);
constexpr size_t MOST_NOTES = 1 << 22;  // in a row; beyond these, wraps are counted but not followed

inline unsigned layer = 0;      // the layer that the top function computes, from 1; 0 before and between
inline uint64_t row = 0;
inline bool begun = false;      // the tables are filled
inline bool adjusted = false;   // ap_fixed's overflow_adjust has just changed a number
inline uint32_t lasting = 0;    // notes of weights and tables, which every row reads
inline uint32_t first = 0;      // the first note of this row; notes between `lasting` and this are of earlier rows

inline std::vector<Note> &notes() {
    static std::vector<Note> all;
    return all;
}

inline std::map<std::tuple<unsigned, const Kind *, bool>, Cell> &cells() {
    static std::map<std::tuple<unsigned, const Kind *, bool>, Cell> all;
    return all;
}

// Null for a number of an earlier row, which a line buffer still holds.
inline Note *find(uint32_t number) {
    if (number > lasting && number <= first) return nullptr;
    Note &note = notes()[number > lasting ? number - 1 - first + lasting : number - 1];
    return note.owner ? &note : nullptr;
}

inline uint32_t note_of(double lost, double wanted, Cell *owner, uint32_t origin) {
    if (notes().size() - lasting >= MOST_NOTES) return 0;
    const uint32_t number = first + uint32_t(notes().size() - lasting) + 1;
    notes().push_back({lost, wanted, owner, origin ? origin : number, false});
    return number;
}

// A number with this note has left its variable. Returns what unwrapped arithmetic gives, minus the number.
inline double leave(uint32_t number) {
    Note *note = find(number);
    if (!note) return 0;
    Cell &cell = *note->owner;
    Note *origin = find(note->origin);
    if (origin && !origin->left) {
        origin->left = true;
        ++cell.wrong;
    }
    if (note->wanted < cell.low) cell.low = note->wanted;
    if (note->wanted > cell.high) cell.high = note->wanted;
    if (cell.last_wrong != row) ++cell.wrong_rows, cell.last_wrong = row;
    return note->lost;
}

inline uint32_t joined(char how, uint32_t a, uint32_t b) {
    const Note *left = a ? find(a) : nullptr, *right = b ? find(b) : nullptr;
    const bool sum = how == '+' || how == '-';
    if (!sum || (left && right && left->owner->kind != right->owner->kind)) {
        if (left) leave(a);
        if (right) leave(b);
        return 0;
    }
    if (!left && !right) return 0;
    const double lost = (left ? left->lost : 0) + (how == '-' ? -1 : 1) * (right ? right->lost : 0);
    const Note from = left ? *left : *right;
    return lost == 0 ? 0 : note_of(lost, from.wanted, from.owner, from.origin);
}

inline uint32_t scaled(uint32_t number, double by) {
    const Note *note = find(number);
    if (!note || by == 0) return 0;
    const Note from = *note;
    return note_of(from.lost * by, from.wanted, from.owner, from.origin);
}

// a, b: the factors' values.
inline uint32_t product(uint32_t first_note, double a, uint32_t second_note, double b) {
    const Note *left = first_note ? find(first_note) : nullptr, *right = second_note ? find(second_note) : nullptr;
    if (left && right) {
        leave(first_note);
        leave(second_note);
        return 0;
    }
    return left ? scaled(first_note, b) : right ? scaled(second_note, a) : 0;
}

constexpr double power(int exponent) {
    double result = 1;
    for (; exponent > 0; --exponent) result *= 2;
    for (; exponent < 0; ++exponent) result /= 2;
    return result;
}

// The value of an ap_fixed_base, whatever its note.
template <class Number> inline double value_of(const Number &number) {
    constexpr int width = Number::width, fraction = Number::width - Number::counted_integer;
    if constexpr (width > 64) {
        Number plain(number);
        plain.counted_note = 0;
        return plain.to_double();
    } else if constexpr (Number::counted_signed) {
        return double(int64_t(number.V.to_int64())) * power(-fraction);
    } else {
        return double(uint64_t(number.V.to_uint64())) * power(-fraction);
    }
}

template <int TAG, int W, int I, bool S, int Q, int O> struct Counted {
    static constexpr Kind kind{TAG, W, I, S, Q, O};
    static inline Cell *cell[2] = {nullptr, nullptr};
    static inline unsigned of_layer[2] = {0, 0};

    static Cell &here(bool constant = false) {
        if (!cell[constant] || of_layer[constant] != layer) {
            constexpr double infinity = std::numeric_limits<double>::infinity();
            const Cell fresh{&kind, layer, constant, 0, 0, 0, 0, 0, 0, 0, infinity, -infinity, infinity, -infinity, NEVER, NEVER};
            cell[constant] = &cells().emplace(std::make_tuple(layer, &kind, constant), fresh).first->second;
            of_layer[constant] = layer;
        }
        return *cell[constant];
    }
};

template <class To>
using Of = Counted<To::counted_tag, To::width, To::counted_integer, To::counted_signed, To::counted_rounding, To::counted_mode>;

inline void within(Cell &cell, double wanted) {
    if (wanted < cell.least) cell.least = wanted;
    if (wanted > cell.greatest) cell.greatest = wanted;
}

// The note of a number that a variable was given with a wrap, or with a note. given, got: before and after the conversion.
// modulus: of the type. It wraps, or it does not; saturating types have no notes of their own.
inline uint32_t settle(Cell &cell, double given, double got, double modulus, bool wraps, uint32_t number) {
    double lost = 0, elsewhere = 0;
    uint32_t origin = 0;
    if (const Note *note = number ? find(number) : nullptr) {
        if (note->owner->kind == cell.kind && std::fmod(note->lost, modulus) == 0) {
            lost = note->lost;
            origin = note->origin;
        } else {
            elsewhere = leave(number);
        }
    }
    within(cell, given + lost + elsewhere);
    if (wraps && elsewhere != 0) {  // with the other variable right, this one would have to hold more
        if (given + elsewhere < cell.low) cell.low = given + elsewhere;
        if (given + elsewhere > cell.high) cell.high = given + elsewhere;
    }
    if (!wraps) return 0;
    const double own = std::nearbyint((given - got) / modulus);
    if (own != 0) ++cell.wrapped, origin = 0;
    const double total = own * modulus + lost;
    return total == 0 ? 0 : note_of(total, given + lost, &cell, origin);
}

// After a conversion of `given` to `to`; number: its note. Returns the note of `to`.
template <class To> inline uint32_t counted(const To &to, double given, uint32_t number, Cell &cell) {
    constexpr bool wraps = To::counted_mode == AP_WRAP || To::counted_mode == AP_WRAP_SM;
    constexpr double step = power(To::counted_integer - To::width), modulus = power(To::counted_integer);
    ++cell.given;
    const double got = value_of(to);
    if (got == 0 && given != 0 && std::fabs(given) < step) ++cell.zeroed;
    if constexpr (!wraps) {
        if (adjusted) {
            adjusted = false;
            ++cell.saturated;
            if (cell.last_saturated != row) ++cell.saturated_rows, cell.last_saturated = row;
        }
    }
    if (number == 0 && (!wraps || std::fabs(given - got) < step)) {
        within(cell, given);
        return 0;
    }
    return settle(cell, given, got, modulus, wraps, number);
}

template <class To, class From> inline uint32_t assigned(const To &to, const From &from) {
    constexpr bool rounds_up = From::width - From::counted_integer > To::width - To::counted_integer && To::counted_rounding != AP_TRN;
    constexpr bool fits = (To::counted_signed || !From::counted_signed) &&
                          To::counted_integer - To::counted_signed >= From::counted_integer - From::counted_signed + rounds_up &&
                          !(To::counted_mode == AP_SAT_SYM && From::counted_signed);
    if constexpr (To::counted_tag == 0 && fits) {
        return from.counted_note;
    } else {
        return counted(to, value_of(from), from.counted_note, Of<To>::here());
    }
}

// As assigned, for a volatile number.
template <class To, class From> inline uint32_t assigned(const To &to, const volatile From &from) {
    return assigned(to, const_cast<const From &>(from));
}

// After an ap_fixed became an ap_int, which drops the fraction; the ap_fixed has left its variable.
template <class To, class From> inline uint32_t truncated(const To &to, const volatile From &from) {
    const double given = std::trunc(value_of(const_cast<const From &>(from)));
    if (given == value_of(to)) return 0;
    return counted(to, given, 0, Of<To>::here());
}

// The note of a sum, a difference or a product. Other operators read the numbers' bits.
template <class A, class B> inline uint32_t combined(char how, const A &a, const B &b) {
    if ((a.counted_note | b.counted_note) == 0) return 0;
    if (how == '*') return product(a.counted_note, value_of(a), b.counted_note, value_of(b));
    return joined(how, a.counted_note, b.counted_note);
}

// After to += by, to -= by, to *= by of an ap_int. before, other: their values before; its note is still in place.
template <class To, class By>
inline uint32_t compounded(char how, const To &to, double before, const By &by, double other) {
    const double got = value_of(to);
    const double given = how == '+' ? before + other : how == '-' ? before - other : how == '*' ? before * other : got;
    uint32_t note = to.counted_note | by.counted_note;
    if (note == 0 && given == got) return 0;
    if (how == '*' && note) {
        note = product(to.counted_note, before, by.counted_note, other);
    } else if (note) {
        note = joined(how, to.counted_note, by.counted_note);
    }
    return settle(Of<To>::here(), given, got, power(To::counted_integer), true, note);
}

// After a C++ floating-point number became an ap_fixed.
template <class To> inline uint32_t converted(const To &to, double given) {
    if constexpr (To::counted_tag == 0) {
        adjusted = false;
        return 0;
    } else {
        return counted(to, given, 0, Of<To>::here(true));
    }
}

// After from << by, which drops upper bits silently.
template <class To> inline uint32_t shifted(const To &to, const To &from, unsigned by) {
    const double given = std::ldexp(value_of(from), int(by)), got = value_of(to);
    const uint32_t note = from.counted_note ? scaled(from.counted_note, std::ldexp(1.0, int(by))) : 0;
    if (note == 0 && given == got) return 0;
    return settle(Of<To>::here(), given, got, power(To::counted_integer), true, note);
}

}  // namespace hypersonic_overflow

#endif
