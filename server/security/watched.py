# SPDX-License-Identifier: Apache-2.0
"""A small file whose meaning is kept parsed and read again when it changes: tokens, keys, certificates.

Kubernetes swaps a secret's directory under a symlink, `mv` swaps the file: both change what stat() says.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from hypersonic.server.errors import StartError

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
#: no list of tokens, keys or certificates is longer
MAX_FILE_BYTES = 1 << 20
#: how often stat() is asked at most
_INTERVAL_S = 1.0


class WatchedFiles(Generic[_T]):
    """`parse` of some files' contents, as of at most a second ago. Every thread may ask.

    parse raises ValueError for contents it does not take. A change that cannot be read is logged and the last good value
    stays: a half-written file must not close the server, and an operator who wants it closed writes an empty list.
    """

    def __init__(self, paths: Sequence[Path], parse: Callable[[list[bytes]], _T]) -> None:
        """Raises StartError for files that cannot be read or parsed."""
        self._paths = tuple(paths)
        self._parse = parse
        self._lock = threading.Lock()
        self._seen = self._state()
        self._looked_s = time.monotonic()
        try:
            self._value = self._read()
        except OSError as error:
            raise StartError(f"cannot read {error.filename}: {error.strerror}") from error
        except ValueError as error:
            raise StartError(f"{', '.join(map(str, self._paths))}: {error}") from error

    @property
    def value(self) -> _T:
        """The parsed contents; looks for changes once a second."""
        if time.monotonic() - self._looked_s >= _INTERVAL_S and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._lock.release()
        return self._value

    def reload(self) -> None:
        """Look at once."""
        with self._lock:
            self._look()

    def _look(self) -> None:
        self._looked_s = time.monotonic()
        state = self._state()
        if state == self._seen:
            return
        try:
            self._value = self._read()
            self._seen = state
            _LOG.info("read %s again", ", ".join(map(str, self._paths)))
        except (OSError, ValueError) as error:
            self._seen = state
            _LOG.error("%s changed and cannot be used, keeping what it said before: %s", self._paths[0], error)

    def _state(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stat(path) for path in self._paths)

    def _read(self) -> _T:
        return self._parse([_bounded(path) for path in self._paths])


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _bounded(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    return data
