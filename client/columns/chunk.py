# SPDX-License-Identifier: Apache-2.0
"""Columns of some consecutive events, as numpy arrays: what every reader makes and every writer takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.columns.errors import OutputError

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Column:
    """The values of a column.

    Attributes:
        values: (rows,), or (rows, width) for a column with several numbers per row.
        counts: the rows of each event for a jagged column; None for a flat one, which has one row per event.
    """

    values: NDArray[Any]
    counts: Counts | None = None

    @property
    def events(self) -> int:
        """The number of events."""
        return len(self.values) if self.counts is None else len(self.counts)

    def cut(self, begin: int, end: int) -> Column:
        """Return events begin to end, as views."""
        if self.counts is None:
            return Column(self.values[begin:end])
        before = int(self.counts[:begin].sum())
        counts = self.counts[begin:end]
        return Column(self.values[before : before + int(counts.sum())], counts)


@dataclass(frozen=True)
class Chunk:
    """Consecutive events of a file.

    Attributes:
        first: the number of the first one, from 0.
        columns: by name, all of `events` events.
    """

    first: int
    events: int
    columns: Mapping[str, Column]


def split_counters(columns: Mapping[str, Column], counter: Callable[[str], str]) -> tuple[dict[str, Column], dict[str, Counts]]:
    """Return the columns without those that are counters in the file, and the counters.

    Args:
        counter: gives the name of a jagged column's counter; those of a collection have one in common.

    Raises:
        OutputError: For columns with one counter and different counts, and for a column with a counter's name and other values.
    """
    counts: dict[str, Counts] = {}
    for name, column in columns.items():
        if column.counts is not None and not np.array_equal(counts.setdefault(counter(name), column.counts), column.counts):
            raise OutputError(f"the output cannot have the column {name}: its collection has other counts there; use .parquet")
    for name in counts.keys() & columns.keys():
        if columns[name].counts is not None or not np.array_equal(columns[name].values, counts[name]):
            raise OutputError(f"the output cannot have the column {name}: that is the name of a counter there; use .parquet")
    return {name: column for name, column in columns.items() if name not in counts}, counts


def event_of(counts: Counts | None, row: int) -> int:
    """Return the place of the event that has this row, from 0."""
    return row if counts is None else int(np.searchsorted(np.cumsum(counts), row, side="right"))


def cut_events(chunk: Chunk, events: int) -> Iterator[Chunk]:
    """Yield the chunk in parts of at most this many events, as views."""
    for begin in range(0, chunk.events, events):
        end = min(begin + events, chunk.events)
        columns = {name: column.cut(begin, end) for name, column in chunk.columns.items()}
        yield replace(chunk, first=chunk.first + begin, events=end - begin, columns=columns)
