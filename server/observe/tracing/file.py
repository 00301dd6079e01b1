# SPDX-License-Identifier: Apache-2.0
"""Mode triton: traces as Triton's JSON, one array of objects per file.

::

    [{"id":1,"model_name":"m","model_version":1,"request_id":"a"},{"id":1,"timestamps":[{"name":"REQUEST_START","ns":1}]},...]

The steps of an ensemble, and requests of a model to another, are traces of their own, with the number of the causing trace as
"parent_id". With log_frequency N, every N traces go to a file of their own: <file>.0, <file>.1, ...

The file is a complete array after each trace. A trace that does not fit on the disk is lost and leaves the array unchanged; the
next one that fits follows. A file without traces is empty. If the file was renamed or deleted, the next trace begins a new one.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypersonic.server.errors import StartError
from hypersonic.server.observe.tracing.span import Borders, Parent

_LOG = logging.getLogger(__name__)


class FileSpan:
    """The trace of one request.

    Args:
        parent_id: 0 = none.
    """

    def __init__(self, exporter: FileExporter, number: int, parent_id: int) -> None:
        self._exporter = exporter
        self._number = number
        self._parent_id = parent_id

    def child(self, model: str, trace_id: int, arrived_ns: int) -> FileSpan:  # noqa: ARG002 - the file needs only the numbers
        """As Span.child."""
        return FileSpan(self._exporter, trace_id, self._number)

    def end(self, borders: Borders) -> None:
        """As Span.end: writes the trace."""
        self._exporter.write(borders.model, list(_objects(borders, self._number, self._parent_id)))


def _objects(borders: Borders, number: int, parent_id: int) -> Iterator[Mapping[str, Any]]:
    head: dict[str, Any] = {"id": number, "model_name": borders.model, "model_version": borders.version}
    if borders.request_id:
        head["request_id"] = borders.request_id
    if parent_id:
        head["parent_id"] = parent_id
    yield head
    for name, ns in borders.events():
        yield {"id": number, "timestamps": [{"name": name, "ns": ns}]}


class FileExporter:
    """Writes traces when they end. A full disk is reported once in the log and does not affect requests."""

    def __init__(self, path: str, log_frequency: Callable[[str], int]) -> None:
        """Check the file.

        Args:
            log_frequency: model -> traces per file, 0 = one file for all.

        Raises:
            StartError: (exit code 2) if the file cannot be written.
        """
        self._path = path
        self._log_frequency = log_frequency
        self._lock = threading.Lock()
        self._file: _ArrayFile | None = None
        self._index = 0
        self._failed = False
        try:
            _check(path)
        except OSError as error:
            raise StartError(
                f"trace file {path} cannot be written: {error.strerror}; choose another with triton,file="
            ) from error

    def begin(self, model: str, trace_id: int, parent: Parent | None, arrived_ns: int) -> FileSpan:  # noqa: ARG002
        """As Exporter.begin."""
        return FileSpan(self, trace_id, 0)

    def write(self, model: str, objects: list[Mapping[str, Any]]) -> None:
        """Append a complete trace. Errors of the disk are only logged."""
        text = ",".join(json.dumps(o, separators=(",", ":")) for o in objects)
        with self._lock:
            try:
                self._append(text.encode(), self._log_frequency(model))
                self._failed = False
            except OSError as error:
                if not self._failed:
                    _LOG.error("trace file %s cannot be written: %s; traces are lost until it can", self._path, error.strerror)
                self._failed = True

    def _append(self, text: bytes, log_frequency: int) -> None:
        if self._file is not None and self._file.moved():
            self._finish()
        if self._file is None:
            self._file = _ArrayFile(f"{self._path}.{self._index}" if log_frequency else self._path)
        self._file.append(text)
        if 0 < log_frequency <= self._file.appended:
            self._finish()

    def _finish(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            self._index += 1
            file.close()

    def close(self, timeout_s: float) -> None:  # noqa: ARG002 - writing what is left takes no time
        """As Exporter.close."""
        with self._lock:
            try:
                self._finish()
            except OSError as error:
                _LOG.error("trace file %s could not be closed: %s", self._path, error.strerror)


def _check(path: str) -> None:
    """Raise OSError if the file cannot be written, or cannot be written at any position (a pipe)."""
    if Path(path).exists() and not (Path(path).is_file() or Path(path).is_char_device()):
        raise OSError(errno.EINVAL, "it is not a regular file")
    with Path(path).open("ab"):
        pass


class _ArrayFile:
    """A file that holds a complete JSON array after every append, even if the process is killed or an append fails."""

    def __init__(self, path: str) -> None:
        """Create the file, or empty it. Raises OSError."""
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self._size = 0
        self.appended = 0

    def moved(self) -> bool:
        """Return whether the file was renamed or deleted, so that the next trace begins a new one."""
        try:
            there = Path(self._path).stat()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return not os.path.samestat(there, os.fstat(self._descriptor))

    def append(self, elements: bytes) -> None:
        """Write the elements over the array's end, in one write. Raises OSError, and then leaves the file as before."""
        data = (b"," if self._size else b"[") + elements + b"]"
        at = max(0, self._size - 1)
        try:
            self._write(data, at)
        except OSError:
            self._restore(at)
            raise
        self._size = at + len(data)
        self.appended += 1

    def _write(self, data: bytes, at: int) -> None:
        """Write the data. After a partial write, it tries the rest, so that the system reports the reason."""
        left = memoryview(data)
        while left:
            written = os.pwrite(self._descriptor, left, at)
            at, left = at + written, left[written:]

    def _restore(self, at: int) -> None:
        with suppress(OSError):  # the next append begins at the same place
            if self._size:
                os.pwrite(self._descriptor, b"]", at)  # its block on the disk still exists
            os.ftruncate(self._descriptor, self._size)

    def close(self) -> None:
        """Close the file. Raises OSError."""
        os.close(self._descriptor)
