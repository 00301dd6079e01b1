# SPDX-License-Identifier: Apache-2.0
"""The layout of a row in a kernel's buffer: one side of a model, all its inputs or all its outputs.

::

    a row   | tensor 0: its elements, C order | tensor 1 | ...     no padding, each tensor in its own datatype
    raw     | tensor 0's raw integers         | tensor 1 | ...     element 0 of tensor 0 in the low bits of a core's stream

A kernel reads one buffer of such rows and writes another, whatever the number of tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.spec import SpecMismatchError, TensorSpec

#: limit on the tensors that a manifest may describe, beyond any real network
MAX_TENSORS = 64


@dataclass(frozen=True)
class Row:
    """The tensors of one side, in the model's order.

    Raises SpecMismatchError unless there are 1 to MAX_TENSORS tensors with different names.
    """

    tensors: tuple[TensorSpec, ...]

    def __post_init__(self) -> None:
        names = [tensor.name for tensor in self.tensors]
        if not 1 <= len(names) <= MAX_TENSORS:
            raise SpecMismatchError(f"a row has {len(names)} tensors, expected 1 to {MAX_TENSORS}")
        if len(set(names)) != len(names):
            raise SpecMismatchError(f"a row has the tensors {', '.join(names)}: a name appears twice; rename the layer")

    @property
    def size(self) -> int:
        """Elements of one row, over all tensors."""
        return sum(tensor.size for tensor in self.tensors)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row in the buffer."""
        return sum(tensor.row_bytes for tensor in self.tensors)

    @property
    def raw_bits(self) -> int:
        """Bits of one row inside the fabric, where each element is as wide as its tensor's `fixed`."""
        return sum(tensor.size * tensor.fixed.width for tensor in self.tensors)

    @property
    def offsets(self) -> tuple[int, ...]:
        """The offset of each tensor in a row, in bytes."""
        return tuple(accumulate((tensor.row_bytes for tensor in self.tensors[:-1]), initial=0))

    @property
    def element_offsets(self) -> tuple[int, ...]:
        """The offset of each tensor in a row, in elements."""
        return tuple(accumulate((tensor.size for tensor in self.tensors[:-1]), initial=0))

    @property
    def dtype(self) -> np.dtype[Any]:
        """A structured dtype of one row, with a field per tensor (BF16 as its bits): buffer.view(dtype)[name] is a tensor."""
        return np.dtype([(tensor.name, tensor.element.dtype, tensor.shape) for tensor in self.tensors])

    def split(self, elements: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Split an array (rows, size) into one view (rows, tensor.size) per tensor."""
        return tuple(np.split(elements, self.element_offsets[1:], axis=1))

    def to_raw(self, wires: Sequence[ArrayLike]) -> NDArray[np.int64]:
        """Convert wire numbers, one array (rows, tensor.wire_size) per tensor, to raw integers (rows, size) int64.

        See TensorSpec.to_raw. Raises SpecMismatchError for a wrong number of arrays.
        """
        return np.concatenate([tensor.to_raw(wire) for tensor, wire in self._paired(wires)], axis=1)

    def from_raw(self, raw: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Convert raw integers (rows, size) to wire numbers, one array (rows, tensor.size) per tensor.

        See TensorSpec.from_raw.
        """
        return tuple(tensor.from_raw(part) for tensor, part in zip(self.tensors, self.split(raw), strict=True))

    def encode(self, wires: Sequence[ArrayLike]) -> NDArray[np.uint8]:
        """Encode wire numbers, one array (rows, tensor.wire_size) per tensor, as the buffer's bytes (rows * row_bytes,) uint8.

        Raises SpecMismatchError for a wrong number of arrays.
        """
        parts = [tensor.encode(wire).reshape(-1, tensor.row_bytes) for tensor, wire in self._paired(wires)]
        return np.ascontiguousarray(np.concatenate(parts, axis=1)).reshape(-1)

    def decode(self, data: NDArray[np.uint8] | bytes) -> tuple[NDArray[Any], ...]:
        """Decode a buffer's bytes: the inverse of encode."""
        rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, self.row_bytes)
        parts = np.split(rows, self.offsets[1:], axis=1)
        return tuple(
            tensor.decode(np.ascontiguousarray(part).reshape(-1)) for tensor, part in zip(self.tensors, parts, strict=True)
        )

    def _paired(self, wires: Sequence[ArrayLike]) -> list[tuple[TensorSpec, ArrayLike]]:
        if len(wires) != len(self.tensors):
            raise SpecMismatchError(
                f"{len(wires)} arrays, expected {len(self.tensors)}: {', '.join(t.name for t in self.tensors)}"
            )
        return list(zip(self.tensors, wires, strict=True))

    def to_json(self) -> list[dict[str, Any]]:
        """Return TensorSpec.to_json of each tensor, in order."""
        return [tensor.to_json() for tensor in self.tensors]

    @classmethod
    def from_json(cls, value: list[dict[str, Any]]) -> Row:
        """Read what to_json returned.

        Raises what TensorSpec.from_json raises, and SpecMismatchError for tensors that cannot form a row.
        """
        return cls(tuple(TensorSpec.from_json(tensor) for tensor in value))
