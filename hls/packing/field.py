# SPDX-License-Identifier: Apache-2.0
"""One field of a packed row: its bits on the wire, and what they become."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


class PackingError(ValueError):
    """The fields of a packed row contradict each other, or do not fit their tensor. The message names the field."""


@dataclass(frozen=True)
class Field:
    """`count` codes of `bits` bits each, one after another. A code becomes one of:

    - a number (neither table nor one_hot): the code times 2**-fraction; two's complement if `signed`.
    - an entry of `table`: one tuple for each selection, each with a number for every code. With more than one selection, the
      low bits of the field `select` choose the tuple. Of a code with more than 12 bits the low 12 count.
    - `one_hot` elements: 1 at place code - first, 0 elsewhere; all 0 if there is no such place.

    Numbers are in the wire's units: scale exponents apply to them as to any input. is_input: False for bits that are not given
    to the network, because they only select, or are spare. Raises PackingError.
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
            raise PackingError(f"field {self.name!r} is no input of the network: leave table, one_hot, signed and fraction out")
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
        """What each code becomes: (selections, codes, per_code), in the wire's units; empty for a number."""
        if self.one_hot:
            codes = np.arange(1 << self.bits)[:, None]
            return np.asarray(codes == self.first + np.arange(self.one_hot), np.float64)[None]
        return np.asarray(self.table, np.float64)[..., None]

    def numbers(self, codes: NDArray[np.int64], selected: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Convert codes (rows, count) to numbers in the wire's units (rows, size). selected: codes (rows,) of `select`."""
        if not self.is_input:
            return np.empty((len(codes), 0))
        if not self.table and not self.one_hot:
            return np.asarray(np.ldexp(codes.astype(np.float64), -self.fraction))
        chosen = np.int64(0) if selected is None else (selected & (len(self.table) - 1))[:, None]
        return np.asarray(self.entries[chosen, codes & ((1 << self.code_bits) - 1)]).reshape(len(codes), self.size)

    def nearest(self, numbers: NDArray[np.float64], selected: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the codes (rows, count) whose numbers are nearest to `numbers` (rows, size): the inverse of `numbers`.

        The first of equally near codes. one_hot takes the greatest element; with none above a half, a code that has no place,
        if there is one.
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


def _integer(value: dict[str, Any], name: str, default: int) -> int:
    number = value[name] if name == "bits" else value.get(name, default)
    if not isinstance(number, int) or isinstance(number, bool):
        raise PackingError(f"field {str(value['name'])!r}: {name} is {number!r:.80}, expected an integer")
    return number
