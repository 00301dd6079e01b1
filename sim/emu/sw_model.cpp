// SPDX-License-Identifier: Apache-2.0
// sw_emu with the interface of device_model.h: the kernel's shell in C++ around the model's own C++ (hypersonic_csim).
//
// It has the kernel's registers and control protocol but no clock: its cycle counters read 0. sim/card/simulator.py writes a file
// for each model that includes this one; it has namespace spec, from the model's tensors, and namespace registers, from the
// kernel's register map.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "device_model.h"
#include "wire.h"

extern "C" int hypersonic_csim(const int64_t *x_raw, int64_t *y_raw, size_t rows);

namespace {

constexpr uint32_t kPollRows = 1024;

constexpr uint32_t row_bytes(const emu::Tensor *tensors, size_t count) {
    uint32_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += static_cast<uint32_t>(tensors[i].row_bytes());
    return bytes;
}

constexpr size_t row_size(const emu::Tensor *tensors, size_t count) {
    size_t size = 0;
    for (size_t i = 0; i < count; ++i) size += tensors[i].size;
    return size;
}

constexpr size_t kInputTensors = sizeof spec::kInputs / sizeof spec::kInputs[0];
constexpr size_t kOutputTensors = sizeof spec::kOutputs / sizeof spec::kOutputs[0];
constexpr size_t kInputSize = row_size(spec::kInputs, kInputTensors);
constexpr size_t kOutputSize = row_size(spec::kOutputs, kOutputTensors);
constexpr uint32_t kInputBytes = row_bytes(spec::kInputs, kInputTensors);
constexpr uint32_t kOutputBytes = row_bytes(spec::kOutputs, kOutputTensors);
constexpr uint32_t kAlignment = 64;

// Rows computed at once: at least one, and otherwise as many as have 16 MB of raw integers.
constexpr size_t kRawNumbers = (16u << 20) / sizeof(int64_t);
constexpr uint32_t kSliceRows =
    static_cast<uint32_t>(std::clamp<size_t>(kRawNumbers / (kInputSize + kOutputSize), 1, kPollRows));

// The time after which the registers answer, or that of one row if it is longer.
constexpr std::chrono::milliseconds kSliceTime{20};

// Converts tensor T of every row, with its types known at compile time: x has rows of kInputBytes, raw has rows of kInputSize.
template <size_t T>
void load_tensor(const uint8_t *x, int64_t *raw, uint32_t rows) {
    constexpr emu::Tensor tensor = spec::kInputs[T];
    x += row_bytes(spec::kInputs, T);
    raw += row_size(spec::kInputs, T);
    for (uint32_t row = 0; row < rows; ++row, x += kInputBytes, raw += kInputSize) {
        if (tensor.codes != nullptr) {
            int64_t *put = raw;
            for (size_t k = 0; k < tensor.codes_count; ++k) put = emu::load_codes(x, tensor.codes[k], tensor.fixed, put);
            continue;
        }
        for (size_t i = 0; i < tensor.size; ++i) {
            raw[i] = emu::load(x + i * tensor.format.bytes, tensor.exponents[i], tensor.format, tensor.fixed);
        }
    }
}

template <size_t T>
void store_tensor(uint8_t *y, const int64_t *raw, uint32_t rows) {
    constexpr emu::Tensor tensor = spec::kOutputs[T];
    y += row_bytes(spec::kOutputs, T);
    raw += row_size(spec::kOutputs, T);
    for (uint32_t row = 0; row < rows; ++row, y += kOutputBytes, raw += kOutputSize) {
        for (size_t i = 0; i < tensor.size; ++i) {
            emu::store(y + i * tensor.format.bytes, raw[i], tensor.exponents[i], tensor.format, tensor.fixed);
        }
    }
}

template <size_t... T>
void load_rows(const uint8_t *x, int64_t *raw, uint32_t rows, std::index_sequence<T...>) {
    (load_tensor<T>(x, raw, rows), ...);
}

template <size_t... T>
void store_rows(uint8_t *y, const int64_t *raw, uint32_t rows, std::index_sequence<T...>) {
    (store_tensor<T>(y, raw, rows), ...);
}

}  // namespace

struct hypersonic_model {
    explicit hypersonic_model(const hypersonic_memory &memory) : memory_(memory) {}

    int write(uint32_t offset, uint32_t value) {
        if (offset == registers::CONTROL) {
            if (value & registers::AP_CONTINUE) done_ = false;
            if (value & registers::AP_START) start_ = true;
            accept();
        } else if (is_argument(offset)) {
            arguments_[(offset - registers::X) / 4] = value;
        }
        return 0;
    }

    int read(uint32_t offset, uint32_t *value) {
        *value = offset == registers::CONTROL ? control() : status(offset);
        return 0;
    }

    uint64_t advance(uint32_t rows) {
        accept();
        const auto until = std::chrono::steady_clock::now() + kSliceTime;
        for (uint32_t slice = 1; running_ && rows > 0 && row_ < rows_; slice = std::min(2 * slice, kSliceRows)) {
            slice = std::min({slice, rows, rows_ - row_});
            compute(slice);
            rows -= slice;
            if (std::chrono::steady_clock::now() >= until) break;
        }
        if (running_ && row_ == rows_ && !done_) finish();
        accept();
        return rows_done_;
    }

private:
    static bool is_argument(uint32_t offset) { return offset >= registers::X && offset <= registers::ROWS && offset % 4 == 0; }

    uint32_t control() {
        const uint32_t value = (start_ ? registers::AP_START : 0) | (done_ ? registers::AP_DONE : 0) |
                               (start_ || running_ ? 0 : registers::AP_IDLE) | (ready_ ? registers::AP_READY : 0);
        ready_ = false;
        return value;
    }

    uint32_t status(uint32_t offset) const {
        switch (offset) {
            case registers::RUNS: return runs_;
            case registers::AXI_ERROR: return axi_error_;
            case registers::VERSION: return registers::MAP_VERSION;
            case registers::ROW_IN_BYTES: return kInputBytes;
            case registers::ROW_OUT_BYTES: return kOutputBytes;
            default: return is_argument(offset) ? arguments_[(offset - registers::X) / 4] : 0;
        }
    }

    uint64_t pointer(uint32_t offset) const {
        const uint32_t *low = &arguments_[(offset - registers::X) / 4];
        return low[0] | static_cast<uint64_t>(low[1]) << 32;
    }

    // Arguments are latched when a run is accepted, as in the RTL, because those of the next run are written meanwhile.
    void accept() {
        if (!start_ || running_) return;
        start_ = false;
        ready_ = true;
        running_ = true;
        x_ = pointer(registers::X);
        y_ = pointer(registers::Y);
        rows_ = arguments_[(registers::ROWS - registers::X) / 4];
        row_ = 0;
        const bool readable = map(x_, kInputBytes, "m_axi_gmem0: read", &host_x_);
        const bool writable = map(y_, kOutputBytes, "m_axi_gmem1: write", &host_y_);
        if (!readable) axi_error_ |= registers::READ_ERROR;
        if (!writable) axi_error_ |= registers::WRITE_ERROR;
        if (!readable || !writable) row_ = rows_;
    }

    // All rows of a run must be in one buffer object.
    bool map(uint64_t address, uint64_t row_bytes, const char *what, uint8_t **host) {
        if (rows_ == 0) return true;
        const uint64_t bytes = row_bytes * rows_;
        uint64_t extent_bytes = 0;
        *host = memory_.resolve(memory_.card, address, &extent_bytes);
        if (*host != nullptr && extent_bytes >= bytes && address % kAlignment == 0) return true;
        char text[192];
        std::snprintf(text, sizeof text, "%s of %llu bytes at 0x%llx: %s", what, static_cast<unsigned long long>(bytes),
                      static_cast<unsigned long long>(address),
                      *host == nullptr               ? "no buffer object is allocated there"
                      : address % kAlignment != 0    ? "the address is not 64-byte aligned"
                                                     : "past the end of the buffer object");
        memory_.fault(memory_.card, text);
        return false;
    }

    void compute(uint32_t rows) {
        x_raw_.resize(rows * kInputSize);
        y_raw_.resize(rows * kOutputSize);
        load_rows(host_x_ + static_cast<size_t>(row_) * kInputBytes, x_raw_.data(), rows,
                  std::make_index_sequence<kInputTensors>());
        if (hypersonic_csim(x_raw_.data(), y_raw_.data(), rows) != 0) {
            memory_.fault(memory_.card, "hypersonic_csim did not return 0");
            axi_error_ |= registers::READ_ERROR;
        }
        store_rows(host_y_ + static_cast<size_t>(row_) * kOutputBytes, y_raw_.data(), rows,
                   std::make_index_sequence<kOutputTensors>());
        row_ += rows;
        rows_done_ += rows;
    }

    void finish() {
        running_ = false;
        done_ = true;
        ++runs_;
    }

    hypersonic_memory memory_;
    uint32_t arguments_[(registers::ROWS - registers::X) / 4 + 1] = {};
    bool start_ = false;
    bool ready_ = false;
    bool running_ = false;
    bool done_ = false;
    uint64_t x_ = 0;
    uint64_t y_ = 0;
    uint8_t *host_x_ = nullptr;
    uint8_t *host_y_ = nullptr;
    uint32_t rows_ = 0;
    uint32_t row_ = 0;
    uint64_t rows_done_ = 0;
    uint32_t runs_ = 0;
    uint32_t axi_error_ = 0;
    std::vector<int64_t> x_raw_;
    std::vector<int64_t> y_raw_;
};

namespace {

hypersonic_model *create(const hypersonic_memory *memory, const hypersonic_timing *) {
    return new (std::nothrow) hypersonic_model(*memory);
}

void destroy(hypersonic_model *model) { delete model; }
int write(hypersonic_model *model, uint32_t offset, uint32_t value) { return model->write(offset, value); }
int read(hypersonic_model *model, uint32_t offset, uint32_t *value) { return model->read(offset, value); }
uint64_t advance(hypersonic_model *model, uint32_t rows) { return model->advance(rows); }
uint64_t clocks(const hypersonic_model *) { return 0; }

const hypersonic_device_model_api kApi = {
    HYPERSONIC_DEVICE_MODEL_ABI, sizeof(hypersonic_device_model_api), "sw_emu", spec::kKernel, kPollRows, 0,
    create, destroy, write, read, advance, clocks,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const hypersonic_device_model_api *hypersonic_device_model(void) {
    return &kApi;
}
