// SPDX-License-Identifier: Apache-2.0
//
// hls4ml's C++ behind one C function that speaks raw integers, so that nothing is rounded on the way in or out. Compiled with
// -DHYPERSONIC_HEADER="<name>.h" -DHYPERSONIC_TOP=<name> -DHYPERSONIC_X_SIZE=<n_in> -DHYPERSONIC_Y_SIZE=<n_out>.
#include HYPERSONIC_HEADER

#include <cstddef>
#include <cstdint>

namespace {

template <class T> struct Arguments;
template <class X, class Y> struct Arguments<void (*)(X *, Y *)> {
    using x_t = X;
    using y_t = Y;
};
using Top = Arguments<decltype(&HYPERSONIC_TOP)>;

}  // namespace

// x_raw: rows x n_in, y_raw: rows x n_out, row-major; each the ap_fixed's bits as a sign-extended integer. Returns 0.
extern "C" __attribute__((visibility("default"))) int hypersonic_csim(const int64_t *x_raw, int64_t *y_raw, size_t rows) {
    Top::x_t x[HYPERSONIC_X_SIZE];
    Top::y_t y[HYPERSONIC_Y_SIZE];
    for (size_t row = 0; row < rows; ++row) {
        for (size_t i = 0; i < HYPERSONIC_X_SIZE; ++i) x[i].V = *x_raw++;
        HYPERSONIC_TOP(x, y);
        for (size_t i = 0; i < HYPERSONIC_Y_SIZE; ++i) *y_raw++ = y[i].V;
    }
    return 0;
}
