# SPDX-License-Identifier: Apache-2.0
"""Sends the rows of chunks to a model, and puts the answers into columns of the same events."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.attempts.request import Result
from hypersonic.client.columns.ahead import read_ahead
from hypersonic.client.columns.chunk import Chunk, Column
from hypersonic.client.columns.errors import DataError, EventsError, MappingError, suggest
from hypersonic.client.columns.mapping import ColumnMapping, find_input
from hypersonic.client.columns.opening import open_source
from hypersonic.client.columns.rows import Rows, make_rows
from hypersonic.client.columns.source import CHUNK_BYTES, Source, find_columns, plain_name
from hypersonic.client.errors import ClientError
from hypersonic.client.model import Model
from hypersonic.client.specs import ModelSpec, TensorSpec

#: the maximum number of chunks with requests in flight: while the answers of one are written, the next one is being sent
SENT = 2


@dataclass(frozen=True)
class Answered:
    """The answers for a chunk.

    Attributes:
        chunk: the output columns.
        rows: how many were sent.
        version: "" if no row was sent.
    """

    chunk: Chunk
    rows: int
    version: str


@dataclass(frozen=True)
class _Sent:
    """A chunk whose requests were started."""

    rows: Rows
    futures: list[Future[Result]]

    def cancel(self) -> None:
        """Cancel its requests."""
        for future in list(self.futures):
            future.cancel()


def infer_chunks(
    model: Model, mapping: ColumnMapping, source: Source, *, keep: Sequence[str] = (), chunk_bytes: int = CHUNK_BYTES
) -> Generator[Answered, None, None]:
    """Yield the answers for all events of a source, chunk by chunk, in their order.

    One thread reads at most AHEAD chunks ahead, and another one sends: requests of at most SENT chunks are in flight.

    Raises MappingError, DataError, EventsError, and what Model.spec raises.

    Args:
        keep: input columns to take along.
    """
    spec = model.spec
    tensor = find_input(mapping, spec)
    check_columns(mapping, source, keep)
    check_names(mapping, spec, keep)
    sender = _Sender(model, spec, tensor, source)
    rows = _rows(mapping, source, tensor, keep, chunk_bytes)
    with closing(read_ahead(sender.send_all(rows), SENT - 1, "columns-sender", sender.stop)) as chunks:
        widths: dict[str, int] = {}
        for sent in chunks:
            yield _collect(mapping, spec, sent, source, widths)
            sender.outstanding.popleft()


def infer_array(model: Model, mapping: ColumnMapping, events: Any, *, chunk_bytes: int = CHUNK_BYTES) -> dict[str, Column]:
    """Return the output columns for all events in memory: an awkward array, a pyarrow table or numpy arrays.

    awkward arrays of the columns are made by columns.jagged.make_array, pyarrow tables by columns.arrow.make_table.
    """
    with closing(open_source(events)) as source:
        parts = [answered.chunk.columns for answered in infer_chunks(model, mapping, source, chunk_bytes=chunk_bytes)]
    return {name: _joined([part[name] for part in parts]) for name in parts[0]}


def check_columns(mapping: ColumnMapping, source: Source, keep: Sequence[str]) -> None:
    """Raise MappingError if a column is not exactly one of the source's, and DataError if it is known to have no events."""
    names = [*mapping.columns, *keep]
    found = find_columns(names, source.columns, source.name)
    for name in names:
        if name not in found:
            which = "to keep" if name not in mapping.columns else f"that {mapping.name} names"
            parts = [column for column in source.columns if plain_name(column).startswith(f"{plain_name(name)}_")]
            help_text = mapping.help_for(name) or suggest(name, parts or source.columns)
            raise MappingError(f"{source.name} has no column {name} {which}; {help_text}")
    if source.events == 0:
        raise DataError(f"{source.name} has no events")


def check_names(mapping: ColumnMapping, spec: ModelSpec, keep: Sequence[str]) -> None:
    """Raise MappingError if a kept column and an output have the same name, or the mapping names an unknown output."""
    known = [tensor.name for tensor in spec.outputs]
    for output in mapping.outputs:
        if output not in known:
            raise MappingError(f"{mapping.name}: model {spec.name!r} has no output {output!r}; {suggest(output, known)}")
    for tensor in spec.outputs:
        if tensor.datatype == "BYTES":
            raise MappingError(f"output {tensor.name!r} of model {spec.name!r} is BYTES, expected numbers")
    names = [*keep, *(name for tensor in spec.outputs for name in output_columns(mapping, tensor.name, max(1, _size(tensor))))]
    if twice := [name for name in names if names.count(name) > 1]:
        raise MappingError(f"the output would have two columns {twice[0]}; name the model's with 'outputs' in {mapping.name}")


def output_columns(mapping: ColumnMapping, output: str, size: int) -> list[str]:
    """Return the columns of a model's output: one, or one for each of the numbers that it has per row."""
    name = mapping.output_name(output)
    return [name] if size == 1 else [f"{name}{place}" for place in range(size)]


def _size(tensor: TensorSpec) -> int:
    """The numbers per row; 0 if they depend on the request."""
    return 0 if -1 in tensor.shape else prod(tensor.shape)


def _rows(
    mapping: ColumnMapping, source: Source, tensor: TensorSpec, keep: Sequence[str], chunk_bytes: int
) -> Generator[Rows, None, None]:
    """The rows of each chunk. It runs in the reading thread."""
    events = 0
    columns = list(dict.fromkeys([*mapping.columns, *keep]))
    for chunk in source.chunks(columns, chunk_bytes):
        if chunk.events:
            events += chunk.events
            yield make_rows(mapping, chunk, tensor.dtype, source.name, keep)
    if not events:
        raise DataError(f"{source.name} has no events")


class _Sender:
    """Starts the requests. It works in a thread of its own, so that Ctrl-C cannot come in the middle of a call of grpcio."""

    def __init__(self, model: Model, spec: ModelSpec, tensor: TensorSpec, source: Source) -> None:
        self._model, self._spec, self._tensor, self._source = model, spec, tensor, source
        self._version = current_version(spec)  # of all rows of a file, also while the servers are being updated
        self._stopped = threading.Event()
        self.outstanding: deque[_Sent] = deque()  # in the order of the file; its first one is being collected

    def send_all(self, rows: Generator[Rows, None, None]) -> Generator[_Sent, None, None]:
        """Yield each chunk when all of its requests are started."""
        with closing(read_ahead(rows)) as chunks:
            for chunk in chunks:
                sent = _Sent(chunk, [])
                self.outstanding.append(sent)
                self._send(sent)
                yield sent
                del sent, chunk

    def _send(self, sent: _Sent) -> None:
        """Start the requests of a chunk: as few as the model's maximum allows, of about equal size."""
        array = sent.rows.array
        parts = -(-len(array) // self._spec.max_batch_size)
        for part in range(parts):
            begin, end = (len(array) * place // parts for place in (part, part + 1))
            if self._stopped.is_set():
                break
            try:
                rows = {self._tensor.name: array[begin:end]}
                sent.futures.append(self._model.submit(rows, version=self._version, copy=False))
            except ClientError as error:
                raise _failed(sent.rows, self._source, error) from error
        if self._stopped.is_set():
            sent.cancel()

    def stop(self) -> None:
        """Cancel all requests. A request that waits for the client's limits can then start, so the thread ends."""
        self._stopped.set()
        for sent in list(self.outstanding):
            sent.cancel()


def _collect(mapping: ColumnMapping, spec: ModelSpec, sent: _Sent, source: Source, widths: dict[str, int]) -> Answered:
    """Wait for the answers of a chunk, and put them into columns.

    Args:
        widths: the numbers per row of each output, which this sets for the first chunk.
    """
    rows = sent.rows
    try:
        results = [future.result() for future in sent.futures]
    except ClientError as error:
        raise _failed(rows, source, error) from error
    versions = {result.version for result in results} - {""}  # a fallback has none
    if len(versions) > 1:
        raise EventsError(_changed(spec, source, versions))
    columns = dict(rows.kept)
    for tensor in spec.outputs:
        numbers = _numbers(tensor, results, len(rows.array), source, widths)
        names = output_columns(mapping, tensor.name, numbers.shape[1])
        for place, name in enumerate(names):
            columns[name] = Column(_spread(numbers[:, place], rows, mapping, tensor), rows.counts)
    return Answered(Chunk(rows.first, rows.events, columns), len(rows.array), min(versions, default=""))


def _numbers(tensor: TensorSpec, results: list[Result], rows: int, source: Source, widths: dict[str, int]) -> NDArray[Any]:
    """An output as (rows, numbers per row). Raises EventsError if the numbers per row are not those of all rows before."""
    if not results:
        return np.empty((0, widths.setdefault(tensor.name, max(1, _size(tensor)))), tensor.dtype)
    parts = [result.outputs[tensor.name] for result in results]
    if sum(map(len, parts)) != rows or tensor.dtype == object:
        got = f"{sum(map(len, parts))} rows of {parts[0].dtype}"
        servers = ", ".join(sorted({result.server for result in results}))
        raise EventsError(
            f"{source.name}: the servers {servers} answered {got} in output {tensor.name!r}, expected {rows} of numbers"
        )
    flat = [part.reshape(len(part), -1) for part in parts]
    for part in flat:
        if part.shape[1] != widths.setdefault(tensor.name, part.shape[1]):
            raise EventsError(
                f"{source.name}: output {tensor.name!r} has {part.shape[1]} numbers per row, expected "
                f"{widths[tensor.name]} as in the events before; an output whose size changes cannot be a column"
            )
    return flat[0] if len(flat) == 1 else np.concatenate(flat)


def _spread(values: NDArray[Any], rows: Rows, mapping: ColumnMapping, tensor: TensorSpec) -> NDArray[Any]:
    """The values with the mapping's `fill` in the rows that were not sent."""
    if rows.sent is None:
        return values
    fill = np.array(mapping.fill)
    if values.dtype.kind != "f" and not (np.isfinite(fill) and values.dtype.type(fill) == fill):
        raise MappingError(
            f"{mapping.name}: output {tensor.name!r} is {values.dtype}, which cannot have the value {mapping.fill} in the rows "
            "that the filter leaves out; set 'fill'"
        )
    spread = np.full(rows.total, fill, values.dtype)
    spread[rows.sent] = values
    return spread


def _failed(rows: Rows, source: Source, error: ClientError) -> ClientError:
    return EventsError(f"{source.name}, events {rows.first} to {rows.first + rows.events - 1}: {error}")


def _changed(spec: ModelSpec, source: Source, versions: set[str]) -> str:
    named = " and ".join(sorted(versions))
    return f"{source.name}: versions {named} of model {spec.name!r} answered, expected one; ask for one version, and run again"


def _joined(parts: Sequence[Column]) -> Column:
    counts = [part.counts for part in parts if part.counts is not None]
    return Column(np.concatenate([part.values for part in parts]), np.concatenate(counts) if counts else None)


def current_version(spec: ModelSpec) -> str:
    """Return the version that is asked for, or else the highest one that is served."""
    return spec.version or max(spec.versions, key=lambda version: (len(version), version), default="")


def one_version(answers: Iterable[Answered], spec: ModelSpec, source: Source) -> Iterator[Answered]:
    """Yield the answers. Raises EventsError if an answer comes from another version of the model than those before it."""
    known = ""
    for answered in answers:
        if known and answered.version not in {"", known}:
            raise EventsError(_changed(spec, source, {known, answered.version}))
        known = known or answered.version
        yield answered
