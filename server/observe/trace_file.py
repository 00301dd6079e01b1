# SPDX-License-Identifier: Apache-2.0
"""Mode triton: traces as Triton's JSON, one array of objects a file.

    [{"id":1,"model_name":"m","model_version":1,"request_id":"a"},{"id":1,"timestamps":[{"name":"REQUEST_START","ns":1}]},...]

With level TENSORS, {"id":1,"activity":"TENSOR_QUEUE_INPUT","tensor":{...}} as well: trace_tensors.py. An ensemble's steps and
what a model asks another are traces of their own, with the first one's number as "parent_id".
With log_frequency N, each N traces go to a file of their own, <file>.0, <file>.1, ...
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from hypersonic.server.errors import StartError
from hypersonic.server.observe.trace import Borders, Parent

_LOG = logging.getLogger(__name__)


class FileSpan:
    """One request. parent_id: 0 = none."""

    def __init__(self, exporter: FileExporter, number: int, parent_id: int) -> None:
        self._exporter = exporter
        self._number = number
        self._parent_id = parent_id

    def child(self, model: str, trace_id: int, arrived_ns: int) -> FileSpan:  # noqa: ARG002 - the file needs only the numbers
        return FileSpan(self._exporter, trace_id, self._number)

    def end(self, borders: Borders) -> None:
        self._exporter.write(borders.model, list(_objects(borders, self._number, self._parent_id)))


def _objects(borders: Borders, number: int, parent_id: int) -> Iterator[Mapping[str, Any]]:
    head: dict[str, Any] = {"id": number, "model_name": borders.model, "model_version": borders.version}
    if borders.request_id:
        head["request_id"] = borders.request_id
    if parent_id:
        head["parent_id"] = parent_id
    yield head
    for name, ns in borders.events() if borders.timed else ():
        yield {"id": number, "timestamps": [{"name": name, "ns": ns}]}
    for tensor in borders.tensors:
        yield {"id": number, **tensor.entry()}


class FileExporter:
    """Writes as traces end. A disk that is full is reported once; requests do not notice."""

    def __init__(self, path: str, log_frequency: Callable[[str], int]) -> None:
        """Raises StartError when the file cannot be written. log_frequency: of a model, 0 = one file for all."""
        self._path = path
        self._log_frequency = log_frequency
        self._lock = threading.Lock()
        self._file: TextIO | None = None
        self._written = self._index = 0
        self._failed = False
        try:
            with Path(path).open("a", encoding="utf-8"):
                pass
        except OSError as error:
            raise StartError(
                f"trace file {path} cannot be written: {error.strerror}; choose another with triton,file="
            ) from error

    def begin(self, model: str, trace_id: int, parent: Parent | None, arrived_ns: int) -> FileSpan:  # noqa: ARG002
        return FileSpan(self, trace_id, 0)

    def write(self, model: str, objects: list[Mapping[str, Any]]) -> None:
        """A whole trace; what goes wrong with the disk stays here."""
        text = ",".join(json.dumps(o, separators=(",", ":")) for o in objects)
        with self._lock:
            try:
                self._append(text, self._log_frequency(model))
            except OSError as error:
                if not self._failed:
                    _LOG.error("trace file %s cannot be written: %s; traces are lost until it can", self._path, error.strerror)
                self._failed = True

    def _append(self, text: str, log_frequency: int) -> None:
        if self._file is None:
            path = Path(f"{self._path}.{self._index}" if log_frequency else self._path)
            self._file = path.open("w", encoding="utf-8")
        self._file.write(("," if self._written else "[") + text)
        self._file.flush()
        self._failed = False
        self._written += 1
        if 0 < log_frequency <= self._written:
            self._finish()

    def _finish(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            self._written = 0
            self._index += 1
            with file:
                file.write("]")

    def close(self, timeout_s: float) -> None:  # noqa: ARG002 - writing what is left takes no time
        with self._lock:
            try:
                self._finish()
            except OSError as error:
                _LOG.error("trace file %s could not be ended: %s", self._path, error.strerror)
