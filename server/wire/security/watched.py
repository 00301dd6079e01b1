# SPDX-License-Identifier: Apache-2.0
"""WatchedFiles: small files that are kept parsed, and read again while they are used: tokens, keys, certificates.

The contents are compared, because an unchanged size and time do not prove that a file has not changed. After a read that
failed, the files are read again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from hypersonic.server.core.config.files import read_regular
from hypersonic.server.errors import StartError

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
#: the largest file; no list of tokens, keys or certificates needs more
MAX_FILE_BYTES = 1 << 20
#: the shortest time between two reads of the files, in seconds
_INTERVAL_S = 1.0
#: the time between two reports of a failure that lasts, in seconds
_REMIND_S = 60.0
#: the most lines or keys of a file that are named in the log
_MOST_REASONS = 10


class FilesError(ValueError):
    """The contents of some of the watched files cannot be used.

    Args:
        paths: those files, which the text does not name.
    """

    def __init__(self, text: str, paths: Sequence[Path]) -> None:
        """Create a FilesError.

        Args:
            text: the reason.
        """
        super().__init__(text)
        self.paths = tuple(paths)


class WatchedFiles(Generic[_T]):
    """The parsed contents of some files, at most a second old. Any thread may ask.

    If the files cannot be read or parsed later, their previous contents stay in use. The failure is reported, and the files are
    read again every second until that succeeds. A half-written file must not lock everybody out; an operator who wants that
    writes an empty list.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        parse: Callable[[list[bytes]], _T],
        on_change: Callable[[_T], None] = lambda _value: None,
    ) -> None:
        """Read the files.

        Args:
            parse: makes the value from the contents of the files, in the order of `paths`; raises ValueError for contents that
                cannot be used, or FilesError if it knows which files they are in.
            on_change: called with each new value, under a lock.

        Raises:
            StartError: For files that cannot be read or parsed.
        """
        self._paths = tuple(paths)
        self._parse = parse
        self._on_change = on_change
        self._lock = threading.Lock()
        self._failure = _Failure(_names(self._paths))
        self._read_s = time.monotonic()
        try:
            self._contents = self._read()
            self._value = parse(self._contents)
        except OSError as error:
            raise StartError(f"cannot read {error.filename}: {error.strerror}") from error
        except ValueError as error:
            raise StartError(f"{_concerned(error, self._paths)}: {error}") from error

    @property
    def value(self) -> _T:
        """The parsed contents. Reads the files if the last read is more than a second ago."""
        if time.monotonic() - self._read_s >= _INTERVAL_S and self._lock.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._lock.release()
        return self._value

    def _refresh(self) -> None:
        self._read_s = time.monotonic()
        try:
            contents = self._read()
            if contents != self._contents:
                value = self._parse(contents)
                self._contents, self._value = contents, value
                _LOG.info("read %s again", self._failure.name)
                self._on_change(value)
        except OSError as error:
            self._failure.report(str(error.filename), str(error.strerror))
        except ValueError as error:
            self._failure.report(_concerned(error, self._paths), str(error))
        else:
            self._failure.end()

    def _read(self) -> list[bytes]:
        return [_bounded(path) for path in self._paths]


class _Failure:
    """Logs a failure to use some files: its start, each change of its reason, a reminder every minute, and its end."""

    def __init__(self, name: str) -> None:
        """Create a Failure.

        Args:
            name: of the files.
        """
        self.name = name
        self._began_s: float | None = None
        self._text = ""
        self._said_s = 0.0

    def report(self, name: str, reason: str) -> None:
        """Log that a read failed, unless the same failure was logged less than a minute ago.

        Args:
            name: of the file.
        """
        now_s, text = time.monotonic(), f"{name} cannot be used: {reason}"
        if self._began_s is None:
            self._began_s = now_s
        elif text == self._text and now_s - self._said_s < _REMIND_S:
            return
        self._text, self._said_s = text, now_s
        _LOG.error(
            "%s; its previous contents stay in use, and it is read again every second, for %.0f s now",
            *(text, now_s - self._began_s),
        )

    def end(self) -> None:
        """Log that the files can be read again, if they could not."""
        if self._began_s is not None:
            _LOG.warning("%s can be read again, after %.0f s", self.name, time.monotonic() - self._began_s)
            self._began_s = None


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths))


def _concerned(error: ValueError, paths: Sequence[Path]) -> str:
    """Return the names of the files that an error is about."""
    return _names(error.paths if isinstance(error, FilesError) else paths)


def report_left_out(logger: logging.Logger, path: Path, reasons: Sequence[str]) -> None:
    """Log why parts of a changed file are not used; at most the first ten in full."""
    for reason in reasons[:_MOST_REASONS]:
        logger.error("%s: %s; it is left out", path, reason)
    if len(reasons) > _MOST_REASONS:
        logger.error("%s: %d more are left out", path, len(reasons) - _MOST_REASONS)


def _bounded(path: Path) -> bytes:
    data = read_regular(path, MAX_FILE_BYTES)  # reading a FIFO would block every caller
    if len(data) > MAX_FILE_BYTES:
        raise FilesError(f"larger than {MAX_FILE_BYTES} bytes", (path,))
    return data
