// SPDX-License-Identifier: Apache-2.0
// A device model small enough to see through: y[i] = 2 * x[i], one float a row, one row a clock, 100 clocks of latency,
// several runs in flight. Rows from 0xdead0000 up are wishes: 1 never completes, 2 writes one row too many, 3 waits inside the
// model, for at most 20 s, until as many models as y[0] says do so and count each other at the address that x holds; y[0] becomes their number.
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

#include "device_model.h"

namespace {

struct Flight {
    uint64_t accept_until;
    uint64_t done_at;
};

constexpr uint32_t kWishes = 0xdead0000;
constexpr uint64_t kNever = ~uint64_t{0};
constexpr uint64_t kLatency = 100;

}  // namespace

struct hypersonic_model {
    hypersonic_memory memory;
    uint64_t clock = 0;
    uint64_t beats = 0;
    uint64_t busy = 0;
    uint32_t registers[64] = {};
    bool start = false;
    std::deque<Flight> flying;
    uint32_t done = 0;
    uint32_t runs = 0;
    uint32_t most_in_flight = 0;

    void accept() {
        const uint64_t x = registers[4] | uint64_t{registers[5]} << 32;
        const uint64_t y = registers[7] | uint64_t{registers[8]} << 32;
        const uint32_t wish = registers[10] >= kWishes ? registers[10] - kWishes : 0;
        const uint32_t rows = wish == 3 ? 0 : wish ? 4 : registers[10];
        if (wish == 3) meet(x, y);
        for (uint32_t i = 0; i < rows + (wish == 2); ++i) {
            uint64_t extent = 0;
            float value = 0;
            const uint8_t *from = memory.resolve(memory.card, x + 4 * i, &extent);
            if (from != nullptr) std::memcpy(&value, from, 4);
            value *= 2;
            uint8_t *to = memory.resolve(memory.card, y + 4 * i, &extent);
            if (to != nullptr)
                std::memcpy(to, &value, 4);
            else
                memory.fault(memory.card, "stub: write outside");
        }
        beats += rows;
        const uint64_t until = clock + rows;
        flying.push_back({until, wish == 1 ? kNever : until + kLatency});
        if (flying.size() > most_in_flight) most_in_flight = static_cast<uint32_t>(flying.size());
        start = false;
    }

    void meet(uint64_t x, uint64_t y) {
        uint64_t extent = 0;
        const auto *common = reinterpret_cast<uint64_t *>(memory.resolve(memory.card, x, &extent));
        const std::atomic_ref<uint32_t> present(*reinterpret_cast<uint32_t *>(memory.resolve(memory.card, *common, &extent)));
        auto *number = reinterpret_cast<uint32_t *>(memory.resolve(memory.card, y, &extent));
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        ++present;
        while (present < *number && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
        *number = present;
    }

    void step() {
        if (start && flying.size() < 8 && (flying.empty() || flying.back().accept_until <= clock)) accept();
        ++clock;
        busy += !flying.empty();
        if (!flying.empty() && flying.front().done_at <= clock) {
            flying.pop_front();
            ++done;
            ++runs;
        }
    }
};

namespace {

hypersonic_model *create(const hypersonic_memory *memory, const hypersonic_timing *) {
    auto *model = new hypersonic_model;
    model->memory = *memory;
    return model;
}

void destroy(hypersonic_model *model) { delete model; }

int write(hypersonic_model *model, uint32_t offset, uint32_t value) {
    model->step();
    if (offset == 0xf0) return -1;
    if (offset == 0) {
        if (value & 1) model->start = true;
        if ((value & 16) && model->done) --model->done;
    } else if (offset < sizeof model->registers) {
        model->registers[offset / 4] = value;
    }
    return 0;
}

int read(hypersonic_model *model, uint32_t offset, uint32_t *value) {
    model->step();
    if (offset == 0xf0) return -1;
    if (offset == 0)
        *value = (model->start ? 1 : 0) | (model->done ? 2 : 0) | (model->flying.empty() && !model->start ? 4 : 0);
    else if (offset == 0x40)
        *value = static_cast<uint32_t>(model->busy);
    else if (offset == 0x48)
        *value = model->runs;
    else if (offset == 0x80)
        *value = model->most_in_flight;
    else if (offset < sizeof model->registers)
        *value = model->registers[offset / 4];
    return 0;
}

uint64_t advance(hypersonic_model *model, uint32_t clocks) {
    for (uint32_t i = 0; i < clocks; ++i) model->step();
    return model->beats;
}

uint64_t clocks(const hypersonic_model *model) { return model->clock; }

#ifndef STUB_ABI
#define STUB_ABI HYPERSONIC_DEVICE_MODEL_ABI
#endif

#ifndef STUB_KERNEL
#define STUB_KERNEL "stub"
#endif

const hypersonic_device_model_api kApi = {
    STUB_ABI, sizeof(hypersonic_device_model_api), "hw_emu", STUB_KERNEL, 32, 0, create, destroy, write, read, advance, clocks,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const hypersonic_device_model_api *hypersonic_device_model(void) {
    return &kApi;
}
