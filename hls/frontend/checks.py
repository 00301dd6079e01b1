# SPDX-License-Identifier: Apache-2.0
"""Checks of a YAML's values. Each message gives the file, the field, what it holds, and what is expected."""

from __future__ import annotations

from pathlib import Path
from traceback import walk_tb
from typing import Any

from hypersonic.hls.errors import ConversionError

#: exceptions whose text is about the code that raised them, and not about the model
_OF_CODE = (TypeError, AttributeError, LookupError, NameError)


class DescriptionError(ConversionError):
    """A model does not exist, or the YAML beside it is wrong. The message gives the file, the field, and the expected value."""


def check_keys(where: str, value: dict[str, Any], known: set[str]) -> None:
    """Raise DescriptionError if the mapping `value` has a key outside `known`."""
    unknown = sorted(str(key) for key in value if key not in known)
    if unknown:
        raise DescriptionError(f"{where}: unknown field {', '.join(unknown)}, expected {', '.join(sorted(known))}")


def mapping(where: str, value: Any, known: set[str] | None = None) -> dict[str, Any]:
    """Return `value`, or {} for None.

    Raises DescriptionError.

    Args:
        known: the only keys that it may have.
    """
    content = {} if value is None else value
    if not isinstance(content, dict):
        raise DescriptionError(f"{where} is {content!r}, expected a mapping")
    if known is not None:
        check_keys(where, content, known)
    return content


def integer(where: str, value: Any, low: int, high: int) -> int:
    """Return `value` if it is an integer from low to high. Raises DescriptionError."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise DescriptionError(f"{where} is {value!r}, expected an integer from {low} to {high}")
    return value


def said_by(error: BaseException) -> str:
    """Return the text of another library's exception; if that is only about the library's code, say where the code stopped."""
    text = " ".join(str(error).split())
    if text and not isinstance(error, _OF_CODE):
        return text
    frame, line = [*walk_tb(error.__traceback__)][-1]
    return f"it stops at {Path(frame.f_code.co_filename).name}, line {line}"


def local_of(error: BaseException, *names: str) -> list[Any]:
    """Return the local variables of these names in the frames that an exception passed, the innermost first."""
    frames = [frame.f_locals for frame, _ in walk_tb(error.__traceback__)]
    return [held[name] for held in reversed(frames) for name in names if name in held]
