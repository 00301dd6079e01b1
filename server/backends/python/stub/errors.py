# SPDX-License-Identifier: Apache-2.0
"""The errors that a model raises or answers, and the texts, in Triton's format, that clients read."""

from __future__ import annotations

import sys
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import ClassVar


class TritonModelException(Exception):  # noqa: N818 - Triton's name
    """A model used the interface incorrectly, or wants its run to fail."""


class Refusal(Exception):  # noqa: N818 - no error of the model's code
    """A model returned something invalid; the message is complete and needs no traceback."""


class ErrorCode(IntEnum):
    """The values of TRITONSERVER_Error_Code."""

    UNKNOWN = 0
    INTERNAL = 1
    NOT_FOUND = 2
    INVALID_ARG = 3
    UNAVAILABLE = 4
    UNSUPPORTED = 5
    ALREADY_EXISTS = 6
    CANCELLED = 7


class TritonError:
    """The error of one response, with one of this class's constants as its code: INTERNAL by default."""

    UNKNOWN: ClassVar = ErrorCode.UNKNOWN
    INTERNAL: ClassVar = ErrorCode.INTERNAL
    NOT_FOUND: ClassVar = ErrorCode.NOT_FOUND
    INVALID_ARG: ClassVar = ErrorCode.INVALID_ARG
    UNAVAILABLE: ClassVar = ErrorCode.UNAVAILABLE
    UNSUPPORTED: ClassVar = ErrorCode.UNSUPPORTED
    ALREADY_EXISTS: ClassVar = ErrorCode.ALREADY_EXISTS
    CANCELLED: ClassVar = ErrorCode.CANCELLED

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INTERNAL) -> None:
        """Raise TypeError if the message is not text or the code is not one of the constants."""
        if not isinstance(message, str) or not isinstance(code, ErrorCode):
            raise TypeError(f"TritonError(message: str, code: TritonError.<constant>): got {message!r}, {code!r}")
        self._message = message
        self._code = code

    def message(self) -> str:
        """Return the text that the client reads."""
        return self._message

    def code(self) -> ErrorCode:
        """Return the code, which the server maps to a gRPC status and an HTTP status."""
        return self._code


_OWN = str(Path(__file__).parent)


def describe(error: BaseException, repository: str) -> str:
    """Return `Type: text`, then the traceback, innermost frame first.

    Paths are relative to the repository or to an entry of sys.path.
    """
    if isinstance(error, Refusal):
        return str(error).replace(f"{repository}/", "")
    text = f"{type(error).__name__}: {error}"
    places = "".join(f"  {_short(file, repository)}({line}): {name}\n" for file, line, name in _places(error.__traceback__))
    return (f"{text}\n\nAt:\n{places}" if places else text).replace(f"{repository}/", "")


def _places(traceback: TracebackType | None) -> list[tuple[str, int, str]]:
    """Return (file, line, function) of each frame, innermost first, without those of this package and of importlib."""
    places: list[tuple[str, int, str]] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith((_OWN, "<frozen ")) and "importlib" not in code.co_filename:
            places.append((code.co_filename, traceback.tb_lineno, code.co_name))
        traceback = traceback.tb_next
    return places[::-1]


def _short(file: str, repository: str) -> str:
    roots = [repository, *(path for path in sys.path if path)]
    inside = [root for root in roots if file.startswith(f"{root}/")]
    return file[len(max(inside, key=len)) + 1 :] if inside and not file.startswith(f"{repository}/") else file
