/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between the emulated XRT library and the simulator in an xclbin's BITSTREAM section.
 *
 *   libxrt_emu.so  --create, write, read, advance, clocks-->  simulator (.so from the xclbin)
 *                  <-----resolve, fault, bank, beat---------
 *
 * The simulator exports one symbol, hypersonic_device_model(). One model is one compute unit. A model is used by one thread
 * at a time; two models of one simulator may be used by two threads at once. Neither side frees memory of the other.
 */
#ifndef HYPERSONIC_DEVICE_MODEL_H
#define HYPERSONIC_DEVICE_MODEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Incremented whenever a struct or the meaning of a function below changes. */
#define HYPERSONIC_DEVICE_MODEL_ABI 2u

/* The card's memory as one compute unit sees it. */
typedef struct hypersonic_memory {
    void *card;
    /* Returns the host address of a device address, or NULL where there is no buffer object. Sets `*extent_bytes` to the
     * bytes from there to the end of the buffer object. Buffer objects begin at a multiple of 4 KiB and own their last page
     * whole, so a read may go on to the end of that page. */
    uint8_t *(*resolve)(void *card, uint64_t address, uint64_t *extent_bytes);
    /* Reports that the model broke a rule of the card; the text tells the user which. */
    void (*fault)(void *card, const char *text);
    /* Returns the memory bank of a device address if other compute units use it too, or NULL if this one has it to itself.
     * The function is NULL, like the next one, when the compute unit shares no bank; sw_emu never calls them. */
    void *(*bank)(void *card, uint64_t address);
    /* Returns 1 if a shared bank can read (write) a beat of 64 bytes for this compute unit in a clock, counted as by clocks()
     * below; 0 if the beat has to wait. `claim`: the beat is read (written) in that clock if the function returns 1. */
    int (*beat)(void *card, void *bank, int is_write, uint64_t clock, int claim);
} hypersonic_memory;

/* Memory timing of hw_emu; sw_emu ignores it. */
typedef struct hypersonic_timing {
    uint32_t read_latency_clocks;  /* AR accepted -> first R beat of that burst */
    uint32_t write_latency_clocks; /* last W beat -> B */
    uint32_t outstanding;          /* the most bursts accepted and not answered, per channel, 1 to 256 */
    uint32_t stall_percent;        /* chance per clock and channel of a stall, 0 to 90 */
    uint32_t seed;                 /* of the stalls */
} hypersonic_timing;

typedef struct hypersonic_model hypersonic_model;

typedef struct hypersonic_device_model_api {
    uint32_t abi;         /* HYPERSONIC_DEVICE_MODEL_ABI */
    uint32_t size_bytes;  /* sizeof this struct */
    const char *target;   /* "sw_emu" or "hw_emu" */
    const char *kernel;   /* the kernel's name */
    uint32_t poll_clocks; /* recommended `clocks` for advance(), to see ap_ready and ap_done early enough */
    /* The most clocks in which a run that is not hung may move no data, for a slow core; 0: the library chooses */
    uint32_t patience_clocks;
    /* Returns a model after reset, or NULL: out of memory, or for the reason given to fault(). `memory` is copied; `memory->card`
     * must outlive the model. */
    hypersonic_model *(*create)(const hypersonic_memory *memory, const hypersonic_timing *timing);
    void (*destroy)(hypersonic_model *model);
    /* One AXI4-Lite transaction. Returns 0, or -1 if the slave answered with an error or did not answer. */
    int (*write)(hypersonic_model *model, uint32_t offset, uint32_t value);
    int (*read)(hypersonic_model *model, uint32_t offset, uint32_t *value);
    /* Runs `clocks` clocks (sw_emu: rows). Returns the data beats (rows) moved since create(). */
    uint64_t (*advance)(hypersonic_model *model, uint32_t clocks);
    /* Returns the clocks run since create(), those of register accesses included; sw_emu has no clock and returns 0. */
    uint64_t (*clocks)(const hypersonic_model *model);
} hypersonic_device_model_api;

typedef const hypersonic_device_model_api *(*hypersonic_device_model_function)(void);

#define HYPERSONIC_DEVICE_MODEL_SYMBOL "hypersonic_device_model"

#ifdef __cplusplus
}
#endif

#endif
