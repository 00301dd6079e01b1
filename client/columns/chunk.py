# SPDX-License-Identifier: Apache-2.0
"""Columns of some consecutive events, as numpy arrays: what every reader makes and every writer takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def event_of(counts: Counts | None, row: int) -> int:
    """Return the place of the event that has this row, from 0."""
    return row if counts is None else int(np.searchsorted(np.cumsum(counts), row, side="right"))


def cut_events(chunk: Chunk, events: int) -> Iterator[Chunk]:
    """Yield the chunk in parts of at most this many events, as views."""
    for begin in range(0, chunk.events, events):
        end = min(begin + events, chunk.events)
        columns = {name: column.cut(begin, end) for name, column in chunk.columns.items()}
        yield replace(chunk, first=chunk.first + begin, events=end - begin, columns=columns)
