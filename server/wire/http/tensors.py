# SPDX-License-Identifier: Apache-2.0
"""Converts one tensor between JSON values and the bytes of raw contents.

As in Triton, nested and flat arrays mean the same: only the number of elements has to match the shape. Floats pass through
double precision: the text of an FP32 is read as the nearest double and then rounded to FP32, and an FP32 is written as the
double that equals it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from hypersonic.server.core.datatype import DATATYPES, Datatype
from hypersonic.server.core.inference.answer import Output
from hypersonic.server.core.inference.strings import pack_strings, walk_strings
from hypersonic.server.errors import InvalidRequestError, MalformedJsonError
from hypersonic.server.wire.http.jsonscan import LongArray
from hypersonic.server.wire.http.jsontext import elements, wrong_type

#: datatypes that cannot be sent as JSON, as in Triton
BINARY_ONLY = frozenset(("FP16", "BF16"))
_PIECE_ELEMENTS = 1 << 12
_WRONG_COUNT = "Unable to parse 'data': Shape does not match true shape of 'data' field"
_INT64 = range(-(2**63), 2**64)
#: numpy's kind -> (the Python types that JSON values of it have, Triton's name for it)
_KINDS: dict[str, tuple[frozenset[type], str]] = {
    "b": (frozenset((bool,)), "boolean"),
    "i": (frozenset((int,)), "signed-integer"),
    "u": (frozenset((int,)), "unsigned-integer"),
}


def encode(name: str, datatype: Datatype, shape: tuple[int, ...], data: Any) -> memoryview:
    """Convert JSON values into the tensor's bytes, little endian.

    Args:
        data: an array or a LongArray.

    Raises:
        InvalidRequestError: (400) for a value that the datatype cannot hold.
        MalformedJsonError: (500, as in Triton) for values of another type or a wrong number of elements.
    """
    if datatype.name in BINARY_ONLY:
        raise InvalidRequestError(
            f"receiving {datatype.name} data via JSON is not supported. Please use the binary data format for input {name}"
        )
    given = elements(data, "data")
    if isinstance(given, LongArray):
        return _encode_pieces(name, datatype, prod(shape), given)
    values = _flat(given)
    encoded = _encode(name, values, datatype)
    if datatype.size_bytes and len(values) != prod(shape):  # strings are counted later, with the model, as in Triton
        raise MalformedJsonError(_WRONG_COUNT)
    return memoryview(encoded)


def _encode_pieces(name: str, datatype: Datatype, count: int, given: LongArray) -> memoryview:
    encoded: list[bytes] = []
    count_so_far = 0
    for values in given.pieces():
        count_so_far += len(values)
        if count_so_far > count:
            break
        encoded.append(_encode(name, values, datatype))
    if count_so_far != count:
        raise MalformedJsonError(_WRONG_COUNT)
    return memoryview(b"".join(encoded))


def _encode(name: str, values: list[Any], datatype: Datatype) -> bytes:
    kinds = frozenset(map(type, values))
    if datatype.name == "BYTES":
        return _strings(values, kinds)
    kind = np.dtype(datatype.numpy).kind
    if kind == "f":
        if not kinds <= {int, float}:
            raise MalformedJsonError("Unable to parse 'data': attempt to access JSON non-number as double")
    elif not kinds <= _KINDS[kind][0]:
        raise wrong_type("data", _KINDS[kind][1])
    return _numbers(name, values, datatype, kind).tobytes()


def _flat(data: list[Any]) -> list[Any]:
    """Return the elements of nested arrays. The recursion depth is bounded: it was checked before the text was parsed."""
    if list not in set(map(type, data)):
        return data
    return [element for value in data for element in (_flat(value) if type(value) is list else (value,))]


def _strings(values: list[Any], kinds: frozenset[type]) -> bytes:
    if kinds - {str}:
        raise MalformedJsonError("Unable to parse JSON bytes array: attempt to access JSON non-string as string")
    return bytes(pack_strings(values))


def _numbers(name: str, values: list[Any], datatype: Datatype, kind: str) -> np.ndarray[Any, Any]:
    try:
        if kind == "f":
            with np.errstate(over="raise"):  # for a number that becomes infinite, but not for Infinity
                return np.array(values, np.float64).astype(datatype.numpy)
        return np.array(values, datatype.numpy)
    except FloatingPointError:
        raise _too_large(name, np.array(values, np.float64), datatype) from None
    except OverflowError:
        raise _out_of_range(name, values, datatype, kind) from None


def _too_large(name: str, values: np.ndarray[Any, Any], datatype: Datatype) -> InvalidRequestError:
    with np.errstate(over="ignore"):
        overflowed = np.isfinite(values) & np.isinf(values.astype(datatype.numpy))
    worst, most = float(values[overflowed.argmax()]), float(np.finfo(datatype.numpy).max)
    return InvalidRequestError(
        f"input '{name}': {worst} does not fit {datatype.name}, which holds {-most} to {most}, NaN and Infinity"
    )


def _out_of_range(name: str, values: list[Any], datatype: Datatype, kind: str) -> MalformedJsonError | InvalidRequestError:
    if kind == "f":
        return MalformedJsonError("failed to parse the request JSON buffer: Number too big to be stored in double.")
    low, high = int(np.iinfo(datatype.numpy).min), int(np.iinfo(datatype.numpy).max)
    worst = next(value for value in values if not low <= value <= high)
    if datatype.size_bytes == 8 or (kind == "u" and worst < 0) or worst not in _INT64:  # RapidJSON reads these as doubles
        return wrong_type("data", _KINDS[kind][1])
    return InvalidRequestError(f"input '{name}': {worst} does not fit {datatype.name}, which holds {low} to {high}")


def decode(name: str, output: Output) -> bytes:
    """Return an output's elements as a flat JSON array.

    Raises InvalidRequestError (400) for a datatype that JSON lacks, and for strings that are not UTF-8.
    """
    if output.datatype in BINARY_ONLY:
        raise InvalidRequestError(
            f"sending {output.datatype} data via JSON is not supported. Please use the binary data format for output"
        )
    data = b"".join(output.chunks)
    pieces = _texts(name, data) if output.datatype == "BYTES" else _values(data, output.datatype)
    return b"[" + b",".join([to_json(piece)[1:-1] for piece in pieces if piece]) + b"]"


def _values(data: bytes, datatype: str) -> Iterator[list[Any]]:
    """Yield some thousands of values at a time, because writing numbers as text holds the interpreter's lock."""
    values = np.frombuffer(data, DATATYPES[datatype].numpy)
    for start in range(0, len(values), _PIECE_ELEMENTS):
        yield values[start : start + _PIECE_ELEMENTS].tolist()


def _texts(name: str, data: bytes) -> Iterator[list[str]]:
    bounds = walk_strings(memoryview(data))
    while piece := [_text(name, data[start:stop]) for start, stop in islice(bounds, _PIECE_ELEMENTS) if start <= len(data)]:
        yield piece


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidRequestError(
            f"output '{name}' holds bytes that are not UTF-8 text, which JSON cannot represent. Please use the binary data "
            "format for output"
        ) from None


def to_json(value: Any) -> bytes:
    """Return a value as JSON in UTF-8 as Triton writes it: without blanks, and with the words NaN and Infinity."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace")
