# SPDX-License-Identifier: Apache-2.0
"""Parquet files, Arrow IPC files and streams, and tables in memory. It is the only module that imports pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hypersonic.client.columns.chunk import Chunk, Column, Counts, event_of
from hypersonic.client.columns.errors import DataError, OutputError
from hypersonic.client.columns.source import METADATA_KEY, FileSource, MemorySource, events_per_chunk, find_columns, reading

#: record batches smaller than this are put together, so that requests are not small
_SMALL_BYTES = 1 << 20
_READ_BYTES = 1 << 20
_IPC_MAGIC = b"ARROW1"
#: the errors raised for a file that is not in an Arrow or Parquet format, or is incomplete
_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, NotImplementedError)


class ParquetSource(FileSource):
    """A Parquet file. Lists of structs are columns too: DigiHB_fc0 is DigiHB.list.element.fc0."""

    kind = "parquet"

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        with reading(lambda: self.name, _ERRORS):
            self._file = pq.ParquetFile(path, buffer_size=_READ_BYTES)
            self._paths = _paths(self._file.schema_arrow)
        self.columns = tuple(self._paths)
        self.events: int | None = self._file.metadata.num_rows

    def chunks(self, columns: Sequence[str], chunk_bytes: int) -> Iterator[Chunk]:
        """Decode and yield the columns."""
        events = self.events or 0
        paths = {name: self._paths[column] for name, column in find_columns(columns, self.columns, self.name).items()}
        leaves, size = self._leaves(list(paths.values()))
        if not columns:
            yield Chunk(0, events, {})
            return
        first = 0
        with reading(lambda: f"{self.name}, from event {first} on,", _ERRORS):
            step = events_per_chunk(events, size, chunk_bytes)
            for batch in self._file.iter_batches(batch_size=step, columns=leaves):
                yield _chunk(batch, paths, self.name, first)
                first += len(batch)

    def _leaves(self, wanted: Sequence[tuple[str, ...]]) -> tuple[list[str], int]:
        """The paths of the columns in Parquet's schema, and the bytes of all their values."""
        schema, leaves, size = self._file.schema, [], 0
        for place in range(len(schema)):
            path = schema.column(place).path
            if any(path == w[0] or (path.startswith(f"{w[0]}.") and f".{w[-1]}." in f".{path}.") for w in wanted):
                leaves.append(path)
                groups = (self._file.metadata.row_group(group) for group in range(self._file.num_row_groups))
                size += sum(group.column(place).total_uncompressed_size for group in groups)
        return leaves, size

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class IpcSource(FileSource):
    """An Arrow IPC file or stream, which is mapped into memory: what is not compressed is not copied."""

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        with reading(lambda: self.name, _ERRORS):
            with path.open("rb") as file:
                self.kind = "arrow" if file.read(len(_IPC_MAGIC)) == _IPC_MAGIC else "stream"
            self._map = pa.memory_map(self.name)
            opened = pa.ipc.open_file if self.kind == "arrow" else pa.ipc.open_stream
            self._reader = opened(self._map)
            self._paths = _paths(self._reader.schema)
        self.columns = tuple(self._paths)
        self.events: int | None = None

    def chunks(self, columns: Sequence[str], chunk_bytes: int) -> Iterator[Chunk]:
        """Yield the record batches, large ones in parts."""
        paths = {name: self._paths[column] for name, column in find_columns(columns, self.columns, self.name).items()}
        return _chunks_of_batches(self._batches(), paths, self.name, chunk_bytes)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self.kind == "arrow":
            for place in range(self._reader.num_record_batches):
                yield self._reader.get_batch(place)
            return
        end = self._map.tell()
        for batch in self._reader:
            end = self._map.tell()
            yield batch
        # without the marker at its end, a stream that was cut between two batches looks like one that is complete
        if self._map.tell() == end:
            raise DataError(
                f"{self.name} ends without Arrow's end-of-stream marker: it was cut, or is being written; copy it again"
            )
        if self._map.tell() < self._map.size():
            raise DataError(f"{self.name} goes on behind the end of its stream, and a file has one stream; split it")

    def close(self) -> None:
        """Close the file. Arrays that were read stay valid."""
        self._map.close()


class TableSource(MemorySource):
    """A table or a record batch in memory."""

    def __init__(self, table: pa.Table | pa.RecordBatch, name: str = "the table") -> None:
        self._table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
        self.name = name
        self._paths = _paths(table.schema)
        self.columns = tuple(self._paths)
        self.events: int | None = self._table.num_rows

    def chunks(self, columns: Sequence[str], chunk_bytes: int) -> Iterator[Chunk]:
        """Yield views of the table."""
        paths = {name: self._paths[column] for name, column in find_columns(columns, self.columns, self.name).items()}
        return _chunks_of_batches(self._table.to_batches(), paths, self.name, chunk_bytes)


def is_table(value: object) -> bool:
    """Return whether the value is a table of pyarrow."""
    return isinstance(value, pa.Table | pa.RecordBatch)


def _paths(schema: pa.Schema) -> dict[str, tuple[str, ...]]:
    """The path of each column: a field, or a field and a field of its struct."""
    paths: dict[str, tuple[str, ...]] = {}
    for field in schema:
        kind = field.type.value_type if _is_list(field.type) or pa.types.is_fixed_size_list(field.type) else field.type
        inner = [kind.field(place).name for place in range(kind.num_fields)] if pa.types.is_struct(kind) else []
        for part in inner:
            name = f"{field.name}_{part}"
            paths[f"{field.name}.{part}" if name in schema.names or name in paths else name] = (field.name, part)
        if not inner:
            paths[field.name] = (field.name,)
    return paths


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or _is_view(kind))


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _chunks_of_batches(
    batches: Iterable[pa.RecordBatch], paths: Mapping[str, tuple[str, ...]], name: str, chunk_bytes: int
) -> Iterator[Chunk]:
    first = 0
    with reading(lambda: f"{name}, from event {first} on,", _ERRORS):
        for batch in _joined(batches, [path[0] for path in paths.values()]):
            batch.validate(full=True)  # offsets that point outside of the file must not be followed
            _check_views(batch, name)
            step = events_per_chunk(len(batch), batch.nbytes, chunk_bytes)
            for begin in range(0, len(batch), step):
                yield _chunk(batch.slice(begin, step), paths, name, first + begin)
            first += len(batch)


def _check_views(batch: pa.RecordBatch, file: str) -> None:
    """Raise DataError if list views share values: a small file could then have any number of rows."""
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if _is_view(array.type) and array.sizes.to_numpy().sum(dtype=np.int64) > len(array.values):
            raise DataError(
                f"{file}: the list views of column {name} overlap, expected each value in one list; write it as lists"
            )


def _joined(batches: Iterable[pa.RecordBatch], fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The fields of the batches; small ones are put together, which copies them."""
    small: list[pa.RecordBatch] = []
    for whole in batches:
        batch = whole.select(list(dict.fromkeys(fields))) if fields else whole
        if batch.nbytes < _SMALL_BYTES and sum(each.nbytes for each in small) < _SMALL_BYTES:
            small.append(batch)
            continue
        yield from _together(small)
        small = []
        yield batch
    yield from _together(small)


def _together(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) > 1:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()
    else:
        yield from batches


def _chunk(batch: pa.RecordBatch, paths: Mapping[str, tuple[str, ...]], file: str, first: int) -> Chunk:
    lists: dict[str, tuple[pa.Array, Counts | None]] = {}
    columns = {}
    for name, (field, *inner) in paths.items():
        if field not in lists:
            lists[field] = _opened(batch.column(field), name, file, first)
        values, counts = lists[field]
        part = values.field(inner[0]) if inner else values
        columns[name] = Column(_numbers(part, counts, name, file, first), counts)
    return Chunk(first, len(batch), columns)


def _opened(array: pa.Array, name: str, file: str, first: int) -> tuple[pa.Array, Counts | None]:
    """The elements of a column's lists, and the counts; None for a flat column."""
    if array.null_count:
        raise DataError(f"{file}: event {first + _first_null(array)} is null in column {name}, expected a value")
    padded = pa.types.is_fixed_size_list(array.type) and pa.types.is_struct(array.type.value_type)
    if not _is_list(array.type) and not padded:
        return array, None
    counts = pc.list_value_length(array).to_numpy().astype(np.int64)
    values = array.flatten()
    if pa.types.is_struct(values.type) and values.null_count:
        event = first + event_of(counts, _first_null(values))
        raise DataError(f"{file}: event {event} has a null in column {name}, expected a value")
    return values, counts


def _numbers(array: pa.Array, counts: Counts | None, name: str, file: str, first: int) -> NDArray[Any]:
    """The numbers as (rows,) or (rows, width), without a copy, except for booleans."""
    if isinstance(array, pa.ExtensionArray):
        order = getattr(array.type, "permutation", None)
        if order is not None and list(order) != sorted(order):
            raise DataError(f"{file}: column {name} is a tensor with permuted axes, expected row-major order")
        array = array.storage
    width = 0
    if pa.types.is_fixed_size_list(array.type):
        width = array.type.list_size
        nulls, array = array.null_count, array if array.null_count else array.flatten()
        nulls = nulls or array.null_count
    else:
        nulls = array.null_count
    if nulls:
        row = _first_null(array) // (1 if pa.types.is_fixed_size_list(array.type) else width or 1)
        raise DataError(f"{file}: event {first + event_of(counts, row)} has a null in column {name}, expected a number")
    kind = array.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise DataError(f"{file}: column {name} is of type {shorten(str(kind), 100)}, expected numbers or lists of them")
    numbers: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers.reshape(-1, width) if width else numbers


def _first_null(array: pa.Array) -> int:
    return int(np.argmax(pc.is_null(array).to_numpy(zero_copy_only=False)))


class ArrowSink:
    """Writes a Parquet file ("parquet"), or an IPC file ("arrow") or stream ("stream"). The schema has the metadata."""

    def __init__(self, path: Path, metadata: str, kind: str) -> None:
        self._path, self._kind = path, kind
        self._metadata = {METADATA_KEY: metadata}
        self._writer: Any = None

    def write(self, chunk: Chunk) -> None:
        """Append a row group, or a record batch."""
        arrays = {name: _array(column) for name, column in chunk.columns.items()}
        if self._writer is None:
            self._open(pa.schema([(name, array.type) for name, array in arrays.items()], metadata=self._metadata))
        self._writer.write_batch(pa.RecordBatch.from_arrays(list(arrays.values()), schema=self._writer_schema))

    def _open(self, schema: pa.Schema) -> None:
        self._writer_schema = schema
        try:
            if self._kind == "parquet":
                self._writer = pq.ParquetWriter(self._path, schema, compression="zstd")
            else:
                opened = pa.ipc.new_file if self._kind == "arrow" else pa.ipc.new_stream
                self._writer = opened(str(self._path), schema)
        except OSError as error:
            raise OutputError(f"{self._path} cannot be written: {error}") from error

    def close(self) -> None:
        """Write the index, and close the file."""
        self._writer.close()

    def abort(self) -> None:
        """Close the file as it is."""
        if self._writer is not None:
            self._writer.close()


def _array(column: Column) -> pa.Array:
    values = pa.array(np.ascontiguousarray(column.values).reshape(-1))
    if column.values.ndim > 1:
        values = pa.FixedSizeListArray.from_arrays(values, int(np.prod(column.values.shape[1:])))
    if column.counts is None:
        return values
    offsets = np.concatenate([[0], np.cumsum(column.counts)])
    if offsets[-1] < 1 << 31:
        return pa.ListArray.from_arrays(offsets.astype(np.int32), values)
    return pa.LargeListArray.from_arrays(offsets, values)


def make_table(columns: Mapping[str, Column]) -> pa.Table:
    """Return a table of events with the columns."""
    return pa.table({name: _array(column) for name, column in columns.items()})


def read_arrow_metadata(path: Path, kind: str) -> str | None:
    """Return the metadata of a file that ArrowSink wrote; None for another file."""
    try:
        if kind == "parquet":
            schema = pq.read_schema(path)
        else:
            with pa.memory_map(str(path)) as file:
                schema = (pa.ipc.open_file if kind == "arrow" else pa.ipc.open_stream)(file).schema
        text = (schema.metadata or {}).get(METADATA_KEY.encode())
        return None if text is None else text.decode()
    except (*_ERRORS, UnicodeDecodeError):
        return None
