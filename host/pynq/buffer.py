# SPDX-License-Identifier: Apache-2.0
"""The result of pynq.allocate: a numpy array that is the host side of a buffer object.

PYNQ's own arrays may outlive their memory. Here the card's memory is freed when the last array that uses it is deleted;
freebuffer() only marks the buffer, so that later uses raise an error instead of reading freed memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pynq.buffer import PynqBuffer

from hypersonic.host.compute_unit import BufferObject
from hypersonic.host.errors import BufferObjectError


class Block:
    """A buffer object with the state of its use, shared by an array and all its views."""

    def __init__(self, memory: BufferObject, bank: str) -> None:
        self.memory, self.bank = memory, bank
        self.address = memory.address
        self.freed = False
        self.runs = 0  # number of runs in flight that read or write it

    def require_use(self) -> None:
        """Raises BufferObjectError when it was freed, or its card was closed."""
        if self.freed or self.memory.closed:
            raise BufferObjectError("the buffer was freed: allocate another one")


class Buffer(PynqBuffer):  # type: ignore[misc] # pynq has no types
    """An array of any shape and dtype. Views of it sync their own part; copies and results of sums are plain arrays."""

    # attributes of PynqBuffer; None where the array is not part of a buffer
    bo: Any  # Block
    device: Any  # Card
    device_address: int | None
    coherent: bool | None
    offset: int  # bytes from the start of the buffer

    def __new__(cls, shape: Any, dtype: Any, block: Block, memory: Any) -> Buffer:
        """Create the view of a block.

        Args:
            memory: the bank, for PYNQ's attribute of that name, which only the array from allocate has, not its views.
        """
        host, device = block.memory.array, memory.device
        given = {"bo": block, "device": device, "device_address": block.address, "buffer": host}
        buffer: Buffer = super().__new__(cls, shape, dtype, **given)
        buffer.memory = memory
        return buffer

    def __array_finalize__(self, source: object) -> None:
        super().__array_finalize__(source)
        if self.coherent is not None and not 0 <= self.offset < self.bo.memory.size_bytes:
            self.coherent = self.device_address = self.bo = self.device = None  # new memory, such as that of x + 1

    def block(self) -> Block:
        """The buffer that this array is part of. Raises BufferObjectError when there is none, or it was freed."""
        block: Block | None = getattr(self, "bo", None)
        if block is None:
            raise BufferObjectError(
                "this array is in the host's memory only (a copy, or a result): use the array from allocate"
            )
        block.require_use()
        return block

    def flush(self) -> None:
        """Copy the bytes of this array or view to the card. Raises BufferObjectError."""
        block = self.block()
        block.memory.sync_to_device(self._part(), self.offset)

    def invalidate(self) -> None:
        """Copy the bytes of this array or view from the card. Raises BufferObjectError."""
        block = self.block()
        block.memory.sync_from_device(self._part(), self.offset)

    def _part(self) -> int:
        if not self.flags.c_contiguous:
            raise BufferObjectError(f"a view of shape {self.shape} with strides {self.strides} is not one range: sync its rows")
        return int(self.nbytes)

    def freebuffer(self) -> None:
        """Mark the buffer as freed; does nothing for a view. Raises BufferObjectError while a run is in flight."""
        if not hasattr(self, "memory"):
            return
        if self.bo.runs:
            raise BufferObjectError(f"the buffer is used by {self.bo.runs} runs in flight: wait() for them first")
        self.bo.freed = True

    def __del__(self) -> None:
        # views keep this array alive, so no array uses the memory any more
        if hasattr(self, "memory"):
            self.bo.memory.close()


def size_bytes(shape: Any, dtype: Any) -> int:
    """The size in bytes of an array. Raises ValueError for a dimension below 1."""
    dimensions = np.atleast_1d(np.asarray(shape, dtype=object)).tolist()
    size: int = np.dtype(dtype).itemsize
    for dimension in dimensions:
        size *= int(dimension)
        if int(dimension) < 1:
            raise ValueError(f"shape is {shape}, expected 1 or more in every dimension")
    return size
