# SPDX-License-Identifier: Apache-2.0
"""The message of a request whose tensors are in a region, and its answer.

BYTES, and outputs whose size is known only to the model, stay in the message. Triton's "Shared-Memory Extension" defines the
parameters of a tensor in a region.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2

from hypersonic.client.errors import AnswerError
from hypersonic.client.messages.elements import DTYPES
from hypersonic.client.messages.request import HeadKey, make_request, set_parameters
from hypersonic.client.messages.response import Answer, read_answer
from hypersonic.client.shared_memory.region import Region
from hypersonic.client.specs import ModelSpec, TensorSpec

#: the alignment of each tensor: a cache line
_ALIGN_BYTES = 64
#: the most and the least bytes of a mark. An output of fewer bytes has none, because it could be equal by chance
_MARK_BYTES, _LEAST_MARK_BYTES = 8, 4
_NO_MARKS: Mapping[str, bytes] = {}


@dataclass(frozen=True)
class RegionSlice:
    """A tensor's place in a region."""

    offset: int
    size_bytes: int


@dataclass(frozen=True)
class Layout:
    """The places of a request's tensors, by name."""

    inputs: Mapping[str, RegionSlice]
    outputs: Mapping[str, RegionSlice]
    size_bytes: int


def lay_out(spec: ModelSpec, key: HeadKey, buffers: Sequence[bytes | NDArray[Any]]) -> Layout:
    """Return where the tensors of a request go.

    Args:
        buffers: of the inputs, in the order of `key`; bytes stay in the message.
    """
    sizes = {
        name: buffer.nbytes
        for (name, _, _), buffer in zip(key.inputs, buffers, strict=True)
        if not isinstance(buffer, bytes) and buffer.nbytes
    }
    rows = key.inputs[0][2][0] if spec.max_batch_size and key.inputs else 1
    known = {tensor.name: rows * tensor.row_bytes for tensor in _wanted(spec, key) if rows * tensor.row_bytes}
    at = 0

    def place(size_bytes: int) -> RegionSlice:
        nonlocal at
        part = RegionSlice(at, size_bytes)
        at += -(-size_bytes // _ALIGN_BYTES) * _ALIGN_BYTES
        return part

    inputs = {name: place(size) for name, size in sizes.items()}
    outputs = {name: place(size) for name, size in known.items()}
    return Layout(inputs, outputs, at)


def make_message(
    spec: ModelSpec, key: HeadKey, buffers: Sequence[bytes | NDArray[Any]], layout: Layout, region: Region
) -> bytes:
    """Return the serialized request, with the inputs of the layout written into the region."""
    request = service_pb2.ModelInferRequest(model_name=key.model, model_version=key.version, id=key.request_id)
    in_message: list[bytes | NDArray[Any]] = []
    for (name, datatype, shape), buffer in zip(key.inputs, buffers, strict=True):
        tensor = request.inputs.add(name=name, datatype=datatype, shape=shape)
        if name in layout.inputs and not isinstance(buffer, bytes):
            region.write(layout.inputs[name].offset, buffer)
            _point(tensor, region, layout.inputs[name])
        else:
            in_message.append(buffer)
    for output in _wanted(spec, key):
        wanted = request.outputs.add(name=output.name)
        if output.name in layout.outputs:
            _point(wanted, region, layout.outputs[output.name])
    set_parameters(request.parameters, dict(key.parameters))
    return make_request(request.SerializeToString(), in_message)


def mark_outputs(layout: Layout, region: Region) -> dict[str, bytes]:
    """Write random bytes to the end of each output's place, and return them by name.

    A place that still has them was not written by the server: it holds the output of an earlier request.
    """
    marks = {name: os.urandom(min(_MARK_BYTES, part.size_bytes)) for name, part in layout.outputs.items()}
    marks = {name: mark for name, mark in marks.items() if len(mark) >= _LEAST_MARK_BYTES}
    for name, mark in marks.items():
        part = layout.outputs[name]
        region.write(part.offset + part.size_bytes - len(mark), np.frombuffer(mark, np.uint8))
    return marks


def read_shared(message: bytes, layout: Layout, region: Region, marks: Mapping[str, bytes] = _NO_MARKS) -> Answer:
    """Return the answer to a request of make_message(). Its outputs are copied out of the region, which is then free.

    Raises AnswerError if the message is not a ModelInferResponse, or if an output does not fit its place or was not written.

    Args:
        marks: of mark_outputs().
    """

    def in_region(tensor: Any) -> bytes | None:
        part = layout.outputs.get(tensor.name)
        if part is None:
            return None
        copied = _copied(tensor, part, region)
        if tensor.name in marks and len(copied) == part.size_bytes and copied.endswith(marks[tensor.name]):
            raise AnswerError(f"the answer has no bytes for output {tensor.name!r}, neither in it nor in shared memory")
        return copied

    return read_answer(message, in_region)


def _copied(tensor: Any, part: RegionSlice, region: Region) -> bytes:
    itemsize = 2 if tensor.datatype == "BF16" else DTYPES[tensor.datatype].itemsize
    size_bytes = prod(tensor.shape) * itemsize
    if tensor.datatype == "BYTES" or size_bytes > part.size_bytes:
        raise AnswerError(
            f"output {tensor.name!r} of shape {tuple(tensor.shape)} and datatype {tensor.datatype} is in shared memory, where "
            f"it has {part.size_bytes} bytes"
        )
    return region.read(part.offset, size_bytes)


def _wanted(spec: ModelSpec, key: HeadKey) -> list[TensorSpec]:
    """Return the outputs that the request names, in its order; all of the model's if it names none.

    A name that the model does not have stays in the message, and the server refuses it.
    """
    outputs = {tensor.name: tensor for tensor in spec.outputs}
    return [outputs.get(name, TensorSpec(name, "BYTES", ())) for name in key.outputs or outputs]


def _point(tensor: Any, region: Region, part: RegionSlice) -> None:
    """Write a tensor's region, offset and size into its description."""
    set_parameters(
        tensor.parameters,
        {
            "shared_memory_region": region.name,
            "shared_memory_offset": part.offset,
            "shared_memory_byte_size": part.size_bytes,
        },
    )
