# SPDX-License-Identifier: Apache-2.0
"""Columns to rows: the array that a request sends, from the columns of a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.columns.chunk import Chunk, Column, Counts, event_of
from hypersonic.client.columns.errors import DataError, MappingError
from hypersonic.client.columns.mapping import Block, ColumnMapping, Constant, Feature, FromColumn, FromTable, OneHot


@dataclass(frozen=True)
class Rows:
    """The rows of some events.

    Attributes:
        array: (rows, features), C-contiguous.
        counts: the rows of each event, before the filter; None: one each.
        sent: the indices of the rows that pass the filter; None: all.
        kept: columns to write unchanged.
        first, events: as in Chunk.
    """

    first: int
    events: int
    array: NDArray[Any]
    counts: Counts | None
    sent: NDArray[np.intp] | None
    kept: dict[str, Column]

    @property
    def total(self) -> int:
        """The rows before the filter."""
        return self.events if self.counts is None else int(self.counts.sum())


def make_rows(mapping: ColumnMapping, chunk: Chunk, dtype: np.dtype, file: str, keep: Sequence[str] = ()) -> Rows:
    """Return the rows of a chunk: a view of a column with all features, otherwise a new array of the dtype.

    Args:
        file: for messages.
        keep: columns to take along.

    Raises:
        DataError: Which names the column, the event and the file.
    """
    chunk = _as_lists(mapping, chunk)
    where = _Where(mapping, chunk, file)
    counts = where.check_shapes()
    for name in keep:
        where.check_numbers(name)
    sent = where.filter()
    array = _view(mapping, chunk, dtype) if sent is None else None
    if array is None:
        array = _fill(where, dtype, sent)
    if mapping.finite and array.dtype.kind == "f":
        where.check_finite(array, sent)
    return Rows(chunk.first, chunk.events, array, counts, sent, {name: chunk.columns[name] for name in keep})


def _as_lists(mapping: ColumnMapping, chunk: Chunk) -> Chunk:
    """The chunk with lists of one length as lists of any: they are rows, unless the mapping has them as a block."""
    blocks = {mapping.full_name(feature.column) for feature in mapping.features if isinstance(feature, Block)}
    columns = dict(chunk.columns)
    for name in set(mapping.columns) - blocks:
        values = columns[name].values
        if columns[name].counts is None and values.ndim == 2:
            columns[name] = Column(values.reshape(-1), np.full(len(values), values.shape[1], np.int64))
    return replace(chunk, columns=columns)


@dataclass(frozen=True)
class _Where:
    """A chunk, with the mapping and the file that its errors name."""

    mapping: ColumnMapping
    chunk: Chunk
    file: str

    def column(self, name: str) -> Column:
        return self.chunk.columns[self.mapping.full_name(name)]

    def check_shapes(self) -> Counts | None:
        """Return the counts, which all columns have in common."""
        first = self.mapping.columns[0]
        counts = self.chunk.columns[first].counts
        jagged = bool(self.mapping.collection) or counts is not None
        for name in self.mapping.columns:
            column = self.chunk.columns[name]
            if (column.counts is not None) != jagged:
                got, expected = ("one value", "a list") if jagged else ("a list", "one value")
                of = self.mapping.collection
                reason = f"because the mapping is of collection {of}" if of else f"as column {first} has"
                raise DataError(f"{self.file}: column {name} has {got} per event, expected {expected}, {reason}")
            self.check_numbers(name)
            self._check_width(name, column)
            if counts is not None and column.counts is not None and not np.array_equal(counts, column.counts):
                event = int(np.argmax(counts != column.counts))
                raise DataError(
                    f"{self.file}: event {self.chunk.first + event} has {column.counts[event]} values in column {name} and "
                    f"{counts[event]} in {first}, expected equal numbers in a collection"
                )
        return counts

    def check_numbers(self, name: str) -> None:
        """Raise DataError for a column of anything else, such as texts of numpy."""
        if (dtype := self.chunk.columns[name].values.dtype).kind not in "biuf":
            raise DataError(f"{self.file}: column {name} is of type {dtype}, expected numbers")

    def _check_width(self, name: str, column: Column) -> None:
        width = next(
            (f.width for f in self.mapping.features if isinstance(f, Block) and self.mapping.full_name(f.column) == name), 0
        )
        got = prod(column.values.shape[1:]) if column.values.ndim > 1 else 0
        if got != width:
            words = [f"{n} numbers" if n else "one number" for n in (got, width)]
            raise DataError(f"{self.file}: column {name} has {words[0]} per row, and the mapping says {words[1]}")

    def filter(self) -> NDArray[np.intp] | None:
        """Return the places of the rows that are sent; None if all of them are. Raises DataError."""
        if not self.mapping.filter:
            return None
        values = self.column(self.mapping.filter).values
        if values.dtype.kind not in "biu":
            name = self.mapping.full_name(self.mapping.filter)
            raise DataError(f"{self.file}: column {name} is {values.dtype}, expected booleans or integers for a filter")
        mask = values != 0
        return None if mask.all() else np.flatnonzero(mask)

    def event(self, row: int, sent: NDArray[np.intp] | None, column: str) -> int:
        """Return the number of the event that has a row of the array."""
        counts = self.chunk.columns[column].counts
        return self.chunk.first + event_of(counts, row if sent is None else int(sent[row]))

    def check_finite(self, array: NDArray[Any], sent: NDArray[np.intp] | None) -> None:
        if np.isfinite(array).all():
            return
        row, place = (int(n) for n in np.argwhere(~np.isfinite(array))[0])
        label = list(self.mapping.labels())[place]
        event = self.event(row, sent, self.mapping.columns[0])
        raise DataError(
            f"{self.file}: event {event} has {array[row, place]} in {label}, and the model takes finite numbers only"
        )


def _view(mapping: ColumnMapping, chunk: Chunk, dtype: np.dtype) -> NDArray[Any] | None:
    """The rows as a view of the only column, if that is possible."""
    if len(mapping.features) != 1 or not isinstance(mapping.features[0], Block):
        return None
    values = chunk.columns[mapping.full_name(mapping.features[0].column)].values
    return values.reshape(len(values), -1) if values.dtype == dtype and values.flags.c_contiguous else None


def _fill(where: _Where, dtype: np.dtype, sent: NDArray[np.intp] | None) -> NDArray[Any]:
    mapping, chunk = where.mapping, where.chunk
    rows = chunk.events if not mapping.columns else len(chunk.columns[mapping.columns[0]].values)
    array = np.empty((rows if sent is None else len(sent), mapping.width), dtype)
    begin = 0
    with np.errstate(over="ignore", invalid="ignore"):  # _lost() finds what the dtype does not hold
        for feature in mapping.features:
            _fill_feature(where, feature, array, begin, sent)
            begin += feature.width
    return array


def _fill_feature(where: _Where, feature: Feature, array: NDArray[Any], begin: int, sent: NDArray[np.intp] | None) -> None:
    """Write a feature's columns of the array, from `begin` on."""

    def values(name: str) -> NDArray[Any]:
        whole = where.column(name).values
        return whole if sent is None else whole[sent]

    match feature:
        case FromColumn(name):
            _assign(where, name, array[:, begin], values(name), sent)
        case Block(name):
            into = array[:, begin : begin + feature.width]
            _assign(where, name, into, values(name).reshape(into.shape), sent)
        case OneHot(name, ones):
            _one_hot(array, begin, ones, values(name))
        case Constant(value):
            array[:, begin] = _constant(where, value, array.dtype)
        case FromTable(table):
            keys = [values(name) for name in table.keys]
            for name, key in zip(table.keys, keys, strict=True):
                if key.dtype.kind not in "biu":
                    raise DataError(
                        f"{where.file}: column {where.mapping.full_name(name)} is {key.dtype}, expected integers for a key"
                    )
            numbers, missing = table.look_up(keys)
            array[:, begin] = numbers
            row = missing if missing >= 0 else _lost(array[:, begin], numbers)
            if row >= 0:
                words = ", ".join(f"{name} {key[row]}" for name, key in zip(table.keys, keys, strict=True))
                event = where.event(row, sent, where.mapping.full_name(table.keys[0]))
                why = "does not have" if missing >= 0 else f"has as {numbers[row]}, and the model takes {array.dtype}"
                raise DataError(f"{where.file}: event {event} has a row of {words}, which the table {table.path} {why}")


def _assign(where: _Where, name: str, into: NDArray[Any], values: NDArray[Any], sent: NDArray[np.intp] | None) -> None:
    """Copy values, converted if the dtypes are of the same kind. A number that the model's dtype does not hold is refused."""
    full = where.mapping.full_name(name)
    if not np.can_cast(values.dtype, into.dtype, "same_kind") and not (values.dtype.kind == "u" and into.dtype.kind == "i"):
        raise DataError(f"{where.file}: column {full} is of type {values.dtype}, and the model takes {into.dtype}")
    into[...] = values
    if (row := _lost(into, values)) >= 0:
        event = where.event(row, sent, full)
        raise DataError(
            f"{where.file}: event {event} has {values[row]} in column {full}, which does not fit the model's {into.dtype}"
        )


def _lost(into: NDArray[Any], values: NDArray[Any]) -> int:
    """Return the first row with another integer than its value, or with infinity for a finite one; -1 if there is none."""
    if np.can_cast(values.dtype, into.dtype, "safe"):
        return -1
    lost = into != values if into.dtype.kind in "iu" else np.isinf(into)
    if into.dtype.kind == "f" and lost.any():
        lost &= np.isfinite(values)
    return int(np.argwhere(lost)[0][0]) if lost.any() else -1


def _constant(where: _Where, value: float, dtype: np.dtype) -> NDArray[Any]:
    """Return a constant in the model's dtype. Raises MappingError if the dtype does not hold it."""
    given = np.array([value], np.float64)
    made = given.astype(dtype)
    if _lost(made, given) >= 0:
        raise MappingError(f"{where.mapping.name}: the constant {value} does not fit the model's {dtype}")
    return made


def _one_hot(array: NDArray[Any], begin: int, ones: tuple[int, ...], values: NDArray[Any]) -> None:
    if values.dtype.kind in "iu" and ones == tuple(range(ones[0], ones[0] + len(ones))):
        array[:, begin : begin + len(ones)] = 0
        place = values.astype(np.int64) - ones[0]
        hit = (place >= 0) & (place < len(ones))
        at = np.arange(begin, begin + array.size, array.shape[1]) + place
        np.put(array, at if hit.all() else at[hit], 1)  # cheaper than one comparison of the column for each value
        return
    for column, one in enumerate(ones, begin):
        array[:, column] = values == one
