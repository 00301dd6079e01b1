# SPDX-License-Identifier: Apache-2.0
"""Logger: a model's lines in the server's log."""

from __future__ import annotations

import sys
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import ClassVar

from hypersonic.server.backends.python.stub.calls import PROCESS
from hypersonic.server.backends.python.stub.errors import TritonModelException


class LogLevel(IntEnum):
    """The log levels, with Triton's numbers."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3


class Logger:
    """The log. All methods are static, as in Triton."""

    INFO: ClassVar = LogLevel.INFO
    WARNING: ClassVar = LogLevel.WARNING
    ERROR: ClassVar = LogLevel.ERROR
    VERBOSE: ClassVar = LogLevel.VERBOSE

    @staticmethod
    def log(message: str, level: LogLevel = LogLevel.INFO) -> None:
        """Log a line. Raises TypeError if the message is not text or the level is not one of the constants."""
        if not isinstance(level, LogLevel):
            raise TypeError(f"log(message: str, level: Logger.LogLevel): got level {level!r}")
        _log(message, level)

    @staticmethod
    def log_info(message: str) -> None:
        """Log a line at level INFO."""
        _log(message, LogLevel.INFO)

    @staticmethod
    def log_warn(message: str) -> None:
        """Log a line at level WARNING."""
        _log(message, LogLevel.WARNING)

    @staticmethod
    def log_error(message: str) -> None:
        """Log a line at level ERROR."""
        _log(message, LogLevel.ERROR)

    @staticmethod
    def log_verbose(message: str) -> None:
        """Log a line that is shown with --log-verbose."""
        _log(message, LogLevel.VERBOSE)


def _log(message: str, level: LogLevel) -> None:
    if not isinstance(message, str):
        raise TypeError(f"log(message: str): got {type(message).__name__}")
    caller = sys._getframe(2)
    if PROCESS.calls is not None:
        with suppress(TritonModelException):  # the server is gone
            PROCESS.calls.tell(["log", int(level), message, Path(caller.f_code.co_filename).name, caller.f_lineno])


# Triton's models use Logger.LogLevel; inside the class the name would hide the type
Logger.LogLevel = LogLevel  # type: ignore[attr-defined]
