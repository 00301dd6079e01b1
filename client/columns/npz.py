# SPDX-License-Identifier: Apache-2.0
"""numpy's files .npy and .npz, and dicts of arrays in memory.

Jagged columns are flat arrays, and a counter as in NanoAOD has the rows of each event: nDigiHB for DigiHB_fc0.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.columns.chunk import Chunk, Column, Counts, cut_events, event_of, split_counters
from hypersonic.client.columns.errors import DataError, OutputError
from hypersonic.client.columns.source import (
    METADATA_KEY,
    FileSource,
    MemorySource,
    events_per_chunk,
    find_columns,
    plain_name,
    reading,
)

#: the column name of an array without a name
ROWS = "rows"

_COPY_BYTES = 1 << 20
_ERRORS = (
    OSError, ValueError, EOFError, KeyError, OverflowError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class DictSource(MemorySource):
    """Arrays in memory by name, or a structured array, or one array of rows, whose column is named "rows"."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]] | NDArray[Any], name: str = "the arrays") -> None:
        self._arrays = _named(arrays)
        self._describe(name, {key: array.shape for key, array in self._arrays.items()})

    def _describe(self, name: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.name, self.columns = name, tuple(shapes)
        self.events: int | None = _count_events(shapes, name)

    def _array(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    def chunks(self, columns: Sequence[str], chunk_bytes: int) -> Iterator[Chunk]:
        """Yield views of the arrays."""
        events, made = self.events or 0, {}
        found = find_columns(columns, self.columns, self.name)
        counters = {name: find_counter(column, self.columns) for name, column in found.items()}
        counts = {name: _counts(self._array(name), name, self.name) for name in set(filter(None, counters.values()))}
        for name, counter in counters.items():
            of_each = None if counter is None else counts[counter]
            values = _whole(self._array(found[name]), name, of_each, self.name)
            _check_length(name, len(values) if values.ndim else 0, events if of_each is None else int(of_each.sum()), self.name)
            made[name] = Column(values, of_each)
        size = sum(column.values.nbytes for column in made.values())
        yield from cut_events(Chunk(0, events, made), events_per_chunk(events, size, chunk_bytes))


class NpySource(FileSource, DictSource):
    """An .npy file, mapped into memory."""

    kind = "npz"

    def __init__(self, path: Path) -> None:
        self._path = path
        with reading(lambda: str(path), _ERRORS):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        super().__init__(array, str(path))


class NpzSource(FileSource, DictSource):
    """An .npz file. Each column is read as a whole, when its chunks are asked for."""

    kind = "npz"

    def __init__(self, path: Path) -> None:
        self._path = path
        with ExitStack() as opened, reading(lambda: str(path), _ERRORS):
            self._zip = opened.enter_context(zipfile.ZipFile(path))
            names = [name.removesuffix(".npy") for name in self._zip.namelist() if name.endswith(".npy")]
            self._describe(str(path), {name: self._shape(name) for name in names if name != METADATA_KEY})
            opened.pop_all()

    def _shape(self, name: str) -> tuple[int, ...]:
        """Return an array's shape. Raises DataError for an array of other than numbers, or not of the size of its shape."""
        with self._zip.open(f"{name}.npy") as file:
            first = np.lib.format.read_magic(file) == (1, 0)
            read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
            size = self._zip.getinfo(f"{name}.npy").file_size - file.tell()
        if dtype.hasobject or dtype.names:
            raise DataError(f"{self._path}: array {name} is {dtype}, expected numbers by rows")
        if size != (expected := prod(shape) * dtype.itemsize):
            raise ValueError(f"array {name} has {size} bytes, expected {expected} for shape {shape} of {dtype}")
        return shape

    def _array(self, name: str) -> NDArray[Any]:
        with reading(lambda: f"{self.name}, column {name}", _ERRORS), self._zip.open(f"{name}.npy") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def close(self) -> None:
        """Close the file."""
        self._zip.close()


def find_counter(name: str, names: Sequence[str]) -> str | None:
    """Return the counter of a column: nDigiHB for DigiHB_fc0 or DigiHB.fc0, or nDigiHB_fc0; None for a flat column."""
    prefix = name
    while prefix:
        if f"n{prefix}" in names:
            return f"n{prefix}"
        prefix = re.sub(r"(^|[\W_])[^\W_]*$", "", prefix)
    return None


def _named(arrays: Mapping[str, NDArray[Any]] | NDArray[Any]) -> dict[str, NDArray[Any]]:
    if isinstance(arrays, Mapping):
        return {
            str(name): array if isinstance(array, np.ma.MaskedArray) else np.asarray(array) for name, array in arrays.items()
        }
    if arrays.dtype.names:
        return {name: arrays[name] for name in arrays.dtype.names}
    return {ROWS: arrays}


def _whole(values: NDArray[Any], name: str, counts: Counts | None, where: str) -> NDArray[Any]:
    """Return a column without its mask. Raises DataError for a masked value."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    masked = np.ma.getmaskarray(values)
    if masked.any():
        row = int(np.argwhere(masked)[0][0])
        raise DataError(f"{where}: event {event_of(counts, row)} has no value in column {name}")
    return values.data


def _count_events(shapes: Mapping[str, tuple[int, ...]], where: str) -> int:
    """The length of the first counter, or of the first array if there is none."""
    names = list(shapes)
    counters = [counter for name in names if (counter := find_counter(name, names))]
    for name in [*counters[:1], *names[:1]]:
        if not shapes[name]:
            raise DataError(f"{where}: array {name} is a single number, expected one per event")
        return shapes[name][0]
    raise DataError(f"{where} has no arrays")


def _counts(counter: NDArray[Any], name: str, where: str) -> NDArray[np.int64]:
    if np.ma.is_masked(counter) or counter.dtype.kind not in "iu" or counter.ndim != 1 or (len(counter) and counter.min() < 0):
        raise DataError(f"{where}: the counter {name} has to be one integer of 0 or more per event")
    return counter.astype(np.int64)


def _check_length(name: str, got: int, expected: int, where: str) -> None:
    if got != expected:
        raise DataError(f"{where}: column {name} has {got} values, expected {expected}")


class NpzSink:
    """Writes an .npz file. Each column is collected in an unnamed temporary file, because its length is written first."""

    def __init__(self, path: Path, metadata: str, collection: str) -> None:
        self._path, self._metadata, self._collection = path, metadata, collection
        self._spools: dict[str, IO[bytes]] = {}
        self._first: dict[str, NDArray[Any]] = {}
        self._lengths: Counter[str] = Counter()

    def write(self, chunk: Chunk) -> None:
        """Append the values, and the counts as the counters' values."""
        columns, counts = split_counters(chunk.columns, self._counter)
        for name, column in columns.items():
            if column.counts is None and (counter := find_counter(name, list(counts))):
                raise OutputError(f"an .npz file cannot have {name} with one value per event beside {counter}; use .parquet")
        for name, array in {**{name: column.values for name, column in columns.items()}, **counts}.items():
            if name not in self._spools:
                self._spools[name] = tempfile.TemporaryFile(dir=self._path.parent)  # noqa: SIM115 - closed by close() or abort()
                self._first[name] = array[:0]
            self._spools[name].write(np.ascontiguousarray(array).data)
            self._lengths[name] += len(array)

    def _counter(self, name: str) -> str:
        inside = self._collection and plain_name(name).startswith(f"{plain_name(self._collection)}_")
        return f"n{self._collection}" if inside else f"n{name}"

    def close(self) -> None:
        """Write the file."""
        with zipfile.ZipFile(self._path, "w", zipfile.ZIP_DEFLATED, compresslevel=1, allowZip64=True) as archive:
            for name, spool in self._spools.items():
                like = self._first[name]
                shape = (self._lengths[name], *like.shape[1:])
                head = {"descr": np.lib.format.dtype_to_descr(like.dtype), "fortran_order": False, "shape": shape}
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array_header_1_0(file, head)
                    spool.seek(0)
                    shutil.copyfileobj(spool, file, _COPY_BYTES)
            with archive.open(f"{METADATA_KEY}.npy", "w") as file:
                np.lib.format.write_array(file, np.array(self._metadata), allow_pickle=False)
        self.abort()

    def abort(self) -> None:
        """Remove the temporary files."""
        for spool in self._spools.values():
            spool.close()


def read_npz_metadata(path: Path) -> str | None:
    """Return the metadata of a file that NpzSink wrote; None for another file."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return str(file[METADATA_KEY]) if METADATA_KEY in file else None
    except _ERRORS:
        return None
