# SPDX-License-Identifier: Apache-2.0
"""Scans the structure of a JSON text without parsing it: finds the brackets outside strings, and splits long arrays.

Python's parser holds the interpreter's lock until it has parsed the whole text, and needs up to eighty times the text's size:
64 MiB of `"",` take five gigabytes. The arrays that hold a request's tensors are therefore cut out of the text before it is
parsed, and are parsed piece by piece. The text is scanned in blocks, with numpy.
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
#: depth of the arrays that are cut out: {"inputs":[{"data":[
_TENSOR_DEPTH = 4
#: a text, or an array in a text, that has fewer bytes than this is parsed in one piece
SHORT_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 20
_PIECE_BYTES = 1 << 15
_QUOTE, _COMMA, _OPENING, _CLOSING = (ord(c) for c in '",[]')
_STEPS = np.zeros(256, np.int8)
_STEPS[[ord("["), ord("{")]] = 1
_STEPS[[ord("]"), ord("}")]] = -1
#: brackets that are not nested as in JSON, in a text whose strings are masked
_MISPLACED = re.compile(rb"[^\[,\s]\s*\[|\]\s*[^\],\s]|\[\s*[\],]|,\s*\]")
#: a number with such a piece may exceed the largest double; only then is each number checked
_LARGE = re.compile(rb"[eE]\+?0*[1-9]\d\d|(?<!\d)\d{300}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_SHAPE = "Unable to parse 'data': Shape does not match true shape of 'data' field"


class Brackets(NamedTuple):
    """The brackets of one block that are outside strings.

    Attributes:
        places: their positions in the text.
        steps: 1 for an opening bracket, -1 for a closing one.
        depths: the depth after each. All have the shape (brackets,).
    """

    places: NDArray[np.int64]
    steps: NDArray[np.int8]
    depths: NDArray[np.int64]


def mask_escapes(data: bytes) -> bytes:
    """Return a text of the same length in which every quote begins or ends a string."""
    # pairs of backslashes first: of two backslashes and a quote, the backslashes belong together
    return data.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in data else data


def brackets(masked: bytes) -> Iterator[Brackets]:
    """Yield the brackets, block by block.

    Other mistakes are not looked for.

    Args:
        masked: as mask_escapes() returns it.

    Raises:
        InvalidRequestError: (400) for brackets that are nested deeper than MAX_DEPTH.
    """
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
    """Return a mask of the bytes from each opening quote up to, but not including, its closing quote.

    The block is taken to begin outside strings.
    """
    return np.logical_xor.accumulate(block == _QUOTE)


def check_depth(data: bytes) -> None:
    """Raise InvalidRequestError (400) if brackets outside strings are nested deeper than MAX_DEPTH."""
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        for _ in brackets(mask_escapes(data)):
            pass


class LongArray:
    """A tensor's elements in a JSON text, not parsed yet.

    As in Triton, the nesting of the arrays has no meaning, but it has to be valid JSON.
    """

    def __init__(self, data: bytes, masked: bytes, start: int, stop: int) -> None:
        """Create a LongArray.

        Args:
            data: the text.
            masked: as mask_escapes() returns it.
            start: after the opening bracket.
            stop: the closing bracket.
        """
        self._data = data
        self._masked = masked
        self._start = start
        self._stop = stop

    def pieces(self) -> Iterator[list[Any]]:
        """Yield the elements as flat lists of some thousands each. Raises MalformedJsonError (500, as in Triton)."""
        at = self._start
        while at < self._stop:
            cut, text, masked = self._piece(at)
            if b"{" in masked or b"}" in masked or _MISPLACED.search(masked):
                raise MalformedJsonError(_SHAPE)
            values: list[Any] = loads(b"[" + text + b"]", at - 1)
            if not values:
                raise _malformed(f"Expecting value at {at}")
            yield values
            at = cut + 1
        if self._data[self._stop - 1] == _COMMA:
            raise _malformed(f"Expecting value at {self._stop}")

    def _piece(self, at: int) -> tuple[int, bytes, bytes]:
        """Return a piece from `at` up to a comma: (its end, its text without brackets, its text with strings masked)."""
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


def loads(data: bytes, at: int = 0) -> Any:
    """Parse JSON text in UTF-8.

    Args:
        at: where it begins in the whole text, for the error.

    Raises:
        MalformedJsonError: (500, as in Triton), also for a number that exceeds the largest double, for an integer of thousands
            of digits, and for half a surrogate pair, which could not be encoded again.
    """
    try:
        value = json.loads(data.decode(), parse_float=_double if _LARGE.search(data) else None)
        if _SURROGATE.search(data):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise _malformed(f"{error.msg} at {at + error.pos}") from error
    except ValueError as error:
        raise _malformed(str(error)) from error
    return value


def _double(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("Number too big to be stored in double.")
    return value


def _malformed(reason: str) -> MalformedJsonError:
    return MalformedJsonError(f"failed to parse the request JSON buffer: {reason}")


class Outline(NamedTuple):
    """A text whose long arrays are replaced by strings, which are the keys of `arrays`."""

    text: bytes
    arrays: dict[str, LongArray]


def outline(data: bytes, token: str) -> Outline:
    """Cut the long arrays out of a JSON text.

    Args:
        token: a random string, so that the keys cannot be mistaken for text of the client.

    Raises:
        InvalidRequestError: (400) for brackets that are nested deeper than MAX_DEPTH.
    """
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
    """Return (position of the opening bracket, of the closing bracket) for each long array at the depth of tensors."""
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
