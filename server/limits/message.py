# SPDX-License-Identifier: Apache-2.0
"""The limits of one request, and the check of a serialized request before the protobuf library allocates memory for it.

Two bytes on the wire can become an input tensor of a hundred bytes in memory, so the fields of a message of up to 2 GiB have to
be counted before it is parsed. Nothing is counted in a header of up to `Limits.uncounted_bytes`, which is harmless whatever
fields it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

from hypersonic.server.errors import InvalidRequestError


@dataclass(frozen=True)
class Limits:
    """The limits of one request.

    Attributes:
        typed_elements, string_elements: of all its typed contents together.
        fields: protobuf fields of any kind, in addition to string_elements, each of which is a field too.
        uncounted_bytes: size of a header in which nothing is counted.
        operation_bytes: of a message without tensors and files.
    """

    inputs: int = 1024
    outputs: int = 1024
    parameters: int = 1024
    dims: int = 64
    typed_elements: int = 2**25
    string_elements: int = 2**20
    fields: int = 2**20
    uncounted_bytes: int = 65_536
    operation_bytes: int = 2**20

    @classmethod
    def of_strings(cls, elements: int) -> Self:
        """Return the default limits with another one for string elements, each of which takes at least two bytes."""
        return cls(string_elements=elements, uncounted_bytes=min(cls.uncounted_bytes, 2 * elements))

    @property
    def all_fields(self) -> int:
        """The most protobuf fields of any kind."""
        return self.fields + self.string_elements


LIMITS = Limits()
_Shape = TypeVar("_Shape", bound=Sequence[object])
#: the longest varint, in bytes
_VARINT_BYTES = 10


def check_dims(name: str, shape: _Shape, limits: Limits = LIMITS) -> _Shape:
    """Return the shape of input `name`. Raises InvalidRequestError if it has too many dimensions to be multiplied."""
    if len(shape) > limits.dims:
        raise InvalidRequestError(f"input '{name[:256]}' has {len(shape)} dimensions, expected at most {limits.dims}")
    return shape


def check_count(count: int, most: int, what: str) -> None:
    """Raise InvalidRequestError if `count` exceeds `most`.

    Args:
        what: the name in the error.
    """
    if count > most:
        raise InvalidRequestError(f"the request has more than {most} {what}: split it")


class _Counted(NamedTuple):
    """A field that is counted.

    Attributes:
        limit: the field of Limits.
        what: the name in the error.
        inside: the fields of its message.
        per_byte: how many elements a byte of its body may hold; 0 = each field is one element.
    """

    limit: str
    what: str
    inside: Mapping[int, _Counted] | None = None
    per_byte: float = 0.0


_PARAMETER = _Counted("parameters", "parameters")
_TYPED, _STRINGS = "elements of typed contents", "elements in bytes_contents"
#: measured memory of an element in protobuf's arrays, which may be half empty, and in the tensor that is made of them
_NUMBER_BYTES, _STRING_BYTES = 24, 48
#: the fields of InferTensorContents: a varint takes a byte or more, an FP32 four, an FP64 eight
_CONTENTS = {
    **{number: _Counted("typed_elements", _TYPED, per_byte=1.0) for number in (1, 2, 3, 4, 5)},
    6: _Counted("typed_elements", _TYPED, per_byte=0.25),
    7: _Counted("typed_elements", _TYPED, per_byte=0.125),
    8: _Counted("string_elements", _STRINGS),
}
_INPUT = {
    3: _Counted("shape_bytes", "dimensions", per_byte=1.0),
    4: _PARAMETER,
    5: _Counted("inputs", "contents of inputs", _CONTENTS),
}
#: the fields of ModelInferRequest
_REQUEST = {
    4: _PARAMETER,
    5: _Counted("inputs", "inputs", _INPUT),
    6: _Counted("outputs", "requested outputs", {2: _PARAMETER}),
    7: _Counted("inputs", "raw_input_contents"),
}


def check_wire(data: bytes, limits: Limits = LIMITS) -> int:
    """Check a serialized ModelInferRequest, with or without its raw_input_contents.

    Returns the bytes of memory that its typed contents will take in addition to the message, parsed and as tensors. Bytes that
    are not protobuf end the count: everything before them is within the limits, and the library refuses the rest. Raises
    InvalidRequestError (INVALID_ARGUMENT) for a message that exceeds the limits.
    """
    if len(data) <= limits.uncounted_bytes:
        return 0
    most = {**vars(limits), "shape_bytes": limits.inputs * limits.dims * _VARINT_BYTES, "fields": limits.all_fields}
    counts = _count(data, most)
    numbers, strings = int(counts.get(_TYPED, 0)), int(counts.get(_STRINGS, 0))
    return _NUMBER_BYTES * numbers + _STRING_BYTES * strings + (2 * len(data) if strings else 0)


def check_operation(data: bytes, *, carries_files: bool, limits: Limits = LIMITS) -> None:
    """Check a serialized request of an RPC other than inference.

    Args:
        carries_files: it is a RepositoryModelLoad.

    Raises:
        InvalidRequestError: (INVALID_ARGUMENT) for a message that exceeds the limits.
    """
    if carries_files:
        for count, _ in enumerate(_fields(data, 0, len(data), iter(range(limits.all_fields)))):
            check_count(count, limits.parameters + 2, "parameters")  # there are two names in addition to the parameters
    elif len(data) > limits.operation_bytes:
        raise InvalidRequestError(f"the request has {len(data)} bytes, expected at most {limits.operation_bytes}")


def _count(data: bytes, most: Mapping[str, int]) -> Mapping[str, float]:
    """Return name -> count of the fields and elements. Raises InvalidRequestError for more than `most` of any."""
    counts: dict[str, float] = {}
    steps = iter(range(most["fields"]))
    stack = [(_REQUEST, _fields(data, 0, len(data), steps))]
    while stack:
        known, fields = stack[-1]
        field = next(fields, None)
        if field is None:
            stack.pop()
            continue
        number, start, stop = field
        counted = known.get(number)
        if counted is None:
            continue
        counts[counted.what] = counts.get(counted.what, 0) + ((stop - start) * counted.per_byte or 1)
        if counts[counted.what] > most[counted.limit]:
            raise _too_many(counted.what, most[counted.limit])
        if counted.inside is not None:
            stack.append((dict(counted.inside), _fields(data, start, stop, steps)))
    return counts


def _too_many(what: str, most: int) -> InvalidRequestError:
    if what != _STRINGS:
        return InvalidRequestError(f"the request has more than {most} {what}: split it")
    return InvalidRequestError(
        f"got at least {most + 1} {what}, expected at most {most} (--grpc-max-bytes-elements): send raw_input_contents, which "
        "are not counted, or split the request"
    )


def _fields(data: bytes, at: int, end: int, steps: Iterator[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (number, first byte of the value, byte after it) of each field outside groups, as far as they are well-formed.

    Each field takes a step from `steps`. Raises InvalidRequestError when there is none left.
    """
    depth = 0
    while at < end:
        if next(steps, None) is None:
            raise InvalidRequestError(
                "the request has more protobuf fields than any tensor needs: send tensors in raw_input_contents"
            )
        tag, at = _varint(data, at, end)
        start, kind = at, tag & 7
        if kind == 0:
            _, at = _varint(data, at, end)
        elif kind == 2:
            size, start = _varint(data, at, end)
            at = start + size
        elif kind in _FIXED:
            at += _FIXED[kind]
        elif kind in _GROUPS:
            depth += _GROUPS[kind]
        else:
            return
        if at > end or depth < 0:
            return
        if depth == 0 and kind not in _GROUPS:
            yield tag >> 3, start, at


_FIXED = {1: 8, 5: 4}
_GROUPS = {3: 1, 4: -1}


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decode a varint. Returns (value, byte after it); the latter is past the end if the bytes are not a varint."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, end + 1
