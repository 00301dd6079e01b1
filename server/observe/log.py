# SPDX-License-Identifier: Apache-2.0
"""The server's log, one line for each record: on standard error, or in the file that the command line names.

::

    default   I1121 09:28:00.054123 7695 app.py:177] Started GRPCInferenceService at 0.0.0.0:8001
    ISO8601   2026-11-21T09:28:00Z I 7695 app.py:177] Started GRPCInferenceService at 0.0.0.0:8001
    json      {"time": "2026-11-21T09:28:00.054123Z", "level": "info", "module": "app", "message": "Started ...", ...}

The first two formats are Triton's. Control characters are escaped, so that text from a client cannot forge a line. Of a text
with more than 8192 characters, the beginning and the end are written.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypersonic.server.errors import InvalidRequestError, ServerError, StartError, UnsupportedError, printable, shortened

_LOG = logging.getLogger(__name__)
FORMATS = ("default", "ISO8601", "json")
#: logger -> the lowest level of its records that are logged here. The exporter of traces logs what it cannot send, and the two
#: servers log what their handlers raised; without a handler, these would write lines in another format to standard error
_LOGGERS = {"hypersonic": logging.NOTSET, **dict.fromkeys(("opentelemetry", "uvicorn", "grpc", "asyncio"), logging.WARNING)}
_CONTEXT_KEY = "fields"
#: setting -> the level whose records it switches
_SETTING_OF = {
    "log_verbose_level": logging.DEBUG,
    "log_info": logging.INFO,
    "log_warning": logging.WARNING,
    "log_error": logging.ERROR,
}
#: how often the log file's path is checked for a new file, in seconds
_CHECK_S = 1.0
#: the most characters of a name that a client chose
_MOST_FIELD_CHARACTERS = 256


@dataclass(frozen=True)
class LogSettings:
    """The settings that LogSettings shows and changes. Each level is switched separately.

    Attributes:
        log_file: "" = standard error.
    """

    log_file: str = ""
    log_info: bool = True
    log_warning: bool = True
    log_error: bool = True
    log_verbose_level: int = 0
    log_format: str = "default"

    def shows(self, level: int) -> bool:
        """Return whether records of a level of `logging` are written."""
        if level >= logging.ERROR:
            return self.log_error
        if level >= logging.WARNING:
            return self.log_warning
        return self.log_info if level >= logging.INFO else self.log_verbose_level > 0

    @property
    def lowest(self) -> int:
        """The lowest level that is written."""
        levels = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
        return next((level for level in levels if self.shows(level)), logging.CRITICAL + 1)


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def log_failure(logger: logging.Logger, error: ServerError, client: str, *, request_id: str = "") -> None:
    """Log an error of the server or of a model, with the model, the request and the client; in JSON these are fields too.

    Args:
        request_id: used if the error itself has none.
    """
    known = {"model": error.model_name, "request_id": error.request_id or request_id, "client": client}
    fields = {name: value[:_MOST_FIELD_CHARACTERS] for name, value in known.items() if value}
    about = ", ".join(f"{name.replace('_', ' ')} {value!r}" for name, value in fields.items())
    logger.error("%s%s", error, f" ({about})" if about else "", extra={_CONTEXT_KEY: fields})


def counted(count: int, one: str, many: str) -> str:
    """Return a count and its words: counted(1, "client was", "clients were") is "1 client was"."""
    return f"{count} {one if count == 1 else many}"


class _TextFormatter(logging.Formatter):
    """Triton's two formats. A traceback follows on indented lines, because an exception's text may come from a client."""

    def __init__(self, *, iso8601: bool) -> None:
        super().__init__()
        self._iso8601 = iso8601

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        level = record.levelname[0]
        if self._iso8601:
            head = f"{_moment(record):%Y-%m-%dT%H:%M:%SZ} {level}"
        else:
            head = f"{level}{datetime.fromtimestamp(record.created).astimezone():%m%d %H:%M:%S.%f}"
        return f"{head} {record.process} {record.filename}:{record.lineno}] {printable(shortened(record.message))}"

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        return "\n".join(f"    {printable(line)}" for line in shortened(super().formatException(ei)).split("\n"))


class _JsonFormatter(logging.Formatter):
    """One JSON object on each line. `extra={"fields": {...}}` of a logging call adds members."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": f"{_moment(record):%Y-%m-%dT%H:%M:%S.%fZ}",
            "level": record.levelname.lower(),
            "module": record.module,
            "line": record.lineno,
            "process": record.process,
            "thread": record.threadName,
            "message": shortened(record.getMessage()),
        }
        if record.exc_info:
            fields["exception"] = shortened(self.formatException(record.exc_info))
        more = getattr(record, _CONTEXT_KEY, None)
        fields |= {str(key): value for key, value in more.items() if key not in fields} if isinstance(more, Mapping) else {}
        try:
            return json.dumps(fields, default=str, allow_nan=False)
        except (TypeError, ValueError):  # a NaN, or a key that is not text, cannot be written as JSON
            return json.dumps({key: str(value) for key, value in fields.items()})


def _formatter(name: str) -> logging.Formatter:
    return _JsonFormatter() if name == "json" else _TextFormatter(iso8601=name == "ISO8601")


class LogControl:
    """The log of this process and its settings. Any thread may read and change them."""

    def __init__(self, settings: LogSettings) -> None:
        """Attach the log to the loggers. Raises StartError for a file that cannot be written."""
        #: whether clients may switch off records that the settings at start write
        self.may_reduce = False
        self._started = settings
        self._lock = threading.Lock()
        self._handler = _handler(settings.log_file)
        self._handler.addFilter(lambda record: self.settings.shows(record.levelno))
        self._apply(settings)
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            logger.handlers[:] = [self._handler]
            logger.propagate = False

    def _apply(self, settings: LogSettings) -> None:
        self.settings = settings
        self._handler.setFormatter(_formatter(settings.log_format))
        for name, least in _LOGGERS.items():
            logging.getLogger(name).setLevel(max(settings.lowest, least))

    def update(self, changes: Mapping[str, Any]) -> None:
        """Change settings, all of them or none.

        Args:
            changes: name -> value, of the types of LogSettings.

        Raises:
            InvalidRequestError: For an unknown format.
            UnsupportedError: If clients may not reduce the log in this way.
        """
        unknown = changes.get("log_format", FORMATS[0])
        if unknown not in FORMATS:
            raise InvalidRequestError(f"invalid argument for log_format, got: {unknown[:64]}")
        with self._lock:
            wanted = replace(self.settings, **changes)
            if not self.may_reduce:
                self._refuse_less(wanted)
            before = self.settings
            if before.log_info:
                _tell(before, wanted)
            self._apply(wanted)
            if not before.log_info:
                _tell(before, wanted)

    def _refuse_less(self, wanted: LogSettings) -> None:
        hidden = [name for name, level in _SETTING_OF.items() if self._started.shows(level) and not wanted.shows(level)]
        if hidden:
            raise UnsupportedError(
                f"the log cannot be reduced over the network: {', '.join(hidden)} would show less than the server was started "
                "with. Ask for credentials for the group 'logging' on every port (docs/security.md), or start the server with "
                "'--allow-client-log-off=true'"
            )


def _tell(before: LogSettings, after: LogSettings) -> None:
    """Log what a client has changed, while records of level INFO are written."""
    was, now = asdict(before), asdict(after)
    if changes := ", ".join(f"{name} from {was[name]!r} to {now[name]!r}" for name in was if was[name] != now[name]):
        _LOG.info("a client changes the log settings: %s", changes)


class _FileHandler(logging.Handler):
    """Appends to a file, with one write for each line. If that fails, lines go to standard error, after one with the reason.

    A file that has been renamed or deleted (rotated) is opened again by its path, at most a second later.
    """

    def __init__(self, path: str) -> None:
        """Open the file. Raises OSError."""
        super().__init__()
        self._path = path
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115 - closed with the handler
        self._checked_s = time.monotonic()
        #: True if the last line was not written completely
        self._torn = False
        self._failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record. Raises nothing."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - every handler of logging does this
            self.handleError(record)
            return
        self._follow()
        try:
            self._append(f"{line}\n".encode(errors="backslashreplace"))
            self._failed = False
        except OSError as error:
            if not self._failed:
                sys.stderr.write(
                    f"log file {self._path} cannot be written: {error.strerror}; its lines follow here until it can\n"
                )
            self._failed = True
            sys.stderr.write(f"{line}\n")

    def _follow(self) -> None:
        """Open the path again if it leads to another file, or to none. If that fails, the old file stays in use."""
        now_s = time.monotonic()
        if now_s - self._checked_s < _CHECK_S:
            return
        self._checked_s = now_s
        try:
            if _is_at(self._path, self._file.fileno()):
                return
            file = Path(self._path).open("ab", buffering=0)  # noqa: SIM115 - closed with the handler
        except OSError:
            return
        self._file.close()
        self._file, self._torn = file, False

    def _append(self, data: bytes) -> None:
        written = self._file.write(b"\n" + data if self._torn else data) - self._torn
        self._torn = written < len(data)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def _is_at(path: str, descriptor: int) -> bool:
    """Return whether a path leads to an open file. Raises OSError, but not for a path that does not exist."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))  # noqa: PTH116 - one call, without a Path for each line
    except FileNotFoundError:
        return False


def _handler(file: str) -> logging.Handler:
    if not file:
        return logging.StreamHandler(sys.stderr)
    try:
        return _FileHandler(file)
    except OSError as error:
        raise StartError(f"--log-file {file} cannot be written: {error.strerror}") from error


def configure(
    *, verbose: int, info: bool, warning: bool, error: bool, log_format: str = "default", log_file: str = ""
) -> LogControl:
    """Begin to log.

    Args:
        verbose: log_verbose_level.

    Raises:
        StartError: For a file that cannot be written.
    """
    return LogControl(LogSettings(log_file, info, warning, error, verbose, log_format))
