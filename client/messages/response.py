# SPDX-License-Identifier: Apache-2.0
"""Converts the bytes of a ModelInferResponse to arrays.

The fields of the message are walked by hand, so that an output is a view of the message and not a copy. Protobuf reads the
rest, which is small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2

from hypersonic.client.errors import AnswerError
from hypersonic.client.messages.elements import DTYPES, from_buffer

_RAW_OUTPUT_CONTENTS = 6
_LENGTH_DELIMITED = 2
#: wire type -> bytes, of the types with a fixed size
_FIXED_BYTES = {1: 8, 5: 4}
#: datatype -> field of InferTensorContents, for servers that send typed contents instead of raw bytes
_CONTENTS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """The answer to one request.

    Attributes:
        outputs: by name; read-only.
        datatypes: of the outputs, by name.
        parameters: the server's, such as sequence_id.
        id: of the request, as the server repeats it; "": it does not.
    """

    model: str
    version: str
    outputs: dict[str, NDArray[Any]]
    datatypes: dict[str, str]
    parameters: dict[str, Any]
    id: str = ""


def read_answer(message: bytes, elsewhere: Callable[[Any], bytes | None] = lambda _tensor: None) -> Answer:
    """Return the answer in a serialized ModelInferResponse.

    Args:
        elsewhere: the description of an output without bytes in the message -> its bytes, None if there are none.

    Raises:
        AnswerError: If the bytes are not such a message.
    """
    raw: list[memoryview] = []
    rest = bytearray()
    whole = memoryview(message)
    for number, field, payload in fields(whole):
        if number == _RAW_OUTPUT_CONTENTS:
            raw.append(payload)
        else:
            rest += field
    try:
        head = service_pb2.ModelInferResponse.FromString(bytes(rest))
    except DecodeError as error:
        raise AnswerError(f"the answer is not a ModelInferResponse: {error}") from error
    outputs, buffers = {}, iter(raw)
    for tensor in head.outputs:
        if tensor.name in outputs:
            raise AnswerError(f"the answer has output {tensor.name!r} twice")
        outputs[tensor.name] = _output(tensor, buffers, elsewhere)
    if next(buffers, None) is not None:
        raise AnswerError(f"the answer has bytes for {len(raw)} outputs, and {len(head.outputs)} outputs")
    parameters = {
        name: getattr(value, value.WhichOneof("parameter_choice") or "", None) for name, value in head.parameters.items()
    }
    datatypes = {tensor.name: tensor.datatype for tensor in head.outputs}
    return Answer(head.model_name, head.model_version, outputs, datatypes, parameters, head.id)


def _output(tensor: Any, buffers: Iterator[memoryview], elsewhere: Callable[[Any], bytes | None]) -> NDArray[Any]:
    shape = tuple(tensor.shape)
    if tensor.datatype not in DTYPES or min(shape, default=0) < 0:
        raise AnswerError(f"output {tensor.name!r} is of datatype {tensor.datatype!r} and shape {shape}")
    if tensor.HasField("contents"):
        return _typed(tensor, shape)
    buffer = next(buffers, None)
    if not buffer and (held := elsewhere(tensor)) is not None:
        buffer = memoryview(held)
    if buffer is None:
        raise AnswerError(f"the answer has no bytes for output {tensor.name!r}")
    return from_buffer(tensor.name, tensor.datatype, shape, buffer)


def _typed(tensor: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    field = _CONTENTS.get(tensor.datatype)
    if others := [described.name for described, _ in tensor.contents.ListFields() if described.name != field]:
        raise AnswerError(f"output {tensor.name!r} of datatype {tensor.datatype} has {others[0]}")
    values = getattr(tensor.contents, field) if field else ()
    try:
        array = np.array(list(values), DTYPES[tensor.datatype]).reshape(shape)
    except (ValueError, OverflowError) as error:
        raise AnswerError(
            f"output {tensor.name!r} has {len(values)} values of {tensor.datatype} for shape {shape}: {error}"
        ) from error
    array.flags.writeable = False
    return array


def fields(message: memoryview, name: str = "ModelInferResponse") -> Iterator[tuple[int, memoryview, memoryview]]:
    """Yield each top-level field: its number, all its bytes, and its payload (used for length-delimited fields only).

    Args:
        name: of the message's type.

    Raises:
        AnswerError: For bytes that are not fields.
    """
    at = 0
    while at < len(message):
        begin = at
        tag, at = _varint(message, at, name)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            size, at = _varint(message, at, name)
            payload = at
            at += size
        elif kind == 0:
            payload = at
            _, at = _varint(message, at, name)
        else:
            payload = at
            at += _FIXED_BYTES.get(kind, len(message) + 1)
        if at > len(message):
            raise AnswerError(f"the answer is not a {name}: field {tag >> 3} at byte {begin} is cut off or malformed")
        yield tag >> 3, message[begin:at], message[payload:at]


def _varint(message: memoryview, at: int, name: str) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise AnswerError(f"the answer is not a {name}: the number at byte {at} is cut off or malformed")
