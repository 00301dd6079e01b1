# SPDX-License-Identifier: Apache-2.0
"""What pynq.allocate gives: a numpy array that is the host side of a buffer object.

PYNQ frees memory under arrays that still look at it. Here the card's memory goes back when the last array over it goes;
freebuffer() only ends its use, so that what comes later raises instead of reading memory that is not there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pynq.buffer import PynqBuffer

from hypersonic.host.device import BufferObject
from hypersonic.host.errors import BufferObjectError


class Block:
    """A buffer object and who uses it; one for an array and all its views."""

    def __init__(self, memory: BufferObject, bank: str) -> None:
        self.memory, self.bank = memory, bank
        self.address = memory.address
        self.freed = False
        self.runs = 0  # in flight that read or write it

    def require_use(self) -> None:
        """Raises BufferObjectError when it was freed, or its card was closed."""
        if self.freed or self.memory.closed:
            raise BufferObjectError("the buffer was freed: allocate another one")


class Buffer(PynqBuffer):  # type: ignore[misc] # pynq has no types
    """An array of any shape and dtype. Views of it sync their own part; copies and results of sums are plain arrays."""

    # PynqBuffer's; None where the array is no part of a buffer
    bo: Any  # Block
    device: Any  # Card
    device_address: int | None
    coherent: bool | None
    offset: int  # bytes from the start of the buffer

    def __new__(cls, shape: Any, dtype: Any, block: Block, memory: Any) -> Buffer:
        """memory: the bank, as PYNQ's attribute of that name; only the array allocate gave has it, its views have not."""
        host, device = block.memory.array, memory.device
        given = {"bo": block, "device": device, "device_address": block.address, "buffer": host}
        buffer: Buffer = super().__new__(cls, shape, dtype, **given)
        buffer.memory = memory
        return buffer

    def __array_finalize__(self, source: object) -> None:
        super().__array_finalize__(source)
        if self.coherent is not None and not 0 <= self.offset < self.bo.memory.size_bytes:
            self.coherent = self.device_address = self.bo = self.device = None  # new memory, as of x + 1

    def block(self) -> Block:
        """Raises BufferObjectError when this array is no part of a buffer, or of a freed one."""
        block: Block | None = getattr(self, "bo", None)
        if block is None:
            raise BufferObjectError("this array is in the host's memory only (a copy, or a result): use what allocate gave")
        block.require_use()
        return block

    def flush(self) -> None:
        """Host side -> card, the bytes of this array or view. Raises BufferObjectError."""
        block = self.block()
        block.memory.sync_to_device(self._part(), self.offset)

    def invalidate(self) -> None:
        """Card -> host side, the bytes of this array or view. Raises BufferObjectError."""
        block = self.block()
        block.memory.sync_from_device(self._part(), self.offset)

    def _part(self) -> int:
        if not self.flags.c_contiguous:
            raise BufferObjectError(f"a view of shape {self.shape} with strides {self.strides} is not one range: sync its rows")
        return int(self.nbytes)

    def freebuffer(self) -> None:
        """End its use; nothing for a view. Raises BufferObjectError while a run is in flight."""
        if not hasattr(self, "memory"):
            return
        if self.bo.runs:
            raise BufferObjectError(f"the buffer is used by {self.bo.runs} runs in flight: wait() for them first")
        self.bo.freed = True

    def __del__(self) -> None:
        # views keep this array alive, so nobody looks at the memory any more
        if hasattr(self, "memory"):
            self.bo.memory.close()


def size_bytes(shape: Any, dtype: Any) -> int:
    """Of an array. Raises ValueError for a negative dimension, or nothing to allocate."""
    dimensions = np.atleast_1d(np.asarray(shape, dtype=object)).tolist()
    size: int = np.dtype(dtype).itemsize
    for dimension in dimensions:
        size *= int(dimension)
        if int(dimension) < 1:
            raise ValueError(f"shape is {shape}, expected 1 or more in every dimension")
    return size
