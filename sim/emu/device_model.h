/* SPDX-License-Identifier: Apache-2.0 */
/* What the emulated XRT library and the simulator in an xclbin's BITSTREAM section agree on.
 *
 *   libxrt_emu.so  --create, write, read, advance-->  simulator (.so out of the xclbin)
 *                  <--------resolve, fault---------
 *
 * The simulator exports one symbol, hypersonic_device_model(). One model is one compute unit; a model is used by one
 * thread at a time, two models of one simulator by two threads at once. Nothing here allocates across the border.
 */
#ifndef HYPERSONIC_DEVICE_MODEL_H
#define HYPERSONIC_DEVICE_MODEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a struct or the meaning of a function below changes. */
#define HYPERSONIC_DEVICE_MODEL_ABI 1u

/* The card's memory as one compute unit sees it. */
typedef struct hypersonic_memory {
    void *card;
    /* Host address of device address `address`, or NULL where no buffer object is. `*extent_bytes`: from there to the
     * buffer object's last byte. Buffer objects begin on 4 KiB and own their last page, so a read may run to its end. */
    uint8_t *(*resolve)(void *card, uint64_t address, uint64_t *extent_bytes);
    /* The model did what a card forbids; the text says what, for the user. */
    void (*fault)(void *card, const char *text);
} hypersonic_memory;

/* Memory timing of hw_emu; sw_emu ignores it. */
typedef struct hypersonic_timing {
    uint32_t read_latency_clocks;  /* AR accepted -> first R beat of that burst */
    uint32_t write_latency_clocks; /* last W beat -> B */
    uint32_t outstanding;          /* bursts accepted and not answered, per channel, 1 to 256 */
    uint32_t stall_percent;        /* chance per clock and channel that it holds back, 0 to 90 */
    uint32_t seed;                 /* of those stalls */
} hypersonic_timing;

typedef struct hypersonic_model hypersonic_model;

typedef struct hypersonic_device_model_api {
    uint32_t abi;         /* HYPERSONIC_DEVICE_MODEL_ABI */
    uint32_t size_bytes;  /* sizeof this struct */
    const char *target;   /* "sw_emu" or "hw_emu" */
    const char *kernel;   /* the kernel's name */
    uint32_t poll_clocks; /* a good `clocks` for advance(): often enough to see ap_ready and ap_done */
    /* Clocks in which a run may move no data without being hung: a core that takes long over a row. 0: as the library likes */
    uint32_t patience_clocks;
    /* A model after reset, or NULL (out of memory, or what fault() was told). `memory` is copied, `memory->card` must outlive the model. */
    hypersonic_model *(*create)(const hypersonic_memory *memory, const hypersonic_timing *timing);
    void (*destroy)(hypersonic_model *model);
    /* One AXI4-Lite transaction; 0, or -1 when the slave answered an error or never. */
    int (*write)(hypersonic_model *model, uint32_t offset, uint32_t value);
    int (*read)(hypersonic_model *model, uint32_t offset, uint32_t *value);
    /* Run `clocks` clocks (sw_emu: rows). Returns the data beats (rows) moved since create(): standing still means hung. */
    uint64_t (*advance)(hypersonic_model *model, uint32_t clocks);
} hypersonic_device_model_api;

typedef const hypersonic_device_model_api *(*hypersonic_device_model_function)(void);

#define HYPERSONIC_DEVICE_MODEL_SYMBOL "hypersonic_device_model"

#ifdef __cplusplus
}
#endif

#endif
