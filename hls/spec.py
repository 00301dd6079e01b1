# SPDX-License-Identifier: Apache-2.0
"""What enters and leaves a model: names, shapes, and the fixed-point types inside the fabric."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.fixed import FixedPoint

#: bytes of one element on the wire
WIRE_BYTES = {"FP32": 4}


class SpecMismatchError(ValueError):
    """Two descriptions of one thing disagree, or an array does not fit its description."""


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a model, per row (no batch dimension).

    datatype: as on the wire, Triton's word. fixed: the type inside the fabric.
    scale_exponents: one per element, C order; the network's number is the wire's number times 2**exponent, in both
    directions. A power of two moves the binary point, so it costs nothing in the fabric. Empty means all zero.
    """

    name: str
    shape: tuple[int, ...]
    fixed: FixedPoint
    datatype: str = "FP32"
    scale_exponents: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.datatype not in WIRE_BYTES:
            raise SpecMismatchError(f"tensor {self.name!r}: datatype is {self.datatype}, expected one of {sorted(WIRE_BYTES)}")
        if not self.shape or min(self.shape) < 1:
            raise SpecMismatchError(f"tensor {self.name!r}: shape is {list(self.shape)}, expected positive dimensions")
        if self.scale_exponents and len(self.scale_exponents) != self.size:
            raise SpecMismatchError(
                f"tensor {self.name!r}: {len(self.scale_exponents)} scale exponents, expected {self.size}, one per element"
            )

    @property
    def size(self) -> int:
        """Elements in one row."""
        return prod(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row on the wire."""
        return self.size * WIRE_BYTES[self.datatype]

    @property
    def exponents(self) -> NDArray[np.int32]:
        """scale_exponents as an array (size,) int32, zeros where none are given."""
        return np.asarray(self.scale_exponents or (0,) * self.size, dtype=np.int32)

    def to_network(self, wire: ArrayLike) -> NDArray[np.float64]:
        """Wire numbers (rows, size) -> the network's real numbers (rows, size) float64, not yet quantised."""
        return np.ldexp(np.asarray(wire, dtype=np.float64), self.exponents)

    def to_raw(self, wire: ArrayLike) -> NDArray[np.int64]:
        """Wire numbers (rows, size) -> raw integers (rows, size) int64, as the fabric's input conversion gives them."""
        return self.fixed.from_float(self.to_network(wire))

    def from_raw(self, raw: ArrayLike) -> NDArray[np.float32]:
        """Raw integers (rows, size) -> wire numbers (rows, size) float32, rounded to nearest even as the fabric does."""
        values = np.asarray(raw, dtype=np.int64)
        # Beyond 53 bits a double would round first and float32 again: let bit 10 stand for the ten bits below it.
        values = np.where(np.abs(values) > 1 << 53, (values >> 10 | ((values & 1023) != 0)) << 10, values)
        return np.ldexp(self.fixed.to_float(values), -self.exponents).astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "shape": list(self.shape),
            "datatype": self.datatype,
            "fixed": str(self.fixed),
            "scale_exponents": list(self.scale_exponents),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TensorSpec:
        """Raises SpecMismatchError or PrecisionError for values that make no tensor, KeyError for a missing field."""
        return cls(
            name=str(value["name"]),
            shape=tuple(int(n) for n in value["shape"]),
            fixed=FixedPoint.parse(value["fixed"]),
            datatype=str(value["datatype"]),
            scale_exponents=tuple(int(e) for e in value.get("scale_exponents", ())),
        )
