# SPDX-License-Identifier: Apache-2.0
"""The layout of a packed row, and how its bytes become an input's numbers.

    fields   ieta 6, iphi 7, depth 3       bits 0-5, 6-12, 13-15: two bytes

The fields follow one another without gaps. Bits are little-endian: bit 0 of a row is bit 0 of its byte 0, and a code's low bit
comes first. A row ends with unused bits up to a whole byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.packing.field import MAX_COUNT, Field, PackingError

#: fields in one row
MAX_FIELDS = 256
#: bits of one converter's table as raw integers
MAX_TABLE_BITS = 1 << 19


@dataclass(frozen=True)
class Codes:
    """Consecutive codes of one field that are converted alike: what one converter of the kernel takes.

    first_bit: of the first code in the row. codes: their number. exponents: the scale exponents of the elements of one code.
    select_bit: the lowest of the field.select_bits bits of the row that select.
    """

    field: Field
    first_bit: int
    codes: int
    exponents: tuple[int, ...]
    select_bit: int = 0

    @property
    def elements(self) -> int:
        """Elements of the network's input."""
        return self.codes * self.field.per_code

    @property
    def is_number(self) -> bool:
        """True for codes that are numbers, which need no table."""
        return not self.field.table and not self.field.one_hot

    @property
    def fraction(self) -> int:
        """Of a number: bits of the code right of the binary point of the network's number."""
        return self.field.fraction - self.exponents[0]

    def raw_table(self, fixed: FixedPoint) -> NDArray[np.int64]:
        """Return what each code becomes, as raw integers of `fixed`: (selections * codes, per_code). The selection is in the
        upper bits of the index."""
        scaled = np.ldexp(self.field.entries, np.asarray(self.exponents, np.int32))
        return fixed.from_float(scaled).reshape(-1, self.field.per_code)


@dataclass(frozen=True)
class Packing:
    """The fields of a packed row, in order. Raises PackingError for fields that contradict each other."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.fields) <= MAX_FIELDS:
            raise PackingError(f"a row of {len(self.fields)} fields, expected 1 to {MAX_FIELDS}")
        if len(self.by_name) != len(self.fields):
            raise PackingError(f"the fields {', '.join(field.name for field in self.fields)}: a name appears twice")
        for field in self.fields:
            self._check_select(field)
        if not 1 <= self.size <= MAX_COUNT:
            raise PackingError(f"the fields become {self.size} elements, expected 1 to {MAX_COUNT}")

    def _check_select(self, field: Field) -> None:
        if not field.select:
            return
        if field.select not in self.by_name:
            names = ", ".join(self.by_name)
            raise PackingError(f"field {field.name!r}: select is {field.select!r}, expected one of the fields {names}")
        selecting = self.by_name[field.select]
        if selecting.count > 1 or selecting.bits < field.select_bits:
            raise PackingError(
                f"field {field.name!r}: select is {field.select!r} with {selecting.count} codes of {selecting.bits} bits, "
                f"expected one code of {field.select_bits} bits or more for {len(field.table)} selections"
            )
        seen, at = [field.name], field
        while at.select in self.by_name:
            at = self.by_name[at.select]
            seen.append(at.name)
            if at.name in seen[:-1]:
                raise PackingError(f"fields {' -> '.join(seen)}: each selects the next, expected no loop")

    @property
    def by_name(self) -> dict[str, Field]:
        """The fields by name."""
        return {field.name: field for field in self.fields}

    @property
    def first_bits(self) -> tuple[int, ...]:
        """The first bit of each field in a row."""
        return tuple(accumulate((field.bits * field.count for field in self.fields[:-1]), initial=0))

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return -(-sum(field.bits * field.count for field in self.fields) // 8)

    @property
    def size(self) -> int:
        """Elements of the network's input."""
        return sum(field.size for field in self.fields)

    def unpack(self, data: NDArray[np.uint8]) -> dict[str, NDArray[np.int64]]:
        """Return the codes (rows, count) int64 of each field. data: (rows, row_bytes) uint8."""
        padded = np.pad(data, ((0, 0), (0, 2))).astype(np.uint32)
        return {field.name: _codes(padded, field, first) for field, first in zip(self.fields, self.first_bits, strict=True)}

    def pack(self, codes: dict[str, NDArray[np.int64]]) -> NDArray[np.uint8]:
        """Return the bytes (rows, row_bytes) of codes: the inverse of unpack. Bits beyond a field's are dropped."""
        bits = [_bits(codes[field.name], field.bits) for field in self.fields]
        return np.packbits(np.concatenate(bits, axis=1), axis=1, bitorder="little")

    def numbers(self, data: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Convert rows (rows, row_bytes) to numbers in the wire's units (rows, size) float64."""
        codes = self.unpack(data)
        parts = [field.numbers(codes[field.name], *self._selected(field, codes)) for field in self.fields]
        return np.concatenate(parts, axis=1)

    def nearest(self, numbers: ArrayLike) -> NDArray[np.uint8]:
        """Return the rows (rows, row_bytes) whose numbers are nearest to `numbers` (rows, size), in the wire's units."""
        ends = list(accumulate(field.size for field in self.fields))
        parts = np.split(np.asarray(numbers, np.float64), ends[:-1], axis=1)
        given = {field.name: part for field, part in zip(self.fields, parts, strict=True)}
        codes = dict[str, NDArray[np.int64]]()
        for field in sorted(self.fields, key=self._depth):
            codes[field.name] = field.nearest(given[field.name], *self._selected(field, codes))
        return self.pack(codes)

    def _depth(self, field: Field) -> int:
        """The number of fields that select one another above this field, which must be known before it."""
        return 1 + self._depth(self.by_name[field.select]) if field.select else 0

    @staticmethod
    def _selected(field: Field, codes: dict[str, NDArray[np.int64]]) -> tuple[NDArray[np.int64], ...]:
        return (codes[field.select][:, 0],) if field.select else ()

    def converters(self, exponents: tuple[int, ...]) -> Iterator[Codes]:
        """The codes that are converted alike, in the order of the network's elements. exponents: one per element; empty means
        zero."""
        firsts, at = dict(zip(self.by_name, self.first_bits, strict=True)), 0
        for field in self.fields:
            if not field.is_input:
                continue
            own = exponents[at : at + field.size] or (0,) * field.size
            at += field.size
            each = [own[i : i + field.per_code] for i in range(0, field.size, field.per_code)]
            first = firsts[field.name]
            for alike, group in groupby(each):
                codes = sum(1 for _ in group)
                yield Codes(field, first, codes, alike, firsts.get(field.select, 0))
                first += codes * field.bits

    def check_tables(self, fixed: FixedPoint) -> None:
        """Raise PackingError for a table that is too large as raw integers of `fixed`."""
        for field in self.fields:
            entries = field.per_code << (field.code_bits + field.select_bits) if field.table or field.one_hot else 0
            if entries * fixed.width > MAX_TABLE_BITS:
                raise PackingError(
                    f"field {field.name!r}: a table of {entries * fixed.width} bits in {fixed}, expected at most "
                    f"{MAX_TABLE_BITS}; use fewer bits, selections or elements"
                )

    def layout(self) -> dict[str, Any]:
        """Return what a client needs to pack rows, as JSON values."""
        selecting = {field.select for field in self.fields}
        fields = [
            {**field.layout(), **({} if field.is_input or field.name in selecting else {"spare": True})}
            for field in self.fields
        ]
        return {"row_bytes": self.row_bytes, "fields": fields}

    def to_json(self) -> list[dict[str, Any]]:
        """Return Field.to_json of each field."""
        return [field.to_json() for field in self.fields]

    @classmethod
    def from_json(cls, value: list[dict[str, Any]]) -> Packing:
        """Read what to_json returned. Raises PackingError, and KeyError for a field without name or bits."""
        if not isinstance(value, list) or not 1 <= len(value) <= MAX_FIELDS:
            raise PackingError(f"packing is {value!r:.80}, expected a list of 1 to {MAX_FIELDS} fields")
        return cls(tuple(Field.from_json(field) for field in value))


def _codes(padded: NDArray[np.uint32], field: Field, first: int) -> NDArray[np.int64]:
    """Codes (rows, count) of a field. padded: rows of bytes with two bytes behind them, which a code's window may cover."""
    at = first + field.bits * np.arange(field.count)
    place = at >> 3
    window = padded[:, place] | padded[:, place + 1] << 8 | padded[:, place + 2] << 16
    codes = (window >> (at & 7).astype(np.uint32) & ((1 << field.bits) - 1)).astype(np.int64)
    return codes - ((codes >> (field.bits - 1)) << field.bits) if field.signed else codes


def _bits(codes: NDArray[np.int64], bits: int) -> NDArray[np.uint8]:
    """The bits (rows, count * bits) of codes (rows, count), low bit first."""
    each = (codes[..., None] >> np.arange(bits)) & 1
    return each.astype(np.uint8).reshape(len(codes), codes.shape[1] * bits)
