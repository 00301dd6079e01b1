# SPDX-License-Identifier: Apache-2.0
"""Triton's datatypes as numpy arrays, and their bytes on the wire (Triton's "Binary Tensor Data Extension")."""

from __future__ import annotations

import struct
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.errors import AnswerError, InputError

#: the numpy dtype of each datatype. numpy has none for BF16: its numbers are float32 here, as in tritonclient
DTYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BF16": np.dtype("<f4"),
    "BYTES": np.dtype(object),
}


#: the smallest number that is infinite when it is rounded to BF16
_BF16_INFINITE = np.float32(2.0**128 - 2.0**119)


def as_elements(name: str, datatype: str, values: Any) -> NDArray[Any]:
    """Return the values as an array of the datatype's dtype, without a copy if they already are such an array.

    Raises InputError for what converted() refuses, such as floats where the model takes integers, and for masked values.
    """
    plain = isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray)
    if plain and values.dtype == DTYPES[datatype] and datatype != "BF16":
        return values  # type: ignore[no-any-return] # an array, as `plain` says
    if not plain and (masked := _masked(values)):
        raise InputError(f"input {name!r} has {masked} masked values, expected none")
    if isinstance(values, np.ma.MaskedArray):
        values = values.data
    try:
        array = np.asarray(values, object) if datatype == "BYTES" else np.asarray(values)
    except ValueError as error:
        raise InputError(
            f"input {name!r} is not a rectangular array: {error}; use Ragged or Rectangular for lists of arrays"
        ) from error
    try:
        return converted(datatype, array)
    except ValueError as error:
        raise InputError(f"input {name!r} {error}") from error


def _masked(values: Any) -> int:
    """Return the number of masked values in an array, or in the arrays of a list, whose masks numpy would drop."""
    if isinstance(values, np.ma.MaskedArray):
        return int(np.sum(values.mask))
    return sum(map(_masked, values)) if isinstance(values, list | tuple) else 0


def converted(datatype: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in the datatype's dtype, without a copy if it has that dtype.

    Floats become narrower or wider floats, and are rounded. Integers become floats, or integers that hold them. Raises
    ValueError for any other conversion, for an integer out of range, and for a finite number that would become infinite.
    """
    dtype, given = DTYPES[datatype], array.dtype
    if datatype == "BF16" and given.name == "bfloat16":
        return array.astype(np.float32)
    known = {"b": "b", "i": "iu", "u": "iu", "f": "iuf", "O": "O"}[dtype.kind]
    if given.kind not in known:
        raise ValueError(f"is of dtype {given}, expected {dtype}, for {datatype}")
    if dtype.kind in "iu" and array.size and not np.can_cast(given, dtype):
        limits = np.iinfo(dtype)
        for value in (array.min(), array.max()):
            if not limits.min <= int(value) <= limits.max:
                raise ValueError(f"has {value}, expected {limits.min} to {limits.max}, for {datatype}")
    with np.errstate(over="ignore"):  # reported below, with the number
        made = array.astype(dtype, copy=False)
    infinite_from = _BF16_INFINITE if datatype == "BF16" else np.inf
    narrower = dtype.kind == "f" and (datatype == "BF16" or not np.can_cast(given, dtype))
    if narrower and (lost := (np.abs(made) >= infinite_from) & np.isfinite(array)).any():
        largest = "3.3895314e+38" if datatype == "BF16" else str(np.finfo(dtype).max)
        raise ValueError(f"has {array[lost].flat[0]}, which is infinite as {datatype}; the largest number is {largest}")
    return made


def to_buffer(name: str, datatype: str, array: NDArray[Any]) -> bytes | NDArray[Any]:
    """Return an array's bytes on the wire: the array itself if its memory has them in order, otherwise a copy.

    BF16 rounds to nearest, ties to even. Each of BYTES' elements is preceded by its length, 4 bytes little endian.
    """
    if datatype == "BYTES":
        return b"".join(_with_length(name, element) for element in array.ravel())
    if datatype == "BF16":
        return _to_bfloat16(array)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def from_buffer(name: str, datatype: str, shape: tuple[int, ...], buffer: memoryview) -> NDArray[Any]:
    """Return the array in a buffer, read-only. Only BF16 (as float32) and BYTES (as objects of type bytes) are copied.

    Raises AnswerError if the buffer's size does not fit the shape.
    """
    count = prod(shape)
    if datatype == "BYTES":
        return _reshaped(name, _split(name, count, buffer), shape)
    itemsize = 2 if datatype == "BF16" else DTYPES[datatype].itemsize
    if len(buffer) != count * itemsize:
        raise AnswerError(
            f"output {name!r} has {len(buffer)} bytes, expected {count * itemsize} for shape {shape} of {datatype}"
        )
    flat = np.frombuffer(buffer, "<u2").astype("<u4") << 16 if datatype == "BF16" else np.frombuffer(buffer, np.uint8)
    return _reshaped(name, flat.view(DTYPES[datatype]), shape)


def _reshaped(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    try:
        return array.reshape(shape)
    except ValueError as error:  # such as (0, 2^63 - 1)
        raise AnswerError(f"output {name!r} has shape {shape}, which no array can have: {error}") from error


def _to_bfloat16(array: NDArray[Any]) -> NDArray[np.uint16]:
    bits = np.ascontiguousarray(array).view(np.uint32)
    rounded = (bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16
    quiet = (bits >> 16) | 0x40  # a NaN stays a NaN
    return np.where(np.isnan(array), quiet, rounded).astype("<u2")


def _with_length(name: str, element: object) -> bytes:
    try:
        data = element.encode() if isinstance(element, str) else element
    except UnicodeEncodeError as error:
        raise InputError(f"input {name!r} has an element that is not UTF-8: {error}") from error
    if not isinstance(data, bytes):
        raise InputError(f"input {name!r} has an element of type {type(element).__name__}, expected bytes or str, for BYTES")
    return struct.pack("<I", len(data)) + data


def _split(name: str, count: int, buffer: memoryview) -> NDArray[Any]:
    """Return the elements of a BYTES tensor. They are counted before memory for them is taken."""
    elements: list[bytes] = []
    at = 0
    while at < len(buffer) and len(elements) <= count:
        end = at + 4 + int.from_bytes(buffer[at : at + 4], "little")
        if end > len(buffer) or at + 4 > len(buffer):
            raise AnswerError(f"output {name!r} ends inside element {len(elements)} of {count}")
        elements.append(bytes(buffer[at + 4 : end]))
        at = end
    if len(elements) != count or at != len(buffer):
        raise AnswerError(f"output {name!r} has {len(elements)} elements in {len(buffer)} bytes, expected {count}")
    made = np.empty(count, object)
    made[:] = elements
    return made
