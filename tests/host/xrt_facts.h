/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of XRT's C API that host/xrt.py binds, as XRT 2.11 and newer declare them. Read twice: by
 * test_xrt_signatures.py, and by a C compiler together with XRT's own headers, which must agree. */
#ifndef XRT_FACTS_H
#define XRT_FACTS_H

void *xrtDeviceOpen(unsigned int index);
int xrtDeviceClose(void *device);
int xrtDeviceLoadXclbinFile(void *device, const char *path);
int xrtDeviceGetXclbinUUID(void *device, xuid_t out);

void *xrtPLKernelOpen(void *device, const xuid_t xclbin, const char *name);
void *xrtPLKernelOpenExclusive(void *device, const xuid_t xclbin, const char *name);
int xrtKernelArgGroupId(void *kernel, int argument);
uint32_t xrtKernelArgOffset(void *kernel, int argument);
int xrtKernelReadRegister(void *kernel, uint32_t offset, uint32_t *data);
int xrtKernelWriteRegister(void *kernel, uint32_t offset, uint32_t data);
int xrtKernelClose(void *kernel);

void *xrtBOAlloc(void *device, size_t size, uint64_t flags, uint32_t group);
void *xrtBOMap(void *buffer);
uint64_t xrtBOAddress(void *buffer);
size_t xrtBOSize(void *buffer);
int xrtBOSync(void *buffer, enum xclBOSyncDirection direction, size_t size, size_t offset);
int xrtBOFree(void *buffer);

void *xrtRunOpen(void *kernel);
int xrtRunSetArg(void *run, int index, ...);
int xrtRunStart(void *run);
enum ert_cmd_state xrtRunWaitFor(void *run, unsigned int timeout_ms);
enum ert_cmd_state xrtRunState(void *run);
int xrtRunClose(void *run);

#endif
