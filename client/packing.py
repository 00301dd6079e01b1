# SPDX-License-Identifier: Apache-2.0
"""Packs arrays, one for each field, into rows of bytes, for a model with packed rows. The server describes the fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.client.errors import AnswerError, InputError

#: the parameter of a model's configuration: a JSON object with the layout of each packed input, by its name
PARAMETER = "packed_rows"

#: limits on what a server may describe: the bits and codes of a field, and the fields and bytes of a row
_MOST_BITS, _MOST_CODES, _MOST_FIELDS, _MOST_BYTES = 16, 1 << 22, 256, 1 << 24


@dataclass(frozen=True)
class PackedField:
    """`count` codes of `bits` bits each, of which the first begins at bit `first_bit` of a row; bit 0 is byte 0's lowest.

    Attributes:
        signed: in two's complement.
        fraction: bits of a number right of its binary point; a code is the number times 2**fraction.
        one_hot, first: codes first to first + one_hot - 1 select one of `one_hot` elements, other codes none; one_hot 0: a
            number, or the place in a table.
        spare: the model ignores the field; it may be left out.
    """

    name: str
    bits: int
    first_bit: int
    count: int = 1
    signed: bool = False
    fraction: int = 0
    one_hot: int = 0
    first: int = 0
    spare: bool = False

    def __post_init__(self) -> None:
        if not (1 <= self.bits <= _MOST_BITS and 1 <= self.count <= _MOST_CODES and self.first_bit >= 0):
            got = f"{self.bits} bits, {self.count} codes and first_bit {self.first_bit}"
            raise ValueError(f"field {self.name!r} has {got}, expected 1 to {_MOST_BITS} bits, one code or more, and 0 or more")

    @property
    def last_bit(self) -> int:
        """The last bit of its last code."""
        return self.first_bit + self.bits * self.count - 1

    @property
    def allowed(self) -> tuple[int, int]:
        """The smallest and the largest code."""
        return (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) if self.signed else (0, (1 << self.bits) - 1)


@dataclass(frozen=True)
class PackedRows:
    """The layout of a packed input's rows.

    Attributes:
        tensor: the input's name.
        row_bytes: of one row.
        fields: in the order of a row.
    """

    tensor: str
    row_bytes: int
    fields: tuple[PackedField, ...]

    def __post_init__(self) -> None:
        begin = 0
        for field in sorted(self.fields, key=lambda field: field.first_bit):
            if field.first_bit < begin or field.last_bit >= 8 * self.row_bytes:
                why = f"begins at bit {field.first_bit} and ends at bit {field.last_bit}"
                raise ValueError(
                    f"field {field.name!r} of input {self.tensor!r} {why}, expected {begin} to {8 * self.row_bytes - 1}"
                )
            begin = field.last_bit + 1

    def pack(self, codes: Mapping[str, ArrayLike]) -> NDArray[np.uint8]:
        """Return rows (rows, row_bytes) uint8 of an array of integers for each field: (rows,), or (rows, ...) with `count`
        codes a row.

        Raises InputError for a field that is missing or unknown, for anything but integers, for different numbers of rows, and
        for a code that the field's bits do not hold, with the field, the code and the codes that are allowed.
        """
        if unknown := sorted(codes.keys() - {field.name for field in self.fields}):
            known = ", ".join(field.name for field in self.fields)
            raise InputError(f"input {self.tensor!r} has no field {', '.join(unknown)}, expected {known}")
        given = {field: self._checked(field, codes[field.name]) for field in self.fields if field.name in codes}
        if missing := [field.name for field in self.fields if field not in given and not field.spare]:
            raise InputError(f"input {self.tensor!r} needs the field {', '.join(missing)}, got {', '.join(codes) or 'none'}")
        counts = {field.name: len(array) for field, array in given.items()}
        if len(set(counts.values())) > 1:
            raise InputError(f"the fields of input {self.tensor!r} have different numbers of rows: {counts}")
        rows = np.zeros((next(iter(counts.values()), 0), self.row_bytes + 2), np.uint8)
        for field, array in given.items():
            _put(rows, field, array)
        return np.ascontiguousarray(rows[:, : self.row_bytes])

    def _checked(self, field: PackedField, codes: ArrayLike) -> NDArray[Any]:
        """The codes as (rows, count) integers. Raises InputError."""
        array = np.asarray(codes)
        where = f"field {field.name!r} of input {self.tensor!r}"
        if np.ma.is_masked(codes) or (isinstance(codes, list | tuple) and any(map(np.ma.is_masked, codes))):
            raise InputError(f"{where} has masked codes, expected none")
        if array.dtype.kind not in "iu":
            raise InputError(f"{where} is an array of {array.dtype}, expected integers: the codes that travel")
        if array.ndim < 1 or array.size != len(array) * field.count:
            shape = "(rows,)" if field.count == 1 else f"(rows, {field.count})"
            raise InputError(f"{where} has shape {array.shape}, expected {shape}")
        low, high = field.allowed
        if array.size and (array.min() < low or array.max() > high):
            flat = array.reshape(len(array), -1)
            row, place = (int(i) for i in np.argwhere((flat < low) | (flat > high))[0])
            raise InputError(f"{where}: code {flat[row, place]} in row {row}, place {place}, expected {low} to {high}")
        return array.reshape(len(array), field.count)


def _put(rows: NDArray[np.uint8], field: PackedField, codes: NDArray[Any]) -> None:
    """Set the bits of a field.

    Codes that begin at the same bit of different bytes need the same shift, so they are set together, one byte at a time.

    Args:
        rows: two bytes longer than a row.
    """
    apart = 8 // gcd(8, field.bits)
    words = codes.astype(np.uint32) & np.uint32((1 << field.bits) - 1)
    for k in range(min(apart, field.count)):
        byte, shift = divmod(field.first_bit + k * field.bits, 8)
        shifted = words[:, k::apart] << np.uint32(shift)
        step, last = apart * field.bits // 8, shifted.shape[1] - 1
        for i in range((shift + field.bits + 7) // 8):
            rows[:, byte + i : byte + i + step * last + 1 : step] |= (shifted >> np.uint32(8 * i)).astype(np.uint8)


def read_layouts(server: str, text: str) -> dict[str, PackedRows]:
    """Return the layout of each packed input by its name.

    Args:
        text: the value of PARAMETER, "" for a model without it.

    Raises:
        AnswerError: For a text that does not describe packed rows.
    """
    try:
        return {name: _layout(name, value) for name, value in json.loads(text or "{}").items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise AnswerError(
            f"{server}: the model's parameter {PARAMETER} is {text:.80}, which describes no packed rows: {error!r:.80}"
        ) from error


def _layout(name: str, value: dict[str, Any]) -> PackedRows:
    fields, bit = list[PackedField](), 0
    for field in value["fields"][: _MOST_FIELDS + 1]:
        members = {key: field[key] for key in ("count", "signed", "fraction", "one_hot", "first", "spare") if key in field}
        fields.append(PackedField(str(field["name"]), int(field["bits"]), bit, **members))
        bit += fields[-1].bits * fields[-1].count
    if len(fields) > _MOST_FIELDS or -(-bit // 8) != value["row_bytes"] or bit > 8 * _MOST_BYTES:
        raise ValueError(f"{bit} bits and {value['row_bytes']!r} bytes a row")
    return PackedRows(name, -(-bit // 8), tuple(fields))
