# SPDX-License-Identifier: Apache-2.0
"""Parses JSON from the network, after its size has been checked, and reads its members. The texts for members are Triton's."""

from __future__ import annotations

import secrets
from typing import Any

from hypersonic.server.errors import InvalidRequestError, MalformedJsonError
from hypersonic.server.wire.http.jsonscan import SHORT_BYTES, LongArray, check_depth, loads, outline

_UINT64_MAX = 2**64 - 1
#: the most values outside tensors' data; a value takes up to a hundred bytes of memory
_MOST_VALUES = 1 << 15
_MOST_BYTES = 1 << 18


def parse(body: bytes | bytearray | memoryview) -> Any:
    """Parse JSON text.

    Raises MalformedJsonError (500, as in Triton), and InvalidRequestError (400) for a text that is nested too deeply or has
    more than 32768 values.
    """
    data = bytes(body)
    check_depth(data)
    if data.count(b",") >= _MOST_VALUES:
        raise InvalidRequestError(f"JSON of more than {_MOST_VALUES} values outside tensors' data is refused")
    return loads(data)


def parse_request(body: memoryview) -> Any:
    """Parse the JSON of an inference request. A long `data` array of an input becomes a LongArray. Raises as parse() does."""
    if len(body) <= SHORT_BYTES:
        return parse(body)
    text, arrays = outline(bytes(body), secrets.token_hex(16))
    if len(text) > _MOST_BYTES:
        raise InvalidRequestError(
            f"the request's JSON has {len(text)} bytes outside its tensors' data, expected at most {_MOST_BYTES}"
        )
    document = parse(text)
    inputs = optional(document, "inputs")
    for value in inputs if isinstance(inputs, list) else ():
        if isinstance(value, dict) and isinstance(key := value.get("data"), str):
            value["data"] = arrays.get(key, key)
    return document


def member(value: Any, key: str) -> Any:
    """Return a member of an object. Raises MalformedJsonError if there is none."""
    if not isinstance(value, dict) or key not in value:
        raise MalformedJsonError(f"Unable to parse '{key}': attempt to access non-existing object member '{key}'")
    return value[key]


def optional(value: Any, key: str) -> Any:
    """Return a member of an object, None if there is none. JSON's null counts as none, as in Triton."""
    return value.get(key, None) if isinstance(value, dict) else None


def string(value: Any, key: str) -> str:
    """Return the value of the member `key` as a string. Raises MalformedJsonError for another type."""
    if not isinstance(value, str):
        raise wrong_type(key, "string")
    return value


def unsigned(value: Any, key: str) -> int:
    """Return the value of the member `key` as an unsigned 64-bit integer. Raises MalformedJsonError for any other value."""
    if type(value) is not int or not 0 <= value <= _UINT64_MAX:
        raise wrong_type(key, "unsigned-integer")
    return value


def boolean(value: Any, key: str) -> bool:
    """Return the value of the member `key` as a boolean. Raises MalformedJsonError for another type."""
    if not isinstance(value, bool):
        raise wrong_type(key, "boolean")
    return value


def elements(value: Any, key: str) -> list[Any] | LongArray:
    """Return the value of the member `key` as an array, parsed or not. Raises MalformedJsonError for another type."""
    return value if isinstance(value, LongArray) else array(value, key)


def array(value: Any, key: str) -> list[Any]:
    """Return the value of the member `key` as an array. Raises MalformedJsonError for another type."""
    if not isinstance(value, list):
        raise wrong_type(key, "array")
    return value


def members(value: Any, what: str) -> dict[str, Any]:
    """Return an object's members, none for None.

    Args:
        what: begins the error text.

    Raises:
        MalformedJsonError: For another type.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedJsonError(f"{what}attempt to get members for non-object")
    return value


def wrong_type(key: str, kind: str, verb: str = "parse") -> MalformedJsonError:
    """Return the error for a value that is not of the type `kind`, with Triton's text.

    Args:
        key: the member, "" = not named.
    """
    of_what = f"Unable to {verb} '{key}': " if key else ""
    return MalformedJsonError(f"{of_what}attempt to access JSON non-{kind} as {kind}")
