# SPDX-License-Identifier: Apache-2.0
"""Memory for requests of a megabyte: malloc's thresholds, and fast copies.

By default, glibc gets new pages from the kernel for every block above 128 kB, and returns them when the block is freed. With a
megabyte per request, the page faults cost as much as gRPC itself. Higher thresholds keep such blocks in the heap. With one heap
for all threads, instead of eight per core, a request reuses the block that the last one freed on any thread, which is still in
the processor's cache, and memory does not grow with the number of threads. Small blocks come from the interpreter's own pools
and from malloc's caches of each thread, so that threads do not wait for the heap.
"""

from __future__ import annotations

import ctypes
import os

import numpy as np

# mallopt's parameters, <malloc.h>
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8
_SETTINGS = ((_M_MMAP_THRESHOLD, 256 * 2**20), (_M_TRIM_THRESHOLD, 512 * 2**20), (_M_TOP_PAD, 64 * 2**20), (_M_ARENA_MAX, 1))
_ENVIRONMENT = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES")


def raise_malloc_thresholds() -> bool:
    """Set malloc's thresholds and the number of its heaps.

    Returns False if the environment sets any of them, or if the C library has no mallopt; nothing is changed then.
    """
    if any(name in os.environ for name in _ENVIRONMENT):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    return all(mallopt(parameter, value) == 1 for parameter, value in _SETTINGS)


#: the longest copy under the interpreter's lock: it takes about 0.3 ms, less than a tenth of the time that a thread may hold it
_UNDER_LOCK_BYTES = 4 * 2**20


def copy_into(target: memoryview, at: int, data: memoryview) -> int:
    """Copy bytes to target[at:]. Returns the position after them.

    NumPy releases the interpreter's lock during a copy, a memoryview does not. Up to a few megabytes, releasing and taking the
    lock, for which all other threads compete, costs more than the copy.
    """
    end = at + len(data)
    if len(data) <= _UNDER_LOCK_BYTES:
        target[at:end] = data
    else:
        np.frombuffer(target, np.uint8)[at:end] = np.frombuffer(data, np.uint8)
    return end
