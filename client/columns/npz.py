# SPDX-License-Identifier: Apache-2.0
"""numpy's files .npy and .npz, and dicts of arrays in memory.

Jagged columns are flat arrays, and a counter as in NanoAOD has the rows of each event: nDigiHB for DigiHB_fc0.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.columns.chunk import Chunk, Column, cut_events
from hypersonic.client.columns.errors import DataError
from hypersonic.client.columns.source import METADATA_KEY, events_per_chunk, file_identity, unreadable

#: the column name of an array without a name
ROWS = "rows"

_COPY_BYTES = 1 << 20
_ERRORS = (OSError, ValueError, EOFError, KeyError, OverflowError, RuntimeError, zipfile.BadZipFile, zlib.error)


class DictSource:
    """Arrays in memory by name, or a structured array, or one array of rows, whose column is named "rows"."""

    kind = "memory"

    def __init__(self, arrays: Mapping[str, NDArray[Any]] | NDArray[Any], name: str = "the arrays") -> None:
        self.name, self._arrays = name, _named(arrays)
        self.columns = tuple(self._arrays)
        self.events: int | None = _count_events({key: array.shape for key, array in self._arrays.items()}, name)

    def chunks(self, columns: Sequence[str], chunk_bytes: int) -> Iterator[Chunk]:
        """Yield views of the arrays."""
        events, made = self.events or 0, {}
        for name in columns:
            counter, values = find_counter(name, self.columns), self._arrays[name]
            counts = None if counter is None else _counts(self._arrays[counter], counter, self.name)
            _check_length(name, len(values), events if counts is None else int(counts.sum()), self.name)
            made[name] = Column(values, counts)
        size = sum(column.values.nbytes for column in made.values())
        yield from cut_events(Chunk(0, events, made), events_per_chunk(events, size, chunk_bytes))

    def identity(self) -> str:
        """Return the same text for all arrays: arrays in memory are not distinguished."""
        return "memory"

    def close(self) -> None:
        """Do nothing."""


class NpySource(DictSource):
    """An .npy file, mapped into memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError as error:
            raise DataError(f"{path}: there is no such file") from error
        except _ERRORS as error:
            raise unreadable(str(path), error) from error
        super().__init__(array, str(path))
        self.kind = "npz"

    def identity(self) -> str:
        """Return the file's size and a hash of its two ends."""
        return file_identity(self._path)


class NpzSource:
    """An .npz file. Its arrays are read in parts, compressed or not."""

    kind = "npz"

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        try:
            self._zip = zipfile.ZipFile(path)
        except FileNotFoundError as error:
            raise DataError(f"{path}: there is no such file") from error
        except _ERRORS as error:
            raise unreadable(self.name, error) from error
        try:
            heads = self._read_heads()
            self.columns = tuple(heads)
            self.events: int | None = _count_events({name: head.shape for name, head in heads.items()}, self.name)
        except DataError:
            self._zip.close()
            raise
        except _ERRORS as error:
            self._zip.close()
            raise unreadable(self.name, error) from error
        self._heads = heads

    def chunks(self, columns: Sequence[str], chunk_bytes: int) -> Iterator[Chunk]:
        """Decompress and yield the columns."""
        events, first = self.events or 0, 0
        counters = {name: find_counter(name, self.columns) for name in columns}
        wanted = dict.fromkeys([*columns, *filter(None, counters.values())])
        size = sum(self._heads[name].nbytes for name in wanted)
        step = events_per_chunk(events, size, chunk_bytes)
        open_files: dict[str, _Array] = {}
        try:
            open_files.update({name: self._open(name) for name in wanted})
            while first < events:
                number = min(step, events - first)
                counts = {
                    name: _counts(open_files[name].read(number), name, self.name)
                    for name in set(filter(None, counters.values()))
                }
                made = {}
                for name, counter in counters.items():
                    if name in counts:
                        made[name] = Column(counts[name])
                        continue
                    rows = number if counter is None else int(counts[counter].sum())
                    made[name] = Column(open_files[name].read(rows), None if counter is None else counts[counter])
                yield Chunk(first, number, made)
                first += number
            for name in wanted:
                if left := open_files[name].left:
                    raise DataError(f"{self.name}: column {name} has {left} values more than its events")
        except _ERRORS as error:
            if isinstance(error, DataError):
                raise
            raise unreadable(f"{self.name}, from event {first} on,", error) from error
        finally:
            for opened in open_files.values():
                opened.file.close()

    def _read_heads(self) -> dict[str, _Array]:
        names = [name.removesuffix(".npy") for name in self._zip.namelist() if name.endswith(".npy")]
        heads = {}
        for name in names:
            if name != METADATA_KEY:
                heads[name] = self._open(name)
                heads[name].file.close()
        return heads

    def _open(self, name: str) -> _Array:
        file = self._zip.open(f"{name}.npy")
        try:
            return _Array(file, name, self.name)
        except BaseException:
            file.close()
            raise

    def identity(self) -> str:
        """Return the file's size and a hash of its two ends."""
        return file_identity(self._path)

    def close(self) -> None:
        """Close the file."""
        self._zip.close()


class _Array:
    """An .npy file that is read from its beginning to its end. left: its values that were not read yet."""

    def __init__(self, file: IO[bytes], name: str, where: str) -> None:
        version = np.lib.format.read_magic(file)
        read: Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype]] = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        self.shape, column_major, self.dtype = read(file)
        if self.dtype.hasobject or self.dtype.names or (column_major and len(self.shape) > 1):
            raise DataError(f"{where}: array {name} is {self.dtype}{' by columns' * column_major}, expected numbers by rows")
        self.file, self.left, self._name = file, self.shape[0] if self.shape else 0, name
        self._item = self.dtype.itemsize * int(np.prod(self.shape[1:]))

    @property
    def nbytes(self) -> int:
        """The bytes of the whole array."""
        return self._item * (self.shape[0] if self.shape else 0)

    def read(self, number: int) -> NDArray[Any]:
        """Return the next values. Raises ValueError if there are fewer."""
        if number > self.left:
            raise ValueError(f"array {self._name} has only {self.left} of {number} values left")
        data = self.file.read(number * self._item)
        if len(data) != number * self._item:
            raise ValueError(f"array {self._name} ends after {len(data)} of {number * self._item} bytes")
        self.left -= number
        return np.frombuffer(data, self.dtype).reshape(number, *self.shape[1:]).astype(self.dtype.newbyteorder("="), copy=False)


def find_counter(name: str, names: Sequence[str]) -> str | None:
    """Return the counter of a column: nDigiHB for DigiHB_fc0, or nDigiHB_fc0; None for a flat column."""
    prefix = name
    while prefix:
        if f"n{prefix}" in names:
            return f"n{prefix}"
        prefix = prefix.rpartition("_")[0]
    return None


def _named(arrays: Mapping[str, NDArray[Any]] | NDArray[Any]) -> dict[str, NDArray[Any]]:
    if isinstance(arrays, Mapping):
        return {str(name): np.asarray(array) for name, array in arrays.items()}
    if arrays.dtype.names:
        return {name: arrays[name] for name in arrays.dtype.names}
    return {ROWS: arrays}


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
    if counter.dtype.kind not in "iu" or counter.ndim != 1 or (len(counter) and counter.min() < 0):
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
        counts = {self._counter(name): column.counts for name, column in chunk.columns.items() if column.counts is not None}
        values = {name: column.values for name, column in chunk.columns.items()}
        for name, array in {**values, **counts}.items():
            if name not in self._spools:
                self._spools[name] = tempfile.TemporaryFile(dir=self._path.parent)  # noqa: SIM115 - closed by close() or abort()
                self._first[name] = array[:0]
            self._spools[name].write(np.ascontiguousarray(array).data)
            self._lengths[name] += len(array)

    def _counter(self, name: str) -> str:
        inside = self._collection and name.startswith(f"{self._collection}_")
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
