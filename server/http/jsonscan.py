# SPDX-License-Identifier: Apache-2.0
"""The structure of a JSON text without parsing it: brackets outside strings, long arrays found and taken apart.

Python's parser holds the interpreter for as long as a text lasts, and takes up to eighty times its size: 64 MiB of `"",` are
five gigabytes. So the arrays that hold a request's tensors are cut out of the text before it is parsed, and parsed piece by
piece. What is scanned here is scanned in blocks, as arrays.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypersonic.server.errors import InvalidRequestError, MalformedJsonError

MAX_DEPTH = 100
#: arrays at this depth are cut out: {"inputs":[{"data":[
_TENSOR_DEPTH = 4
#: a text, and an array in it, below this many bytes is parsed as it is
SHORT_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 20
_PIECE_BYTES = 1 << 15
_QUOTE, _COMMA, _OPENING, _CLOSING = (ord(c) for c in '",[]')
_STEPS = np.zeros(256, np.int8)
_STEPS[[ord("["), ord("{")]] = 1
_STEPS[[ord("]"), ord("}")]] = -1
#: brackets that do not nest arrays as JSON does, in a text whose strings are masked
_MISPLACED = re.compile(rb"[^\[,\s]\s*\[|\]\s*[^\],\s]|\[\s*[\],]|,\s*\]")
#: what the words Infinity and -Infinity are read as, always the same objects: a number too large for a double becomes another
INFINITIES: tuple[float, ...] = tuple(json.loads("[Infinity, -Infinity]"))
#: numbers that may be past the largest double
_LARGE = re.compile(r"[eE]\+?[0-9]{3}")
_SHAPE = "Unable to parse 'data': Shape does not match true shape of 'data' field"


class Brackets(NamedTuple):
    """Those of one block outside strings: places in the text, 1 or -1 for each, and the depth behind each."""

    places: NDArray[np.int64]
    steps: NDArray[np.int8]
    depths: NDArray[np.int64]


def mask_escapes(data: bytes) -> bytes:
    """A text as long, in which every quote begins or ends a string."""
    # pairs first, so that of a backslash, a backslash and a quote the first two go together
    return data.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in data else data


def brackets(masked: bytes) -> Iterator[Brackets]:
    """Block by block. Raises InvalidRequestError when they nest deeper than MAX_DEPTH. Text that is no JSON is not judged."""
    depth, inside = 0, False
    for start in range(0, len(masked), _BLOCK_BYTES):
        block = np.frombuffer(masked, np.uint8, min(_BLOCK_BYTES, len(masked) - start), start)
        quoted = _quoted(block) ^ inside
        inside = bool(quoted[-1])
        steps = _STEPS[block]
        places = np.flatnonzero((steps != 0) & ~quoted)
        depths = depth + np.cumsum(steps[places], dtype=np.int64)
        if depths.size:
            if depths.max() > MAX_DEPTH:
                raise InvalidRequestError(f"JSON nested deeper than {MAX_DEPTH} levels is refused")
            depth = int(depths[-1])
        yield Brackets(places + start, steps[places], depths)


def _quoted(block: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """From each opening quote up to its closing one, which is left out; the block begins outside strings."""
    return np.logical_xor.accumulate(block == _QUOTE)


def check_depth(data: bytes) -> None:
    """Raises InvalidRequestError when brackets outside strings nest deeper than MAX_DEPTH."""
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        for _ in brackets(mask_escapes(data)):
            pass


class LongArray:
    """A tensor's elements in a JSON text, not parsed yet. Nesting counts for nothing, as in Triton, but has to be JSON's."""

    def __init__(self, data: bytes, masked: bytes, start: int, stop: int) -> None:
        """From behind its opening bracket to its closing one."""
        self._data = data
        self._masked = masked
        self._start = start
        self._stop = stop

    def pieces(self) -> Iterator[list[Any]]:
        """Its elements, flat, some thousands at a time. Raises MalformedJsonError."""
        at = self._start
        while at < self._stop:
            cut, text, masked = self._piece(at)
            if b"{" in masked or b"}" in masked or _MISPLACED.search(masked):
                raise MalformedJsonError(_SHAPE)
            yield _elements(text, at)
            at = cut + 1
        if self._data[self._stop - 1] == _COMMA:
            raise MalformedJsonError(f"failed to parse the request JSON buffer: Invalid value. at {self._stop}")

    def _piece(self, at: int) -> tuple[int, bytes, bytes]:
        """(where it ends, its text without brackets, the same with brackets and strings masked), up to a comma."""
        size = _PIECE_BYTES
        while True:
            stop = min(at + size, self._stop)
            block = np.frombuffer(self._masked, np.uint8, stop - at, at)
            quoted = _quoted(block)
            commas = np.flatnonzero((block == _COMMA) & ~quoted)
            if stop == self._stop or commas.size:
                length = stop - at if stop == self._stop else int(commas[-1])
                masked = np.where(quoted | (block == _QUOTE), np.uint8(ord("x")), block)[:length]
                text = np.frombuffer(self._data, np.uint8, length, at).copy()
                text[(_STEPS[masked] != 0)] = ord(" ")
                return at + length, text.tobytes(), masked.tobytes()
            size *= 2


def loads(text: str) -> Any:
    """JSON text -> Python objects; a number past the largest double is no infinity. Raises ValueError, JSONDecodeError."""
    if ("e" in text or "E" in text) and _LARGE.search(text):
        return json.loads(text, parse_float=_double)
    return json.loads(text)


def _double(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("number too big")
    return value


def _elements(text: bytes, at: int) -> list[Any]:
    try:
        values: list[Any] = loads(f"[{text.decode()}]")
    except UnicodeDecodeError as error:
        raise malformed("Invalid encoding in string.", at + error.start) from error
    except json.JSONDecodeError as error:
        raise malformed("Invalid value.", at + error.pos - 1) from error
    except ValueError as error:  # or an integer of thousands of digits
        raise malformed("Number too big to be stored in double.", at) from error
    if not values:
        raise malformed("Invalid value.", at)
    return values


def malformed(reason: str, offset: int) -> MalformedJsonError:
    """Triton's text."""
    return MalformedJsonError(f"failed to parse the request JSON buffer: {reason} at {offset}")


class Outline(NamedTuple):
    """A text with its long arrays cut out: in their places stand strings, the keys of `arrays`."""

    text: bytes
    arrays: dict[str, LongArray]


def outline(data: bytes, token: str) -> Outline:
    """token: what no text contains, so that keys made of it are known again. Raises InvalidRequestError past MAX_DEPTH."""
    masked = mask_escapes(data)
    pieces: list[bytes] = []
    arrays: dict[str, LongArray] = {}
    kept = 0
    for start, stop in _long_arrays(masked):
        key = f"{token}{len(arrays)}"
        arrays[key] = LongArray(data, masked, start + 1, stop)
        pieces += (data[kept:start], f'"{key}"'.encode())
        kept = stop + 1
    return Outline(b"".join((*pieces, data[kept:])), arrays)


def _long_arrays(masked: bytes) -> list[tuple[int, int]]:
    """(place of the opening bracket, of the closing one) of each long array at the depth of tensors."""
    opened, closed = [], []
    for piece in brackets(masked):
        into = (piece.steps == 1) & (piece.depths == _TENSOR_DEPTH)
        opened.append(piece.places[into])
        closed.append(piece.places[(piece.steps == -1) & (piece.depths == _TENSOR_DEPTH - 1)])
    openings, closings = np.concatenate(opened), np.concatenate(closed)
    pairs = min(len(openings), len(closings))
    openings, closings = openings[:pairs], closings[:pairs]
    text = np.frombuffer(masked, np.uint8)
    long = (closings - openings >= SHORT_BYTES) & (text[openings] == _OPENING) & (text[closings] == _CLOSING)
    return [(int(start), int(stop)) for start, stop in zip(openings[long], closings[long], strict=True)]
