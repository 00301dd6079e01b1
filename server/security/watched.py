# SPDX-License-Identifier: Apache-2.0
"""A small file whose meaning is kept parsed and read again while it is used: tokens, keys, certificates.

The file is read, not only looked at: a size and a time that stayed the same do not prove that a file did, and a read that
failed leaves nothing behind that could pass for one that succeeded.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from hypersonic.server.config.files import read_regular
from hypersonic.server.errors import StartError

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
#: no list of tokens, keys or certificates is longer
MAX_FILE_BYTES = 1 << 20
#: how often the files are read at most
_INTERVAL_S = 1.0
#: how often a failure that lasts is reported
_REMIND_S = 60.0
#: lines or keys of a file that are named in the log
_MOST_REASONS = 10


class WatchedFiles(Generic[_T]):
    """`parse` of some files' contents, as of at most a second ago. Every thread may ask.

    parse raises ValueError for contents it does not take. Files that cannot be read or parsed keep what they said before, are
    read again every second until that succeeds, and are reported: a half-written file must not close the server, and an
    operator who wants it closed writes an empty list. on_change: told each new value, under a lock.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        parse: Callable[[list[bytes]], _T],
        on_change: Callable[[_T], None] = lambda _value: None,
    ) -> None:
        """Raises StartError for files that cannot be read or parsed."""
        self._paths = tuple(paths)
        self._parse = parse
        self._on_change = on_change
        self._lock = threading.Lock()
        self._failure = _Failure(", ".join(map(str, self._paths)))
        self._read_s = time.monotonic()
        try:
            self._contents = self._read()
            self._value = parse(self._contents)
        except OSError as error:
            raise StartError(f"cannot read {error.filename}: {error.strerror}") from error
        except ValueError as error:
            raise StartError(f"{', '.join(map(str, self._paths))}: {error}") from error

    @property
    def value(self) -> _T:
        """The parsed contents; reads the files once a second."""
        if time.monotonic() - self._read_s >= _INTERVAL_S and self._lock.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._lock.release()
        return self._value

    def reload(self) -> None:
        """Read the files at once."""
        with self._lock:
            self._refresh()

    def _refresh(self) -> None:
        self._read_s = time.monotonic()
        try:
            contents = self._read()
            if contents != self._contents:
                value = self._parse(contents)
                self._contents, self._value = contents, value
                _LOG.info("read %s again", self._failure.name)
                self._on_change(value)
        except (OSError, ValueError) as error:
            self._failure.report(error)
        else:
            self._failure.end()

    def _read(self) -> list[bytes]:
        return [_bounded(path) for path in self._paths]


class _Failure:
    """Lines of the log on files that cannot be used: when it begins, when its reason changes, once a minute, its end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._began_s: float | None = None
        self._text = ""
        self._said_s = 0.0

    def report(self, error: Exception) -> None:
        now_s = time.monotonic()
        if self._began_s is None:
            self._began_s = now_s
        elif str(error) == self._text and now_s - self._said_s < _REMIND_S:
            return
        self._text, self._said_s = str(error), now_s
        _LOG.error(
            "%s cannot be used, keeping what it said before: %s; it is tried again every second, for %.0f s now",
            *(self.name, error, now_s - self._began_s),
        )

    def end(self) -> None:
        if self._began_s is not None:
            _LOG.warning("%s can be read again, after %.0f s", self.name, time.monotonic() - self._began_s)
            self._began_s = None


def report_left_out(logger: logging.Logger, path: Path, reasons: Sequence[str]) -> None:
    """Log what of a changed file does not count, the first of it in full."""
    for reason in reasons[:_MOST_REASONS]:
        logger.error("%s: %s; it is left out", path, reason)
    if len(reasons) > _MOST_REASONS:
        logger.error("%s: %d more are left out", path, len(reasons) - _MOST_REASONS)


def _bounded(path: Path) -> bytes:
    data = read_regular(path, MAX_FILE_BYTES)  # a FIFO in its place would keep every caller waiting
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    return data
