/* SPDX-License-Identifier: Apache-2.0 */
/* A compute unit for the emulated card, small enough to check by eye: y[row] = 2 * x[row][0] + x[row][1], 18 floats in,
 * one out. With -DWEIGHTS_BEATS=N the float at w is added, looked at when w is another one than before, as the kernels do.
 * -DKERNEL names the kernel, and -DPLUS=N adds N to each answer.
 * A row that begins with 1e30 makes the memory answer with an error, one with 1e29 takes 50 ms. The card, its memories, its scheduler and XRT's functions around it are the real emulated ones. */
#define _POSIX_C_SOURCE 199309L
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device_model.h"

#define COLUMNS 18
#ifndef KERNEL
#define KERNEL facile
#endif
#ifndef PLUS
#define PLUS 0
#endif
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#ifndef WEIGHTS_BEATS
#define WEIGHTS_BEATS 0u
#endif

struct hypersonic_model {
    hypersonic_memory memory;
    uint32_t words[16];
    uint32_t rows;
    int start, done, running;
    uint64_t busy, loaded_from;
    float weight;
    uint32_t runs, axi_error;
};

static hypersonic_model *create(const hypersonic_memory *memory, const hypersonic_timing *timing) {
    hypersonic_model *model = calloc(1, sizeof *model);
    (void)timing;
    if (model) model->memory = *memory;
    return model;
}

static void destroy(hypersonic_model *model) { free(model); }

static int write_register(hypersonic_model *model, uint32_t offset, uint32_t value) {
    if (offset == 0) {
        if (value & 0x10) model->done = 0;
        if (value & 1) model->start = 1;
    } else if (offset < 0x40) {
        model->words[offset / 4] = value;
    }
    return 0;
}

static int read_register(hypersonic_model *model, uint32_t offset, uint32_t *value) {
    *value = offset < 0x40 ? model->words[offset / 4] : 0;
    if (offset == 0x00) *value = (uint32_t)(model->start | model->done << 1 | !model->running << 2);
    if (offset == 0x40) *value = (uint32_t)model->busy;
    if (offset == 0x44) *value = (uint32_t)(model->busy >> 32);
    if (offset == 0x48) *value = model->runs;
    if (offset == 0x50) *value = model->axi_error;
    if (offset == 0x54) *value = 0x00010000; /* VERSION */
    if (offset == 0x78) *value = WEIGHTS_BEATS;
    return 0;
}

static void load_weights(hypersonic_model *model) {
    uint64_t bytes = 0, from = model->words[12] | (uint64_t)model->words[13] << 32;
    const uint8_t *weights;
    if (!WEIGHTS_BEATS || from == model->loaded_from) return;
    weights = model->memory.resolve(model->memory.card, from, &bytes);
    if (!weights || bytes / 64 + 1 <= WEIGHTS_BEATS) {
        model->memory.fault(model->memory.card, "weights out of range");
        return;
    }
    memcpy(&model->weight, weights, sizeof model->weight);
    model->loaded_from = from;
}

static void compute(hypersonic_model *model) {
    uint64_t x_bytes = 0, y_bytes = 0, x_at = model->words[4] | (uint64_t)model->words[5] << 32;
    uint64_t y_at = model->words[7] | (uint64_t)model->words[8] << 32, rows = model->words[10];
    load_weights(model);
    const uint8_t *x = model->memory.resolve(model->memory.card, x_at, &x_bytes);
    uint8_t *y = model->memory.resolve(model->memory.card, y_at, &y_bytes);
    if (rows && (!x || !y || x_bytes < rows * COLUMNS * 4 || y_bytes < rows * 4)) {
        model->memory.fault(model->memory.card, "out of range");
        return;
    }
    for (uint64_t row = 0; row < rows; ++row) {
        float pair[2], sum;
        memcpy(pair, x + row * COLUMNS * 4, sizeof pair);
        if (pair[0] == 1e30f) model->axi_error |= 1;
        if (pair[0] == 1e29f) nanosleep(&(struct timespec){0, 50000000}, NULL);
        sum = 2 * pair[0] + pair[1] + model->weight + PLUS;
        memcpy(y + row * 4, &sum, sizeof sum);
    }
    model->busy += rows;
    model->runs += 1;
}

static uint64_t advance(hypersonic_model *model, uint32_t clocks) {
    (void)clocks;
    if (model->start && !model->done) {
        model->start = 0;
        compute(model);
        model->done = 1;
    }
    return model->busy + model->runs;
}

static uint64_t clocks(const hypersonic_model *model) {
    (void)model;
    return 0;
}

static const hypersonic_device_model_api api = {
    HYPERSONIC_DEVICE_MODEL_ABI, sizeof(hypersonic_device_model_api), "sw_emu", TEXT(KERNEL), 1024, 0,
    create, destroy, write_register, read_register, advance, clocks,
};

__attribute__((visibility("default"))) const hypersonic_device_model_api *hypersonic_device_model(void) { return &api; }
