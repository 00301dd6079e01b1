/* SPDX-License-Identifier: Apache-2.0 */
/* XRT's C functions over nothing: buffers in host memory, transfers that copy nothing, runs that end as they start. It measures
 * what a server costs without a card. $NULL_XRT_UUID is the uuid of the xclbin that is on the card, 32 hex digits. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CARDS 1
#define COMPLETED 4

struct buffer {
    void *memory;
    size_t size;
};

static int handle;

void *xrtDeviceOpen(unsigned index) { return index < CARDS ? &handle : NULL; }
int xrtDeviceClose(void *device) { return device ? 0 : -1; }
int xrtDeviceLoadXclbinFile(void *device, const char *path) { return device && path ? 0 : -1; }

int xrtDeviceGetXclbinUUID(void *device, unsigned char *uuid) {
    const char *text = getenv("NULL_XRT_UUID");
    for (int i = 0; i < 16; ++i) {
        unsigned byte = 0;
        if (!device || !text || sscanf(text + 2 * i, "%2x", &byte) != 1) return -1;
        uuid[i] = (unsigned char)byte;
    }
    return 0;
}

void *xrtPLKernelOpen(void *device, const unsigned char *uuid, const char *name) { return device && uuid && name ? &handle : NULL; }
void *xrtPLKernelOpenExclusive(void *device, const unsigned char *uuid, const char *name) { return xrtPLKernelOpen(device, uuid, name); }
int xrtKernelClose(void *kernel) { return kernel ? 0 : -1; }
int xrtKernelArgGroupId(void *kernel, int argument) { return kernel && argument >= 0 ? 0 : -1; }
uint32_t xrtKernelArgOffset(void *kernel, int argument) { return kernel ? (uint32_t)(0x10 + 12 * argument) : 0; }

int xrtKernelReadRegister(void *kernel, uint32_t offset, uint32_t *value) {
    *value = offset == 0 ? 4 : offset == 0x54 ? 0x00010002 : 0; /* ap_idle; VERSION */
    return kernel ? 0 : -1;
}

int xrtKernelWriteRegister(void *kernel, uint32_t offset, uint32_t value) { return kernel && (offset | value | 1) ? 0 : -1; }

void *xrtBOAlloc(void *device, size_t size, uint64_t flags, uint32_t group) {
    struct buffer *made = malloc(sizeof *made);
    if (!device || flags || group || !made) return NULL;
    *made = (struct buffer){aligned_alloc(4096, (size + 4095) / 4096 * 4096), size};
    if (made->memory) memset(made->memory, 0, size);
    return made;
}

void *xrtBOMap(void *buffer) { return ((struct buffer *)buffer)->memory; }
uint64_t xrtBOAddress(void *buffer) { return (uint64_t)(uintptr_t)((struct buffer *)buffer)->memory; }
size_t xrtBOSize(void *buffer) { return ((struct buffer *)buffer)->size; }

int xrtBOSync(void *buffer, int direction, size_t size, size_t offset) {
    return offset + size <= ((struct buffer *)buffer)->size && direction >= 0 ? 0 : -1;
}

int xrtBOFree(void *buffer) {
    free(((struct buffer *)buffer)->memory);
    free(buffer);
    return 0;
}

void *xrtRunOpen(void *kernel) { return kernel; }
int xrtRunSetArg(void *run, int argument, ...) { return run && argument >= 0 ? 0 : -1; }
int xrtRunStart(void *run) { return run ? 0 : -1; }
int xrtRunWaitFor(void *run, unsigned timeout_ms) { return run && timeout_ms ? COMPLETED : COMPLETED; }
int xrtRunState(void *run) { return run ? COMPLETED : COMPLETED; }
int xrtRunClose(void *run) { return run ? 0 : -1; }
