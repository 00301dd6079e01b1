# SPDX-License-Identifier: Apache-2.0
"""Memory for requests of a megabyte: malloc's thresholds, and copies.

glibc gives every block above 128 kB fresh pages from the kernel and takes them back at free: at a megabyte a request, page
faults cost as much as gRPC itself. Raised thresholds keep such blocks in the heap. One heap for all threads, instead of eight
per core, lets a request have the block that the last one gave back, still in the processor's cache, whichever thread that was;
and memory does not grow with the number of threads. What is small comes from the interpreter's own pools and malloc's caches of
each thread: nobody waits for the heap.
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
    """Whether malloc is set now; leaves alone what the environment sets, and libraries without mallopt."""
    if any(name in os.environ for name in _ENVIRONMENT):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    return all(mallopt(parameter, value) == 1 for parameter, value in _SETTINGS)


#: longest copy under the interpreter's lock: some 0.3 ms, a tenth of what a thread may hold it anyway
_UNDER_LOCK_BYTES = 4 * 2**20


def copy_into(target: memoryview, at: int, data: memoryview) -> int:
    """Copy bytes to target[at:]; gives where they end.

    NumPy gives up the interpreter's lock for a copy, a memoryview does not. Up to a few megabytes the way to the lock and back,
    with every other thread on it, costs more than the copy.
    """
    end = at + len(data)
    if len(data) <= _UNDER_LOCK_BYTES:
        target[at:end] = data
    else:
        np.frombuffer(target, np.uint8)[at:end] = np.frombuffer(data, np.uint8)
    return end
