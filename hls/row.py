# SPDX-License-Identifier: Apache-2.0
"""One side of a model: its inputs, or its outputs, as they lie in a row of a kernel's buffer.

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

#: more than any network has; bounds what a manifest may ask for
MAX_TENSORS = 64


@dataclass(frozen=True)
class Row:
    """The tensors of one side, in the model's order: at least one, every name once."""

    tensors: tuple[TensorSpec, ...]

    def __post_init__(self) -> None:
        names = [tensor.name for tensor in self.tensors]
        if not 1 <= len(names) <= MAX_TENSORS:
            raise SpecMismatchError(f"a row has {len(names)} tensors, expected 1 to {MAX_TENSORS}")
        if len(set(names)) != len(names):
            raise SpecMismatchError(f"a row has the tensors {', '.join(names)}: a name stands twice; rename the layer")

    @property
    def size(self) -> int:
        """Elements of one row, of all tensors."""
        return sum(tensor.size for tensor in self.tensors)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row in the buffer."""
        return sum(tensor.row_bytes for tensor in self.tensors)

    @property
    def raw_bits(self) -> int:
        """Bits of one row inside the fabric: the width of a core's stream."""
        return sum(tensor.size * tensor.fixed.width for tensor in self.tensors)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each tensor begins in a row, bytes."""
        return tuple(accumulate((tensor.row_bytes for tensor in self.tensors[:-1]), initial=0))

    @property
    def element_offsets(self) -> tuple[int, ...]:
        """Where each tensor begins in a row, elements."""
        return tuple(accumulate((tensor.size for tensor in self.tensors[:-1]), initial=0))

    @property
    def dtype(self) -> np.dtype[Any]:
        """A row as a structured dtype, a field a tensor (BF16: its bits): buffer.view(dtype)[name] is a tensor."""
        return np.dtype([(tensor.name, tensor.element.dtype, tensor.shape) for tensor in self.tensors])

    def split(self, elements: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """(rows, size) -> one view (rows, tensor.size) a tensor."""
        return tuple(np.split(elements, self.element_offsets[1:], axis=1))

    def to_raw(self, wires: Sequence[ArrayLike]) -> NDArray[np.int64]:
        """Wire numbers, (rows, tensor.size) for each tensor -> raw integers (rows, size) int64; see TensorSpec.to_raw."""
        return np.concatenate([tensor.to_raw(wire) for tensor, wire in self._paired(wires)], axis=1)

    def from_raw(self, raw: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Raw integers (rows, size) -> wire numbers, (rows, tensor.size) for each tensor; see TensorSpec.from_raw."""
        return tuple(tensor.from_raw(part) for tensor, part in zip(self.tensors, self.split(raw), strict=True))

    def encode(self, wires: Sequence[ArrayLike]) -> NDArray[np.uint8]:
        """Wire numbers, (rows, tensor.size) for each tensor -> the buffer's bytes, (rows * row_bytes,) uint8."""
        parts = [tensor.encode(wire).reshape(-1, tensor.row_bytes) for tensor, wire in self._paired(wires)]
        return np.ascontiguousarray(np.concatenate(parts, axis=1)).reshape(-1)

    def decode(self, data: NDArray[np.uint8] | bytes) -> tuple[NDArray[Any], ...]:
        """The inverse of encode."""
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
        return [tensor.to_json() for tensor in self.tensors]

    @classmethod
    def from_json(cls, value: list[dict[str, Any]]) -> Row:
        """Raises what TensorSpec.from_json does, and SpecMismatchError for tensors that make no row."""
        return cls(tuple(TensorSpec.from_json(tensor) for tensor in value))
