# SPDX-License-Identifier: Apache-2.0
"""One tensor's elements as JSON values, and as the bytes that raw contents would hold.

Nested and flat arrays are alike, as in Triton: only the count of elements has to be the shape's. Floats pass through double
precision: an FP32 reads as the double nearest to its text, rounded once more, and is written as the double it equals.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import numpy as np

from hypersonic.server.answer import Output
from hypersonic.server.datatype import DATATYPES, Datatype
from hypersonic.server.errors import InvalidRequestError, MalformedJsonError
from hypersonic.server.http.jsontext import array, wrong_type

#: datatypes that JSON has no values for
BINARY_ONLY = frozenset(("FP16", "BF16"))
_LENGTH = struct.Struct("<I")
#: numpy's kind -> (what its elements may be in JSON, Triton's word for it)
_KINDS: dict[str, tuple[frozenset[type], str]] = {
    "b": (frozenset((bool,)), "boolean"),
    "i": (frozenset((int,)), "signed-integer"),
    "u": (frozenset((int,)), "unsigned-integer"),
}


def encode(name: str, datatype: Datatype, shape: tuple[int, ...], data: Any) -> memoryview:
    """JSON values -> the tensor's bytes. Raises InvalidRequestError, MalformedJsonError; Triton's texts where it has one."""
    if datatype.name in BINARY_ONLY:
        raise InvalidRequestError(
            f"receiving {datatype.name} data via JSON is not supported. Please use the binary data format for input {name}"
        )
    values = _flat(array(data, "data"))
    kinds = frozenset(map(type, values))
    if datatype.name == "BYTES":
        return _strings(values, kinds)
    kind = np.dtype(datatype.numpy).kind
    if kind == "f":
        if not kinds <= {int, float}:
            raise MalformedJsonError("Unable to parse 'data': attempt to access JSON non-number as double")
    elif not kinds <= _KINDS[kind][0]:
        raise wrong_type("data", _KINDS[kind][1])
    if len(values) != prod(shape):
        raise MalformedJsonError("Unable to parse 'data': Shape does not match true shape of 'data' field")
    return memoryview(_numbers(values, datatype, kind).tobytes())


def _flat(data: list[Any]) -> list[Any]:
    if list not in set(map(type, data)):
        return data
    values: list[Any] = []
    _flatten(data, values)
    return values


def _flatten(data: list[Any], into: list[Any]) -> None:
    """Depth is bounded: the text was, before it was parsed."""
    if list not in set(map(type, data)):
        into.extend(data)
        return
    for value in data:
        if type(value) is list:
            _flatten(value, into)
        else:
            into.append(value)


def _strings(values: list[Any], kinds: Iterable[type]) -> memoryview:
    if set(kinds) - {str}:
        raise MalformedJsonError("Unable to parse JSON bytes array: attempt to access JSON non-string as string")
    encoded = [value.encode() for value in values]
    return memoryview(b"".join([part for value in encoded for part in (_LENGTH.pack(len(value)), value)]))


def _numbers(values: list[Any], datatype: Datatype, kind: str) -> np.ndarray[Any, Any]:
    try:
        if kind == "f":
            with np.errstate(over="ignore"):  # beyond FP32's range is infinity, as in Triton
                return np.array(values, np.float64).astype(datatype.numpy)
        return np.array(values, datatype.numpy)
    except OverflowError:
        raise _out_of_range(values, datatype, kind) from None


def _out_of_range(values: list[Any], datatype: Datatype, kind: str) -> MalformedJsonError | InvalidRequestError:
    if kind == "f":
        return MalformedJsonError("failed to parse the request JSON buffer: Number too big to be stored in double.")
    low, high = int(np.iinfo(datatype.numpy).min), int(np.iinfo(datatype.numpy).max)
    worst = next(value for value in values if not low <= value <= high)
    if datatype.size_bytes == 8 or (kind == "u" and worst < 0):
        return wrong_type("data", _KINDS[kind][1])
    return InvalidRequestError(f"Unable to parse 'data': {worst} is no {datatype.name}, which holds {low} to {high}")


def decode(name: str, output: Output) -> list[Any]:
    """An output's elements as JSON values, flat. Raises InvalidRequestError for what JSON cannot carry."""
    if output.datatype in BINARY_ONLY:
        raise InvalidRequestError(
            f"sending {output.datatype} data via JSON is not supported. Please use the binary data format for output"
        )
    data = b"".join(output.chunks)
    if output.datatype == "BYTES":
        return list(_texts(name, data))
    values: list[Any] = np.frombuffer(data, DATATYPES[output.datatype].numpy).tolist()
    return values


def _texts(name: str, data: bytes) -> Iterator[str]:
    at = 0
    while at + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        try:
            yield data[at - length : at].decode()
        except UnicodeDecodeError:
            raise InvalidRequestError(
                f"output '{name}' holds bytes that are no UTF-8 text, which JSON cannot carry. Please use the binary data "
                "format for output"
            ) from None
