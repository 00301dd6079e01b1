# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of a model: names, shapes, datatypes on the wire, and fixed-point types inside the fabric."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.packing.layout import Packing


@dataclass(frozen=True)
class Datatype:
    """The format of one element on the wire.

    Attributes:
        exponent_bits: 0 for an integer.
        signed: applies to integers only.
    """

    name: str
    bits: int
    exponent_bits: int = 0
    signed: bool = True

    @property
    def is_integer(self) -> bool:
        """True for INT and UINT, which carry raw fixed-point numbers."""
        return self.exponent_bits == 0

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return self.bits // 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """The little-endian numpy dtype of an element in memory; for BF16, which numpy does not have, uint16 with its bits."""
        kind = "f" if not self.is_integer and self.name != "BF16" else "i" if self.is_integer and self.signed else "u"
        return np.dtype(f"<{kind}{self.bytes}")


#: the datatypes that a kernel reads and writes, by Triton's names
DATATYPES = {
    datatype.name: datatype
    for datatype in (
        Datatype("FP32", 32, 8),
        Datatype("FP16", 16, 5),
        Datatype("BF16", 16, 8),
        *(Datatype(f"INT{bits}", bits) for bits in (8, 16, 32)),
        *(Datatype(f"UINT{bits}", bits, signed=False) for bits in (8, 16, 32)),
    )
}
#: the datatypes as which packed rows are sent
PACKED = ("UINT8", "UINT16")
#: bits; a double holds every raw value of this width, so that casts between raw types are exact
_MAX_INTEGER_WIDTH = 53
#: the most elements that one scale exponent in a file may apply to: an untrusted file cannot demand more memory
_MAX_SCALED = 1 << 22


class SpecMismatchError(ValueError):
    """Two descriptions of the same thing disagree, or an array does not fit its description."""


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a model, per row (no batch dimension).

    Attributes:
        datatype: the datatype on the wire, a key of DATATYPES.
        fixed: the type inside the fabric.
        scale_exponents: one per element, C order; the network's number is the wire's number times 2**exponent, in both
            directions. A power of two moves the binary point, so it costs nothing in the fabric. Empty means all zero.
        wire: for an integer datatype, the fixed-point type of the same width that its integers are raw values of; they are the
            network's numbers, to which scaling has already been applied. None: the binary point of `fixed` if that type fits,
            otherwise its integer bits; outputs are then rounded to nearest and saturated.
        packing: for an input whose UINT8 or UINT16 numbers are packed rows; `shape` is then that of the packed numbers, and the
            network has packing.size elements. None: the numbers on the wire are the elements. Raises SpecMismatchError,
            PackingError or PrecisionError if the fields contradict each other.
    """

    name: str
    shape: tuple[int, ...]
    fixed: FixedPoint
    datatype: str = "FP32"
    scale_exponents: tuple[int, ...] = ()
    wire: FixedPoint | None = None
    packing: Packing | None = None

    def __post_init__(self) -> None:
        self.fixed.checked()
        if self.datatype not in DATATYPES:
            raise SpecMismatchError(
                f"tensor {self.name!r}: datatype is {self.datatype}, expected one of {', '.join(DATATYPES)}"
            )
        if not self.shape or min(self.shape) < 1:
            raise SpecMismatchError(f"tensor {self.name!r}: shape is {list(self.shape)}, expected positive dimensions")
        if self.packing:
            self._check_packing(self.packing)
        if self.scale_exponents and len(self.scale_exponents) != self.size:
            raise SpecMismatchError(
                f"tensor {self.name!r}: {len(self.scale_exponents)} scale exponents, expected {self.size}, one per element"
            )
        if not self.packing:
            self._check_wire()

    def _check_packing(self, packing: Packing) -> None:
        if self.datatype not in PACKED or self.wire is not None:
            given = f"{self.datatype} with wire {self.wire}" if self.wire else self.datatype
            raise SpecMismatchError(f"tensor {self.name!r}: packed rows travel as {given}, expected {' or '.join(PACKED)}")
        if self.row_bytes != packing.row_bytes:
            raise SpecMismatchError(
                f"tensor {self.name!r}: {self.datatype} of shape {list(self.shape)} is {self.row_bytes} bytes, the fields have "
                f"{packing.row_bytes}"
            )
        packing.check_tables(self.fixed.width)

    def _check_wire(self) -> None:
        element = self.element
        if not element.is_integer:
            if self.wire is not None:
                raise SpecMismatchError(
                    f"tensor {self.name!r}: wire is {self.wire}, but {self.datatype} is not an integer datatype"
                )
            return
        if self.fixed.signed != element.signed or self.fixed.width > _MAX_INTEGER_WIDTH:
            raise SpecMismatchError(
                f"tensor {self.name!r}: {self.fixed} cannot travel as {self.datatype}, expected "
                f"{'INT' if self.fixed.signed else 'UINT'}8, 16 or 32 and at most {_MAX_INTEGER_WIDTH} bits"
            )
        if self.wire is not None and (self.wire.width, self.wire.signed) != (element.bits, element.signed):
            raise SpecMismatchError(
                f"tensor {self.name!r}: wire is {self.wire}, expected {element.bits} bits, "
                f"{'signed' if element.signed else 'unsigned'}, as {self.datatype} has"
            )

    @property
    def element(self) -> Datatype:
        """The format of one element on the wire."""
        return DATATYPES[self.datatype]

    @property
    def integer(self) -> FixedPoint:
        """The fixed-point type of an integer datatype's raw values: `wire`, or the default described there."""
        if self.wire is not None:
            return self.wire
        bits, fixed = self.element.bits, self.fixed
        integer = bits - fixed.fraction if fixed.width <= bits else fixed.integer
        return FixedPoint(bits, integer, fixed.signed, Rounding.RND, Overflow.SAT)

    @property
    def size(self) -> int:
        """Elements of the network in one row."""
        return self.packing.size if self.packing else self.wire_size

    @property
    def wire_size(self) -> int:
        """Numbers on the wire in one row: the elements, unless they are packed."""
        return prod(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row on the wire."""
        return self.wire_size * self.element.bytes

    @property
    def is_packed(self) -> bool:
        """True if a client has to pack the rows, because the numbers on the wire are not the codes."""
        fields = self.packing.fields if self.packing else ()
        return bool(fields) and (len(fields) > 1 or fields[0].bits != self.element.bits)

    @property
    def exponents(self) -> NDArray[np.int32]:
        """scale_exponents as an array (size,) int32; all zero if none are given."""
        return np.asarray(self.scale_exponents or (0,) * self.size, dtype=np.int32)

    def quantise(self, numbers: ArrayLike) -> NDArray[Any]:
        """Convert numbers in the wire's units (rows, size) to wire numbers, as a client does before it sends them.

        A floating-point datatype rounds the number to nearest even. An integer datatype takes number * 2**exponent as a raw
        value of `integer`. Packed rows get the codes whose numbers are nearest.
        """
        values = np.asarray(numbers, dtype=np.float64)
        if self.packing:
            return self.decode(self.packing.nearest(values).reshape(-1))
        if self.element.is_integer:
            return self.integer.from_float(np.ldexp(values, self.exponents)).astype(self.element.dtype)
        return self.decode(self.encode(values))

    def real(self, wire: ArrayLike) -> NDArray[np.float64]:
        """Convert wire numbers (rows, wire_size) to numbers in the wire's units (rows, size) float64: the inverse of
        quantise up to rounding."""
        if self.packing:
            return self.packing.numbers(self.encode(wire).reshape(-1, self.row_bytes))
        network = self.to_network(wire)
        return np.ldexp(network, -self.exponents) if self.element.is_integer else np.asarray(wire, dtype=np.float64)

    def to_network(self, wire: ArrayLike) -> NDArray[np.float64]:
        """Convert wire numbers (rows, wire_size) to the network's real numbers (rows, size) float64, before quantisation."""
        if self.packing:
            return np.ldexp(self.real(wire), self.exponents)
        with np.errstate(invalid="ignore"):  # a signalling NaN is treated as any other NaN
            numbers = np.asarray(wire, dtype=np.float64)
            return np.ldexp(numbers, -self.integer.fraction if self.element.is_integer else self.exponents)

    def to_raw(self, wire: ArrayLike) -> NDArray[np.int64]:
        """Convert wire numbers (rows, wire_size) to raw integers (rows, size) int64, as the kernel's input conversion does."""
        return self.fixed.from_float(self.to_network(wire))

    def from_raw(self, raw: ArrayLike) -> NDArray[Any]:
        """Convert raw integers (rows, size) to wire numbers (rows, size), as the kernel's output conversion does.

        The result is float32 for FP32 and BF16, float16 for FP16 (each rounded to nearest even), and an integer datatype's own
        dtype.
        """
        values = np.asarray(raw, dtype=np.int64)
        if self.element.is_integer:
            return self.integer.from_float(self.fixed.to_float(values)).astype(self.element.dtype)
        # Beyond 53 bits the double would round, and then the float again: fold the ten low bits into bit 10 (a sticky bit).
        values = np.where(np.abs(values) > 1 << 53, (values >> 10 | ((values & 1023) != 0)) << 10, values)
        numbers = np.ldexp(self.fixed.to_float(values), -self.exponents)
        with np.errstate(over="ignore"):  # a number that is too large becomes infinity
            return _to_bf16(numbers) if self.datatype == "BF16" else numbers.astype(self.element.dtype)

    def encode(self, wire: ArrayLike) -> NDArray[np.uint8]:
        """Encode wire numbers (rows, wire_size) as the bytes on the wire, (rows * row_bytes,) uint8, little endian."""
        if self.datatype == "BF16":
            words = (_to_bf16(np.asarray(wire, dtype=np.float64)).view(np.uint32) >> 16).astype("<u2")
        else:
            with np.errstate(over="ignore"):  # a number that is too large becomes infinity
                words = np.asarray(wire).astype(self.element.dtype)
        return np.ascontiguousarray(words).reshape(-1).view(np.uint8)

    def decode(self, data: NDArray[np.uint8] | bytes) -> NDArray[Any]:
        """Decode bytes, the inverse of encode, to wire numbers (rows, wire_size) of the dtype that from_raw returns."""
        words = np.frombuffer(data, dtype=self.element.dtype).reshape(-1, self.wire_size)
        return (words.astype(np.uint32) << 16).view(np.float32) if self.datatype == "BF16" else words

    def _kept_exponents(self) -> list[int]:
        """The exponents for a file: a single one if all are equal, because a tensor may have a hundred thousand elements."""
        same = len(set(self.scale_exponents)) == 1 and self.size <= _MAX_SCALED
        return list(self.scale_exponents[:1] if same else self.scale_exponents)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values; types as text, equal scale exponents as a single one."""
        return {
            "name": self.name,
            "shape": list(self.shape),
            "datatype": self.datatype,
            "fixed": str(self.fixed),
            "scale_exponents": self._kept_exponents(),
            **({"wire": str(self.wire)} if self.wire is not None else {}),
            **({"packing": self.packing.to_json()} if self.packing else {}),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TensorSpec:
        """Read what to_json returned.

        Raises SpecMismatchError, PackingError or PrecisionError for values that do not describe a tensor, and KeyError for a
        missing field.
        """
        name, shape = str(value["name"]), tuple(int(n) for n in value["shape"])
        exponents = tuple(int(e) for e in value.get("scale_exponents", ()))
        packing = Packing.from_json(value["packing"]) if value.get("packing") else None
        size = packing.size if packing else prod(shape)
        if len(exponents) == 1 and min(shape, default=0) >= 1 and size <= _MAX_SCALED:
            exponents *= size
        return cls(
            name=name,
            shape=shape,
            fixed=FixedPoint.parse(value["fixed"]),
            datatype=str(value["datatype"]),
            scale_exponents=exponents,
            wire=FixedPoint.parse(value["wire"]) if value.get("wire") else None,
            packing=packing,
        )


def _to_bf16(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round to the nearest bfloat16 (8 significant bits, float32's exponents), ties to even; returned as float32."""
    _, exponents = np.frexp(np.where(np.isfinite(numbers), numbers, 0.0))
    ulp = np.maximum(exponents - 8, -133)
    with np.errstate(over="ignore", invalid="ignore"):
        nearest: NDArray[np.float32] = np.ldexp(np.rint(np.ldexp(numbers, -ulp)), ulp).astype(np.float32)
    return nearest
