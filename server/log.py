# SPDX-License-Identifier: Apache-2.0
"""The server's log, one line a record: on standard error, or in the file the command line names.

    default   I1121 09:28:00.054123 7695 app.py:177] Started GRPCInferenceService at 0.0.0.0:8001
    ISO8601   2026-11-21T09:28:00Z I 7695 app.py:177] Started GRPCInferenceService at 0.0.0.0:8001
    json      {"time": "2026-11-21T09:28:00.054123Z", "level": "info", "module": "app", "message": "Started ...", ...}

The first two are Triton's. What came from a client cannot forge a line: control characters are escaped.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypersonic.server.errors import InvalidRequestError, ServerError, StartError, UnsupportedError, printable

FORMATS = ("default", "ISO8601", "json")
#: whose records come here, from which level on: the exporter of traces says what it cannot send, the two servers what their
#: handlers raised; without a handler these would write lines of their own to standard error
_LOGGERS = {"hypersonic": logging.NOTSET, **dict.fromkeys(("opentelemetry", "uvicorn", "grpc", "asyncio"), logging.WARNING)}
_CONTEXT_KEY = "fields"
#: which setting decides on records of a level
_SETTING_OF = {
    "log_verbose_level": logging.DEBUG,
    "log_info": logging.INFO,
    "log_warning": logging.WARNING,
    "log_error": logging.ERROR,
}
#: of what a client named
_MOST_FIELD_CHARACTERS = 256


@dataclass(frozen=True)
class LogSettings:
    """The settings that LogSettings shows and changes. Each level is on or off by itself. file: "" = standard error."""

    log_file: str = ""
    log_info: bool = True
    log_warning: bool = True
    log_error: bool = True
    log_verbose_level: int = 0
    log_format: str = "default"

    def shows(self, level: int) -> bool:
        """Whether records of this level of `logging` are written."""
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
    """Log what is ours to mend: the error with whose request it was, as fields too where the log is JSON.

    request_id: where the error does not know it itself.
    """
    known = {"model": error.model_name, "request_id": error.request_id or request_id, "client": client}
    fields = {name: value[:_MOST_FIELD_CHARACTERS] for name, value in known.items() if value}
    about = ", ".join(f"{name.replace('_', ' ')} {value!r}" for name, value in fields.items())
    logger.error("%s%s", error, f" ({about})" if about else "", extra={_CONTEXT_KEY: fields})


class _TextFormatter(logging.Formatter):
    """Triton's two. A traceback follows on lines of its own, indented: what an exception says may be a client's text."""

    def __init__(self, *, iso8601: bool) -> None:
        super().__init__()
        self._iso8601 = iso8601

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        level = record.levelname[0]
        if self._iso8601:
            head = f"{_moment(record):%Y-%m-%dT%H:%M:%SZ} {level}"
        else:
            head = f"{level}{datetime.fromtimestamp(record.created).astimezone():%m%d %H:%M:%S.%f}"
        return f"{head} {record.process} {record.filename}:{record.lineno}] {printable(record.message)}"

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        return "\n".join(f"    {printable(line)}" for line in super().formatException(ei).split("\n"))


class _JsonFormatter(logging.Formatter):
    """One object a line; `extra={"fields": {...}}` of a logging call adds its own."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": f"{_moment(record):%Y-%m-%dT%H:%M:%S.%fZ}",
            "level": record.levelname.lower(),
            "module": record.module,
            "line": record.lineno,
            "process": record.process,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        more = getattr(record, _CONTEXT_KEY, None)
        fields |= {str(key): value for key, value in more.items() if key not in fields} if isinstance(more, Mapping) else {}
        try:
            return json.dumps(fields, default=str, allow_nan=False)
        except (TypeError, ValueError):  # a NaN, or a key that is no text, would make a line that is no JSON
            return json.dumps({key: str(value) for key, value in fields.items()})


def _formatter(name: str) -> logging.Formatter:
    return _JsonFormatter() if name == "json" else _TextFormatter(iso8601=name == "ISO8601")


class LogControl:
    """The log of this process and its settings. Any thread may read and change them."""

    def __init__(self, settings: LogSettings) -> None:
        """Attach the log to this package's loggers. Raises StartError for a file that cannot be written."""
        #: whether callers over the network may have less logged than the settings at start
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
        """Set some of the settings by their names, of their types, all or none.

        Raises InvalidRequestError for an unknown format, UnsupportedError for less of a log than callers may ask for.
        """
        unknown = changes.get("log_format", FORMATS[0])
        if unknown not in FORMATS:
            raise InvalidRequestError(f"invalid argument for log_format, got: {unknown[:64]}")
        with self._lock:
            wanted = replace(self.settings, **changes)
            if not self.may_reduce:
                self._refuse_less(wanted)
            self._apply(wanted)

    def _refuse_less(self, wanted: LogSettings) -> None:
        hidden = [name for name, level in _SETTING_OF.items() if self._started.shows(level) and not wanted.shows(level)]
        if hidden:
            raise UnsupportedError(
                f"the log cannot be reduced over the network: {', '.join(hidden)} would show less than the server was started "
                "with. Ask for credentials for the group 'logging' on every port (docs/security.md), or start the server with "
                "'--allow-client-log-off=true'"
            )


class _FileHandler(logging.Handler):
    """Appends to a file, a line a write. While the disk is full lines go to standard error, after one that says why."""

    def __init__(self, path: str) -> None:
        """Raises OSError."""
        super().__init__()
        self._path = path
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115 - closed with the handler
        #: the last line is not whole
        self._torn = False
        self._failed = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - as every handler of logging does
            self.handleError(record)
            return
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

    def _append(self, data: bytes) -> None:
        written = self._file.write(b"\n" + data if self._torn else data) - self._torn
        self._torn = written < len(data)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        self._file.close()
        super().close()


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
    """Begin to log, as the command line says. Raises StartError."""
    return LogControl(LogSettings(log_file, info, warning, error, verbose, log_format))
