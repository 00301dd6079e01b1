// SPDX-License-Identifier: Apache-2.0
//
// A C function around hls4ml's C++ of either io_type. It takes and returns raw integers, so nothing is rounded on the way in or
// out. Compiled with
// -DHYPERSONIC_HEADER="<name>.h" -DHYPERSONIC_TOP=<name> -DHYPERSONIC_INPUTS=<inputs>
// -DHYPERSONIC_SIZES=<elements of each argument of the top function: the inputs, then the outputs>
// and linked with hypersonic_stack_bytes, the most stack that the top function and all that it calls can need.
#include HYPERSONIC_HEADER

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

extern "C" const unsigned long long hypersonic_stack_bytes;

// A namespace, so that the top function may have any other name.
namespace hypersonic_bridge {

constexpr size_t SIZES[] = {HYPERSONIC_SIZES};
constexpr size_t TENSORS = sizeof(SIZES) / sizeof(SIZES[0]);

// Below this the caller's stack is enough: the smallest stack that threads commonly have is 2 MiB.
constexpr size_t SMALL_STACK_BYTES = 1 << 20;

enum Status { DONE = 0, LEFT_OVER = 1, NO_MEMORY = 2, NO_THREAD = 3 };

template <class Argument, size_t N> class Tensor;

// io_parallel: an array.
template <class T, size_t N> class Tensor<T *, N> {
    std::unique_ptr<T[]> elements_ = std::make_unique<T[]>(N);

public:
    static constexpr bool STREAM = false;
    T *argument() { return elements_.get(); }
    void take(const int64_t *&raw) {
        for (size_t i = 0; i < N; ++i) elements_[i].V = *raw++;
    }
    bool taken() const { return true; }
    bool give(int64_t *&raw) const {
        for (size_t i = 0; i < N; ++i) *raw++ = elements_[i].V;
        return true;
    }
};

// io_stream: packs of elements; a pack holds the last axis.
template <class Pack, size_t N> class Tensor<hls::stream<Pack> &, N> {
    static_assert(N % Pack::size == 0, "the tensor's size is not a multiple of its stream's packs");
    hls::stream<Pack> stream_;

public:
    static constexpr bool STREAM = true;
    hls::stream<Pack> &argument() { return stream_; }
    void take(const int64_t *&raw) {
        for (size_t beat = 0; beat < N / Pack::size; ++beat) {
            Pack pack;
            for (size_t i = 0; i < Pack::size; ++i) pack[i].V = *raw++;
            stream_.write(pack);
        }
    }
    bool taken() { return stream_.empty(); }
    bool give(int64_t *&raw) {
        if (stream_.size() != N / Pack::size) return false;
        while (!stream_.empty()) {
            Pack pack = stream_.read();
            for (size_t i = 0; i < Pack::size; ++i) *raw++ = pack[i].V;
        }
        return true;
    }
};

template <class Arguments, class Index> class Model;

template <class... T, size_t... K> class Model<void (*)(T...), std::index_sequence<K...>> {
    static_assert(sizeof...(T) == TENSORS, "the top function takes a different number of tensors than the project has");
    std::tuple<Tensor<T, SIZES[K]>...> tensors_;

public:
    // With streams, the line buffers are static variables, so calls must not overlap.
    static constexpr bool STATE = (Tensor<T, SIZES[K]>::STREAM || ...);

    Status run(const int64_t *x, int64_t *y, size_t rows) {
        for (size_t row = 0; row < rows; ++row) {
            ((K < HYPERSONIC_INPUTS ? std::get<K>(tensors_).take(x) : void()), ...);
            ::HYPERSONIC_TOP(std::get<K>(tensors_).argument()...);
            if (!((K < HYPERSONIC_INPUTS ? std::get<K>(tensors_).taken() : std::get<K>(tensors_).give(y)) && ...)) {
                return LEFT_OVER;
            }
        }
        return DONE;
    }
};

using Top = Model<decltype(&::HYPERSONIC_TOP), std::make_index_sequence<TENSORS>>;

struct Call {
    const int64_t *x;
    int64_t *y;
    size_t rows;
    Status status;
};

void *compute(void *argument) {
    Call &call = *static_cast<Call *>(argument);
    try {
        call.status = std::make_unique<Top>()->run(call.x, call.y, call.rows);
    } catch (const std::exception &) {  // the only possible failure is a lack of memory
        call.status = NO_MEMORY;
    }
    return nullptr;
}

// Runs a call in a thread with a large stack: hls4ml's functions keep their layers' results, and DenseLatency all its products,
// on the stack.
Status on_a_large_stack(Call &call) {
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0) return NO_MEMORY;
    const bool started = pthread_attr_setstacksize(&attributes, hypersonic_stack_bytes) == 0 &&
                         pthread_create(&thread, &attributes, compute, &call) == 0;
    pthread_attr_destroy(&attributes);
    if (!started) return NO_THREAD;
    pthread_join(thread, nullptr);
    return call.status;
}

Status answer(const int64_t *x, int64_t *y, size_t rows) {
    Call call{x, y, rows, DONE};
    if (hypersonic_stack_bytes > SMALL_STACK_BYTES) return on_a_large_stack(call);
    compute(&call);
    return call.status;
}

Status answer_zeros() {
    size_t size[2] = {};
    for (size_t i = 0; i < TENSORS; ++i) size[i < HYPERSONIC_INPUTS] += SIZES[i];
    std::vector<int64_t> y(size[0]), x(size[1]);
    return answer(x.data(), y.data(), 1);
}

}  // namespace hypersonic_bridge

// x_raw: rows x elements of all inputs, y_raw: rows x elements of all outputs, row-major, tensor after tensor; each number is
// the ap_fixed's bits as a sign-extended integer. Any thread may call it. Returns 0, or the reason for a failure: 1 the top
// function read or wrote a different number of elements, 2 no memory, 3 no thread with a stack of hypersonic_stack_bytes.
extern "C" __attribute__((visibility("default"))) int hypersonic_csim(const int64_t *x_raw, int64_t *y_raw, size_t rows) {
    static std::mutex mutex;
    static bool warm = false;
    std::unique_lock<std::mutex> one_at_a_time(mutex);
    if (!hypersonic_bridge::Top::STATE) {
        // The tables of activations are static variables that the first row fills: compute one row before calls may overlap.
        if (!warm) {
            if (const int status = hypersonic_bridge::answer_zeros()) return status;
            warm = true;
        }
        one_at_a_time.unlock();
    }
    return hypersonic_bridge::answer(x_raw, y_raw, rows);
}
