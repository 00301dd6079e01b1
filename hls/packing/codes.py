# SPDX-License-Identifier: Apache-2.0
"""The codes of a packed row as the kernel's converters take them, and their tables as raw integers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.packing.layout import Field, Packing


@dataclass(frozen=True)
class Codes:
    """Consecutive codes of one field that are converted alike: what one converter of the kernel takes.

    Attributes:
        first_bit: of the first code in the row.
        codes: their number.
        exponents: the scale exponents of the elements of one code.
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


def converters(packing: Packing, exponents: tuple[int, ...]) -> Iterator[Codes]:
    """The codes that are converted alike, in the order of the network's elements.

    Args:
        exponents: one per element; empty means zero.
    """
    firsts, at = dict(zip(packing.by_name, packing.first_bits, strict=True)), 0
    for field in packing.fields:
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
