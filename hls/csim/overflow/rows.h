// SPDX-License-Identifier: Apache-2.0
//
// Appended to a top function whose ap_types are patched: calls it row by row, and hands out what was counted.
// HYPERSONIC_COUNTED is the top function's name.
#include "hypersonic_overflow.h"

#include <cstring>
#include <type_traits>
#include <utility>

namespace hypersonic_overflow {

constexpr size_t COUNTED_SIZES[] = {HYPERSONIC_SIZES};

template <class T> void leave_all(T *tensor, size_t size) {
    for (size_t i = 0; i < size; ++i) tensor[i].counted_leaves();
}

template <class Pack> void leave_all(hls::stream<Pack> &tensor, size_t) {
    for (size_t beats = tensor.size(); beats > 0; --beats) {
        Pack pack = tensor.read();
        for (size_t i = 0; i < Pack::size; ++i) pack[i].counted_leaves();
        tensor.write(pack);
    }
}

template <class Function> struct Rows;

template <class... T> struct Rows<void (*)(T...)> {
    // A row: its answers are read, so numbers in them that wrapped have left their variables.
    static void row(T... tensor) {
        if (begun) {
            first += uint32_t(notes().size() - lasting);
            notes().resize(lasting);
        }
        ::HYPERSONIC_COUNTED(tensor...);
        leave_outputs(std::index_sequence_for<T...>(), tensor...);
        ++hypersonic_overflow::row;
    }

    template <size_t... K> static void leave_outputs(std::index_sequence<K...>, T... tensor) {
        ((K < HYPERSONIC_INPUTS ? void() : leave_all(tensor, COUNTED_SIZES[K])), ...);
    }
};

using Counting = Rows<decltype(&::HYPERSONIC_COUNTED)>;

}  // namespace hypersonic_overflow

#undef HYPERSONIC_TOP
#define HYPERSONIC_TOP hypersonic_overflow::Counting::row

// Begins to count rows. One row was computed before, to fill the tables: its counts of constants are kept.
extern "C" __attribute__((visibility("default"))) void hypersonic_overflow_begin() {
    using namespace hypersonic_overflow;
    if (!begun) first = lasting = uint32_t(notes().size());
    begun = true;
    for (uint32_t i = 0; i < lasting; ++i) {
        Note &note = notes()[i];
        note.left = false;
        if (note.owner && !note.owner->constant) note.owner = nullptr;
    }
    for (auto &[key, cell] : cells()) {
        if (cell.constant) {
            cell.wrong = cell.wrong_rows = 0;
            cell.low = std::numeric_limits<double>::infinity();
            cell.high = -cell.low;
        } else {
            const Kind *kind = cell.kind;
            const double infinity = std::numeric_limits<double>::infinity();
            cell = {kind, cell.layer, 0, 0, 0, 0, 0, 0, 0, 0, infinity, -infinity, infinity, -infinity, NEVER, NEVER};
        }
        cell.last_wrong = cell.last_saturated = NEVER;
    }
    row = 0;
}

// Writes 19 numbers for each variable of each layer to `place`, if there is room; returns how many variables there are.
extern "C" __attribute__((visibility("default"))) size_t hypersonic_overflow_cells(double *place, size_t room) {
    using namespace hypersonic_overflow;
    if (room < cells().size()) return cells().size();
    for (const auto &[key, cell] : cells()) {
        const Kind &kind = *cell.kind;
        const double numbers[] = {
            double(cell.layer), double(cell.constant), double(kind.tag), double(kind.width), double(kind.integer),
            double(kind.is_signed), double(kind.rounding), double(kind.overflow), double(cell.given), double(cell.wrapped),
            double(cell.saturated), double(cell.zeroed), double(cell.wrong), double(cell.wrong_rows),
            double(cell.saturated_rows), cell.least, cell.greatest, cell.low, cell.high,
        };
        std::memcpy(place, numbers, sizeof numbers);
        place += sizeof numbers / sizeof numbers[0];
    }
    return cells().size();
}
