# SPDX-License-Identifier: Apache-2.0
"""The bytes of a ModelInferRequest.

::

    head (names, shapes, parameters; kept for the next request of its kind) | 0x3a, length, bytes of input 1 | 0x3a, ..

0x3a is the tag of field 7, raw_input_contents (grpc_service.proto of Triton's common repository). Protobuf allows the fields of
a message in any order, and the bytes equal those that protobuf would write: raw_input_contents has the highest number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from numpy.typing import NDArray
from tritonclient.grpc import service_pb2

from hypersonic.client.errors import InputError

#: values of a request's parameters
Parameter = bool | int | float | str
#: the header by which a balancer sends all requests of a sequence to one server (docs/envoy.md)
SEQUENCE_HEADER = "hypersonic-sequence"
_RAW_TAG = b"\x3a"


@dataclass(frozen=True)
class HeadKey:
    """Everything that the head of a request depends on.

    Attributes:
        inputs: name, datatype and shape.
        parameters: in the user's order.
        request_id: "" is none.
    """

    model: str
    version: str
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    outputs: tuple[str, ...]
    parameters: tuple[tuple[str, Parameter], ...]
    request_id: str = ""


def make_head(key: HeadKey) -> bytes:
    """Return the serialized request without its inputs' bytes."""
    request = service_pb2.ModelInferRequest(model_name=key.model, model_version=key.version, id=key.request_id)
    for name, datatype, shape in key.inputs:
        request.inputs.add(name=name, datatype=datatype, shape=shape)
    for name in key.outputs:
        request.outputs.add(name=name)
    set_parameters(request.parameters, dict(key.parameters))
    return bytes(request.SerializeToString())


def sequence_headers(model: str, parameters: Mapping[str, Parameter]) -> tuple[tuple[str, str], ...]:
    """Return SEQUENCE_HEADER for a request of a sequence, with one value for all its requests; () for other requests."""
    sequence_id = parameters.get("sequence_id")
    return ((SEQUENCE_HEADER, quote(f"{model}/{sequence_id}", errors="replace")),) if sequence_id else ()


def parameter_items(parameters: Mapping[str, Parameter]) -> tuple[tuple[str, Parameter], ...]:
    """Return the parameters as pairs. Raises InputError for a value of a type that the protocol does not have."""
    for name, value in parameters.items():
        if not isinstance(value, bool | int | float | str):
            raise InputError(f"parameter {name!r} is {value!r}, expected a bool, an int, a float or a str")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InputError(f"parameter {name!r} is {value}, expected an int of 64 bits")
    return tuple(parameters.items())


def set_parameters(target: Any, parameters: Mapping[str, Parameter]) -> None:
    """Write parameters into a protobuf map of InferParameters."""
    for name, value in parameters.items():
        if isinstance(value, bool):
            target[name].bool_param = value
        elif isinstance(value, int):
            target[name].int64_param = value
        elif isinstance(value, float):
            target[name].double_param = value
        else:
            target[name].string_param = value


def make_request(head: bytes, buffers: Sequence[bytes | NDArray[Any]]) -> bytes:
    """Return the serialized request. The inputs' bytes are copied once."""
    parts: list[Any] = [head]
    for buffer in buffers:
        size = len(buffer) if isinstance(buffer, bytes) else buffer.nbytes
        parts += (_RAW_TAG, varint(size), buffer)
    return b"".join(parts)


def varint(value: int) -> bytes:
    """Return a non-negative integer as protobuf writes it: seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def kept(make: Callable[[HeadKey], bytes], most: int = 64) -> Callable[[HeadKey], bytes]:
    """Return `make` with a cache of at most `most` results. Any thread may call it."""
    made: dict[tuple[HeadKey, str], bytes] = {}

    def head(key: HeadKey) -> bytes:
        exact = key, repr(key.parameters)  # True, 1 and 1.0 are equal, but not on the wire
        value = made.get(exact)
        if value is None:
            if len(made) >= most:
                made.clear()
            value = made[exact] = make(key)
        return value

    return head
