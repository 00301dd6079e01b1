/* SPDX-License-Identifier: Apache-2.0 */
/* XRT's C functions with faults on demand, for what no healthy card does: NULL, errnos, runs that end badly, a card that
 * gets lost. It computes nothing. `faults` is "xrtBOAlloc=12@3 state=5": that function fails with errno 12 at its 3rd call
 * (@1 when left out), runs end in that ert_cmd_state. "registers=N": each of them reads N, else its offset. `journal`
 * collects what was given back, in order. */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static char faults[1024], journal[1 << 16];
static int calls[64], used;
static const char *names[64];

EXPORT void faulty_reset(const char *text) {
    snprintf(faults, sizeof faults, " %s", text);
    journal[0] = 0;
    used = 0;
}

EXPORT const char *faulty_journal(void) { return journal; }

static int number(const char *name, int otherwise) {
    char key[64];
    const char *found;
    snprintf(key, sizeof key, " %s=", name);
    found = strstr(faults, key);
    return found ? atoi(found + strlen(key)) : otherwise;
}

/* The errno this call is to fail with, or 0. */
static int fault(const char *name) {
    int i = 0, code = number(name, 0), at = 1;
    char key[64];
    const char *found, *mark;
    while (i < used && strcmp(names[i], name)) ++i;
    if (i == used) names[used] = name, calls[used++] = 0;
    calls[i] += 1;
    if (!code) return 0;
    snprintf(key, sizeof key, " %s=", name);
    found = strstr(faults, key);
    mark = strpbrk(found + 1, "@ ");
    if (mark && *mark == '@') at = atoi(mark + 1);
    if (calls[i] != at) return 0;
    errno = code;
    return code;
}

static void note(const char *what) { strncat(journal, what, sizeof journal - strlen(journal) - 1); }

static void *handle(const char *name) {
    static char any;
    return fault(name) ? NULL : (void *)&any;
}

static int status(const char *name) { return fault(name) ? -1 : 0; }

static int given_back(const char *name, const char *what) {
    note(what);
    return status(name);
}

EXPORT void *xrtDeviceOpen(unsigned index) { return (void)index, handle("xrtDeviceOpen"); }
EXPORT int xrtDeviceClose(void *device) { return (void)device, given_back("xrtDeviceClose", "device "); }
EXPORT int xrtDeviceLoadXclbinFile(void *device, const char *path) { return (void)device, (void)path, status("xrtDeviceLoadXclbinFile"); }

static unsigned char uuid[16];
EXPORT void faulty_uuid(const unsigned char *value) { memcpy(uuid, value, 16); }

EXPORT int xrtDeviceGetXclbinUUID(void *device, unsigned char *out) {
    (void)device;
    memcpy(out, uuid, 16);
    return status("xrtDeviceGetXclbinUUID");
}

EXPORT void *xrtPLKernelOpen(void *d, const unsigned char *u, const char *n) { return (void)d, (void)u, (void)n, handle("xrtPLKernelOpen"); }
EXPORT void *xrtPLKernelOpenExclusive(void *d, const unsigned char *u, const char *n) {
    return (void)d, (void)u, (void)n, handle("xrtPLKernelOpenExclusive");
}
EXPORT int xrtKernelArgGroupId(void *kernel, int argument) { return (void)kernel, (void)argument, status("xrtKernelArgGroupId"); }
EXPORT uint32_t xrtKernelArgOffset(void *kernel, int argument) { return (void)kernel, (uint32_t)argument; }
EXPORT int xrtKernelReadRegister(void *k, uint32_t offset, uint32_t *data) {
    (void)k;
    *data = (uint32_t)number("registers", (int)offset);
    return status("xrtKernelReadRegister");
}
EXPORT int xrtKernelWriteRegister(void *k, uint32_t o, uint32_t d) { return (void)k, (void)o, (void)d, status("xrtKernelWriteRegister"); }
EXPORT int xrtKernelClose(void *kernel) { return (void)kernel, given_back("xrtKernelClose", "kernel "); }

struct buffer {
    size_t size;
    char *bytes;
};

EXPORT void *xrtBOAlloc(void *device, size_t size, uint64_t flags, uint32_t group) {
    struct buffer *made;
    (void)device, (void)flags, (void)group;
    if (fault("xrtBOAlloc")) return NULL;
    made = malloc(sizeof *made);
    made->size = size;
    made->bytes = calloc(1, size);
    return made;
}
EXPORT void *xrtBOMap(void *buffer) { return fault("xrtBOMap") ? NULL : (void *)((struct buffer *)buffer)->bytes; }
EXPORT uint64_t xrtBOAddress(void *buffer) { return (uint64_t)(uintptr_t)buffer; }
EXPORT size_t xrtBOSize(void *buffer) { return ((struct buffer *)buffer)->size; }
EXPORT int xrtBOSync(void *buffer, int direction, size_t size, size_t offset) {
    return (void)buffer, (void)direction, (void)size, (void)offset, status("xrtBOSync");
}
EXPORT int xrtBOFree(void *buffer) {
    free(((struct buffer *)buffer)->bytes);
    free(buffer);
    return given_back("xrtBOFree", "buffer ");
}

EXPORT void *xrtRunOpen(void *kernel) { return (void)kernel, handle("xrtRunOpen"); }
EXPORT int xrtRunSetArg(void *run, int index, ...) { return (void)run, (void)index, status("xrtRunSetArg"); }
EXPORT int xrtRunStart(void *run) { return (void)run, status("xrtRunStart"); }
EXPORT int xrtRunWaitFor(void *run, unsigned timeout_ms) { return (void)run, (void)timeout_ms, number("wait", number("state", 4)); }
EXPORT int xrtRunState(void *run) { return (void)run, number("state", 4); }
EXPORT int xrtRunClose(void *run) { return (void)run, given_back("xrtRunClose", "run "); }
