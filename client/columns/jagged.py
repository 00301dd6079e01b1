# SPDX-License-Identifier: Apache-2.0
"""Awkward arrays as columns and back. It is the only module that imports awkward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import shorten
from typing import Any

import awkward as ak
import numpy as np

from hypersonic.client.columns.chunk import Chunk, Column, cut_events, event_of
from hypersonic.client.columns.errors import DataError
from hypersonic.client.columns.source import MemorySource, events_per_chunk, find_columns


class AwkwardSource(MemorySource):
    """An awkward array of records in memory. Its columns are its fields, and the fields of lists of records."""

    def __init__(self, array: ak.Array, name: str = "the array") -> None:
        self._array, self.name = array, name
        self._paths = _paths(array)
        self.columns = tuple(self._paths)
        self.events: int | None = len(array)

    def chunks(self, columns: Sequence[str], chunk_bytes: int) -> Iterator[Chunk]:
        """Yield views of the array."""
        events = len(self._array)
        made = {name: self._column(column, name) for name, column in find_columns(columns, self.columns, self.name).items()}
        size = sum(column.values.nbytes for column in made.values())
        yield from cut_events(Chunk(0, events, made), events_per_chunk(events, size, chunk_bytes))

    def _column(self, column: str, name: str) -> Column:
        """Return a column of all events, whose name in messages is `name`."""
        part = self._array
        for field in self._paths[column]:
            part = part[field]
        return to_column(part, name, self.name, 0)


def _paths(array: ak.Array) -> dict[str, tuple[str, ...]]:
    """The fields, and the fields of fields, by the names of their columns."""
    paths: dict[str, tuple[str, ...]] = {}
    for field in ak.fields(array):
        parts: list[tuple[str, ...]] = [(field, part) for part in ak.fields(array[field])]
        for path in parts or [(field,)]:
            paths.setdefault("_".join(path), path)
    return paths


def to_column(array: ak.Array, name: str, file: str, first: int) -> Column:
    """Return a column without a copy, if the array has its numbers in order.

    Args:
        first: the number of the first event, for messages.

    Raises:
        DataError: For missing values and for what is not numbers.
    """
    if not _has_numbers(array.type.content):
        kind = shorten(str(array.type.content), 100)
        raise DataError(f"{file}: column {name} is of type {kind}, expected numbers or lists of them")
    if (missing := np.asarray(ak.is_none(array, axis=0))).any():
        raise DataError(f"{file}: event {first + int(np.argmax(missing))} has no value in column {name}")
    array, counts = ak.drop_none(array, axis=0), None
    if isinstance(array.type.content, ak.types.ListType):
        counts = ak.to_numpy(ak.num(array, axis=1)).astype(np.int64)
        array = ak.flatten(array, axis=1)
    if (missing := np.asarray(ak.is_none(array, axis=0))).any():
        event = first + event_of(counts, int(np.argmax(missing)))
        raise DataError(f"{file}: event {event} has no value in column {name}")
    return Column(ak.to_numpy(ak.drop_none(array, axis=0), allow_missing=False), counts)


def _has_numbers(kind: ak.types.Type) -> bool:
    """Return whether the type of an event is a number, or a list of numbers or of arrays of them; strings are lists too."""
    if isinstance(kind := _without_none(kind), ak.types.ListType) and not _is_text(kind):
        kind = _without_none(kind.content)
    while isinstance(kind, ak.types.RegularType) and not _is_text(kind):
        kind = kind.content
    return isinstance(kind, ak.types.NumpyType)


def _is_text(kind: ak.types.Type) -> bool:
    return kind.parameters.get("__array__") in {"string", "bytestring"}


def _without_none(kind: ak.types.Type) -> ak.types.Type:
    return kind.content if isinstance(kind, ak.types.OptionType) else kind


def from_column(column: Column) -> Any:
    """Return a column as an awkward array if it is jagged, otherwise as the numpy array."""
    return column.values if column.counts is None else ak.unflatten(column.values, column.counts)


def make_record(columns: Mapping[str, Column]) -> ak.Array:
    """Return lists of records: one jagged array with the columns as fields. They have equal counts."""
    values = ak.Array({name: column.values for name, column in columns.items()})
    return ak.unflatten(values, next(iter(columns.values())).counts)


def make_array(columns: Mapping[str, Column]) -> ak.Array:
    """Return an array of events with the columns as fields."""
    return ak.Array({name: from_column(column) for name, column in columns.items()})


def is_awkward(value: object) -> bool:
    """Return whether the value is an awkward array."""
    return isinstance(value, ak.Array)
