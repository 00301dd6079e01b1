// SPDX-License-Identifier: Apache-2.0
//
// hls4ml's C++ behind one C function that speaks raw integers, so that nothing is rounded on the way in or out. Compiled with
// -DHYPERSONIC_HEADER="<name>.h" -DHYPERSONIC_TOP=<name> -DHYPERSONIC_INPUTS=<inputs>
// -DHYPERSONIC_SIZES=<elements of each argument of the top function: the inputs, then the outputs>.
#include HYPERSONIC_HEADER

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

namespace {

constexpr size_t SIZES[] = {HYPERSONIC_SIZES};
constexpr size_t TENSORS = sizeof(SIZES) / sizeof(SIZES[0]);

template <class T, size_t N> struct Tensor {
    T elements[N];
    void take(const int64_t *&raw) {
        for (T &element : elements) element.V = *raw++;
    }
    void give(int64_t *&raw) const {
        for (const T &element : elements) *raw++ = element.V;
    }
};

template <class... T> constexpr size_t arguments(void (*)(T *...)) { return sizeof...(T); }
static_assert(arguments(&HYPERSONIC_TOP) == TENSORS, "the top function takes other tensors than the project has");

template <class... T, size_t... K>
void run(void (*top)(T *...), const int64_t *x, int64_t *y, size_t rows, std::index_sequence<K...>) {
    std::tuple<Tensor<T, SIZES[K]>...> tensors;
    for (size_t row = 0; row < rows; ++row) {
        ((K < HYPERSONIC_INPUTS ? std::get<K>(tensors).take(x) : void()), ...);
        top(std::get<K>(tensors).elements...);
        ((K < HYPERSONIC_INPUTS ? void() : std::get<K>(tensors).give(y)), ...);
    }
}

}  // namespace

// x_raw: rows x elements of all inputs, y_raw: rows x elements of all outputs, row-major, tensor by tensor; each the ap_fixed's
// bits as a sign-extended integer. Returns 0.
extern "C" __attribute__((visibility("default"))) int hypersonic_csim(const int64_t *x_raw, int64_t *y_raw, size_t rows) {
    run(&HYPERSONIC_TOP, x_raw, y_raw, rows, std::make_index_sequence<TENSORS>());
    return 0;
}
