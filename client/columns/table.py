# SPDX-License-Identifier: Apache-2.0
"""Tables that give a number for one or several integers, such as the gain of a channel by ieta, iphi and depth."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.columns.errors import MappingError, suggest


@dataclass(frozen=True, eq=False)
class Table:
    """A table in memory.

    lowest, strides: of the keys, which are packed into one integer each.

    Attributes:
        path: its file.
        keys: the names of its key columns.
        value: the name of the value's column.
        packed: sorted.
        numbers: in the same order.
        digest: of the file's bytes.
    """

    path: str
    keys: tuple[str, ...]
    value: str
    lowest: NDArray[np.int64]
    spans: NDArray[np.int64]
    packed: NDArray[np.int64]
    numbers: NDArray[np.float64]
    digest: str

    def look_up(self, columns: Sequence[NDArray[Any]]) -> tuple[NDArray[np.float64], int]:
        """Return the numbers for the rows of the key columns, and the first row that the table does not have; -1 if none."""
        packed = np.zeros(len(columns[0]), np.int64)
        inside = np.ones(len(packed), np.bool_)
        for column, low, span in zip(columns, self.lowest, self.spans, strict=True):
            place = column.astype(np.int64) - low
            inside &= (place >= 0) & (place < span)
            packed = packed * span + place
        at = np.minimum(np.searchsorted(self.packed, packed), len(self.packed) - 1)
        inside &= self.packed[at] == packed
        return self.numbers[at], -1 if inside.all() else int(np.argmin(inside))


def read_table(path: Path, keys: Sequence[str], value: str) -> Table:
    """Read a CSV file whose first line has the column names. Keys are integers, values are numbers.

    Raises MappingError for a missing column, a cell that is not such a number, two lines with equal keys, and no lines.
    """
    try:
        data = path.read_bytes()
        lines = list(csv.reader(data.decode().splitlines(), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MappingError(f"the table {path} cannot be read: {error}") from error
    head = [cell.strip() for cell in lines[0]] if lines else []
    for name in (*keys, value):
        if head.count(name) != 1:
            what = "no column" if name not in head else "several columns"
            raise MappingError(f"the table {path} has {what} {name!r}; {suggest(name, head)}")
    places = [head.index(name) for name in (*keys, value)]
    rows = [(number, [*line]) for number, line in enumerate(lines[1:], 2) if line]
    if not rows:
        raise MappingError(f"the table {path} has no lines")
    cells = [_cells(path, number, line, places) for number, line in rows]
    integers = np.array([cell[0] for cell in cells], np.int64).reshape(len(cells), len(keys))
    lowest, spans = integers.min(axis=0), integers.max(axis=0) - integers.min(axis=0) + 1
    if np.prod(spans.astype(np.float64)) > 2.0**62:
        raise MappingError(f"the keys of the table {path} span too many combinations: {spans.tolist()}")
    packed = np.zeros(len(cells), np.int64)
    for place, span in zip((integers - lowest).T, spans, strict=True):
        packed = packed * span + place
    order = np.argsort(packed, kind="stable")
    if (twice := np.flatnonzero(np.diff(packed[order]) == 0)).size:
        number, line = rows[order[twice[0] + 1]]
        raise MappingError(f"line {number} of the table {path} has the keys of an earlier line: {','.join(line)}")
    numbers = np.array([cell[1] for cell in cells])[order]
    digest = hashlib.sha256(data).hexdigest()
    return Table(str(path), tuple(keys), value, lowest, spans, packed[order], numbers, digest)


def _cells(path: Path, number: int, line: Sequence[str], places: Sequence[int]) -> tuple[list[int], float]:
    try:
        *keys, value = (line[place] for place in places)
        integers = [int(key) for key in keys]
        if any(abs(key) >= 1 << 62 for key in integers):
            raise OverflowError("a key does not fit 62 bits")  # noqa: TRY301 - one sentence for all of them
        return integers, float(value)
    except (IndexError, ValueError, OverflowError) as error:
        raise MappingError(
            f"line {number} of the table {path} is not {len(places) - 1} integers and a number: {line}"
        ) from error
