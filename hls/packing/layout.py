# SPDX-License-Identifier: Apache-2.0
"""The layout of a packed row, and how its bytes become an input's numbers.

::

    fields   ieta 6, iphi 7, depth 3       bits 0-5, 6-12, 13-15: two bytes

The fields follow one another without gaps. Bits are little-endian: bit 0 of a row is bit 0 of its byte 0, and a code's low bit
comes first. A row ends with unused bits up to a whole byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: bits of a field, and of a code that a table or one_hot takes
MAX_BITS, MAX_CODE_BITS = 16, 12
#: numbers in one table, over all selections
MAX_ENTRIES = 1 << 14
#: elements that one code becomes by one_hot
MAX_ONE_HOT = 256
#: codes in one field: a manifest is checked before memory is taken
MAX_COUNT = 1 << 22
#: fraction bits of a number, in either direction
MAX_FRACTION = 64
#: fields in one row
MAX_FIELDS = 256
#: bits of one converter's table as raw integers
MAX_TABLE_BITS = 1 << 19


class PackingError(ValueError):
    """The fields of a packed row contradict each other, or do not fit their tensor. The message names the field."""


@dataclass(frozen=True)
class Field:
    """`count` codes of `bits` bits each, one after another. A code becomes one of:

    - a number (neither table nor one_hot): the code times 2**-fraction; two's complement if `signed`.
    - an entry of `table`: one tuple for each selection, each with a number for every code. With more than one selection, the
      low bits of the field `select` choose the tuple. Only the low 12 bits of a wider code are used.
    - `one_hot` elements: the one at index code - first is 1, the others 0; all are 0 if it is out of range.

    Numbers are in the wire's units: scale exponents apply to them as to any input.

    Attributes:
        is_input: False for bits that are not given to the network, because they only select, or are spare. Raises PackingError.
    """

    name: str
    bits: int
    count: int = 1
    signed: bool = False
    fraction: int = 0
    table: tuple[tuple[float, ...], ...] = ()
    select: str = ""
    one_hot: int = 0
    first: int = 0
    is_input: bool = True

    def __post_init__(self) -> None:
        if not self.name.isprintable() or not self.name:
            raise PackingError(f"a field's name is {self.name!r}, expected printable text")
        for what, value, low, high in (
            ("bits", self.bits, 1, MAX_BITS),
            ("count", self.count, 1, MAX_COUNT),
            ("fraction", self.fraction, -MAX_FRACTION, MAX_FRACTION),
            ("one_hot", self.one_hot, 0, MAX_ONE_HOT),
            ("first", self.first, 0, (1 << MAX_CODE_BITS) - 1),
        ):
            if not low <= value <= high:
                raise PackingError(f"field {self.name!r}: {what} is {value}, expected {low} to {high}")
        self._check_kind()
        if self.table:
            self._check_table()

    def _check_kind(self) -> None:
        kinds = [kind for kind, given in (("table", self.table), ("one_hot", self.one_hot)) if given]
        if len(kinds) > 1:
            raise PackingError(f"field {self.name!r} has both table and one_hot, expected one of them")
        if kinds and (self.signed or self.fraction):
            given = "signed" if self.signed else "fraction"
            raise PackingError(f"field {self.name!r} has {kinds[0]} and {given}: {given} belongs to a field that is a number")
        if self.one_hot and self.bits > MAX_CODE_BITS:
            raise PackingError(f"field {self.name!r}: one_hot of {self.bits} bits, expected at most {MAX_CODE_BITS}")
        if self.first and not self.one_hot:
            raise PackingError(f"field {self.name!r} has first without one_hot: add one_hot, the number of elements")
        if not self.is_input and (kinds or self.signed or self.fraction):
            raise PackingError(
                f"field {self.name!r} is not an input of the network: leave table, one_hot, signed and fraction out"
            )
        if bool(self.select) != (len(self.table) > 1):
            raise PackingError(
                f"field {self.name!r}: a table of {len(self.table)} selections and select {self.select or 'missing'}, expected "
                "select with a table of 2 selections or more, and only there"
            )

    def _check_table(self) -> None:
        codes, selections = 1 << self.code_bits, len(self.table)
        lengths = sorted({len(numbers) for numbers in self.table})
        if lengths != [codes]:
            raise PackingError(
                f"field {self.name!r}: a table of {', '.join(map(str, lengths))} numbers, expected {codes}, one for each code "
                f"of {self.code_bits} bits"
            )
        if selections & (selections - 1):
            raise PackingError(f"field {self.name!r}: a table of {selections} selections, expected a power of two")
        if codes * selections > MAX_ENTRIES:
            raise PackingError(f"field {self.name!r}: a table of {codes * selections} numbers, expected at most {MAX_ENTRIES}")
        if not all(isfinite(number) for numbers in self.table for number in numbers):
            raise PackingError(f"field {self.name!r}: the table holds numbers that are not finite")

    @property
    def code_bits(self) -> int:
        """Bits of a code that address its table."""
        return min(self.bits, MAX_CODE_BITS)

    @property
    def select_bits(self) -> int:
        """Low bits of the selecting field that choose the tuple of the table."""
        return (len(self.table) - 1).bit_length() if self.table else 0

    @property
    def per_code(self) -> int:
        """Elements of the network's input that one code becomes."""
        return (self.one_hot or 1) if self.is_input else 0

    @property
    def size(self) -> int:
        """Elements of the network's input that the field becomes."""
        return self.count * self.per_code

    @property
    def allowed(self) -> tuple[int, int]:
        """The smallest and the largest code."""
        return (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) if self.signed else (0, (1 << self.bits) - 1)

    @cached_property
    def entries(self) -> NDArray[np.float64]:
        """The numbers that each code becomes: (selections, codes, per_code), in the wire's units; empty for a number."""
        if self.one_hot:
            codes = np.arange(1 << self.bits)[:, None]
            return np.asarray(codes == self.first + np.arange(self.one_hot), np.float64)[None]
        return np.asarray(self.table, np.float64)[..., None]

    def numbers(self, codes: NDArray[np.int64], selected: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Convert codes (rows, count) to numbers in the wire's units (rows, size).

        Args:
            selected: codes (rows,) of `select`.
        """
        if not self.is_input:
            return np.empty((len(codes), 0))
        if not self.table and not self.one_hot:
            return np.asarray(np.ldexp(codes.astype(np.float64), -self.fraction))
        chosen = np.int64(0) if selected is None else (selected & (len(self.table) - 1))[:, None]
        return np.asarray(self.entries[chosen, codes & ((1 << self.code_bits) - 1)]).reshape(len(codes), self.size)

    def nearest(self, numbers: NDArray[np.float64], selected: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the codes (rows, count) whose numbers are nearest to `numbers` (rows, size): the inverse of `numbers`.

        Of equally near codes, the first is returned. For one_hot, the greatest element decides; if none is above a half, the
        code is one that sets no element, if there is such a code.
        """
        rows = len(numbers)
        if not self.is_input:
            return np.zeros((rows, self.count), np.int64)
        if self.one_hot:
            places = numbers.reshape(rows, self.count, self.one_hot)
            low, high = self.first, self.first + self.one_hot
            nowhere = 0 if low else min(high, (1 << self.bits) - 1)
            return np.where(places.max(axis=2) > 0.5, places.argmax(axis=2) + self.first, nowhere).clip(*self.allowed)
        if not self.table:
            return np.rint(np.ldexp(numbers, self.fraction)).clip(*self.allowed).astype(np.int64)
        codes = np.empty((rows, self.count), np.int64)
        chosen = np.zeros(rows, np.int64) if selected is None else selected & (len(self.table) - 1)
        for selection, entries in enumerate(self.entries[..., 0]):
            here = np.flatnonzero(chosen == selection)
            order = np.argsort(entries, kind="stable")
            ordered = entries[order]
            above = np.searchsorted(ordered, numbers[here]).clip(1, len(order) - 1)
            nearer = numbers[here] - ordered[above - 1] <= ordered[above] - numbers[here]
            # the first of equal numbers, because searchsorted looks from the left
            codes[here] = order[np.searchsorted(ordered, ordered[np.where(nearer, above - 1, above)])]
        return codes

    def layout(self) -> dict[str, Any]:
        """Return what a client needs to pack the field, as JSON values: defaults are left out."""
        kind = {"one_hot": self.one_hot, "first": self.first} if self.one_hot else {}
        kind |= {"signed": True} if self.signed else {}
        kind |= {"fraction": self.fraction} if self.fraction else {}
        return {"name": self.name, "bits": self.bits, **({"count": self.count} if self.count > 1 else {}), **kind}

    def to_json(self) -> dict[str, Any]:
        """Return the field as JSON values."""
        table = {"table": [list(numbers) for numbers in self.table]} if self.table else {}
        select = {"select": self.select} if self.select else {}
        return {**self.layout(), **table, **select, **({} if self.is_input else {"input": False})}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Field:
        """Read what to_json returned. Raises PackingError, and KeyError for a missing name or bits."""
        return cls(
            name=str(value["name"]),
            bits=_integer(value, "bits", 0),
            count=_integer(value, "count", 1),
            signed=bool(value.get("signed", False)),
            fraction=_integer(value, "fraction", 0),
            table=tuple(tuple(float(number) for number in numbers) for numbers in value.get("table", ())),
            select=str(value.get("select", "")),
            one_hot=_integer(value, "one_hot", 0),
            first=_integer(value, "first", 0),
            is_input=bool(value.get("input", True)),
        )


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
        """Return the codes (rows, count) int64 of each field.

        Args:
            data: (rows, row_bytes) uint8.
        """
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

    def check_tables(self, width: int) -> None:
        """Raise PackingError for a table that is too large as raw integers of `width` bits."""
        for field in self.fields:
            entries = field.per_code << (field.code_bits + field.select_bits) if field.table or field.one_hot else 0
            if entries * width > MAX_TABLE_BITS:
                raise PackingError(
                    f"field {field.name!r}: a table of {entries * width} bits, expected at most "
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
    """Codes (rows, count) of a field.

    Args:
        padded: rows of bytes with two bytes behind them, which a code's window may cover.
    """
    at = first + field.bits * np.arange(field.count)
    place = at >> 3
    window = padded[:, place] | padded[:, place + 1] << 8 | padded[:, place + 2] << 16
    codes = (window >> (at & 7).astype(np.uint32) & ((1 << field.bits) - 1)).astype(np.int64)
    return codes - ((codes >> (field.bits - 1)) << field.bits) if field.signed else codes


def _bits(codes: NDArray[np.int64], bits: int) -> NDArray[np.uint8]:
    """The bits (rows, count * bits) of codes (rows, count), low bit first."""
    each = (codes[..., None] >> np.arange(bits)) & 1
    return each.astype(np.uint8).reshape(len(codes), codes.shape[1] * bits)


def _integer(value: dict[str, Any], name: str, default: int) -> int:
    number = value[name] if name == "bits" else value.get(name, default)
    if not isinstance(number, int) or isinstance(number, bool):
        raise PackingError(f"field {str(value['name'])!r}: {name} is {number!r:.80}, expected an integer")
    return number
