// SPDX-License-Identifier: Apache-2.0
//
// csim_bridge.cpp for top functions of either io_type: an argument is a pointer to elements or a stream of packs of them.
#include HYPERSONIC_HEADER

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

namespace {

constexpr size_t SIZES[] = {HYPERSONIC_SIZES};
constexpr size_t TENSORS = sizeof(SIZES) / sizeof(SIZES[0]);

template <class Argument, size_t N> struct Tensor;

template <class T, size_t N> struct Tensor<T *, N> {
    T elements[N];
    T *argument() { return elements; }
    void take(const int64_t *&raw) {
        for (T &element : elements) element.V = *raw++;
    }
    void give(int64_t *&raw) {
        for (T &element : elements) *raw++ = element.V;
    }
};

template <class Pack, size_t N> struct Tensor<hls::stream<Pack> &, N> {
    hls::stream<Pack> stream;
    hls::stream<Pack> &argument() { return stream; }
    void take(const int64_t *&raw) {
        for (size_t beat = 0; beat < N / Pack::size; ++beat) {
            Pack pack;
            for (size_t i = 0; i < Pack::size; ++i) pack[i].V = *raw++;
            stream.write(pack);
        }
    }
    void give(int64_t *&raw) {
        for (size_t beat = 0; beat < N / Pack::size; ++beat) {
            Pack pack = stream.read();
            for (size_t i = 0; i < Pack::size; ++i) *raw++ = pack[i].V;
        }
    }
};

template <class... T, size_t... K>
void run(void (*top)(T...), const int64_t *x, int64_t *y, size_t rows, std::index_sequence<K...>) {
    static_assert(sizeof...(T) == TENSORS, "the top function takes other tensors than the project has");
    std::tuple<Tensor<T, SIZES[K]>...> tensors;
    for (size_t row = 0; row < rows; ++row) {
        ((K < HYPERSONIC_INPUTS ? std::get<K>(tensors).take(x) : void()), ...);
        top(std::get<K>(tensors).argument()...);
        ((K < HYPERSONIC_INPUTS ? void() : std::get<K>(tensors).give(y)), ...);
    }
}

}  // namespace

// x_raw: rows x elements of all inputs, y_raw: rows x elements of all outputs, row-major, tensor by tensor. Returns 0.
extern "C" __attribute__((visibility("default"))) int hypersonic_csim(const int64_t *x_raw, int64_t *y_raw, size_t rows) {
    run(&HYPERSONIC_TOP, x_raw, y_raw, rows, std::make_index_sequence<TENSORS>());
    return 0;
}
