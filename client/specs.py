# SPDX-License-Identifier: Apache-2.0
"""The description of a model by its server: names, shapes and datatypes of tensors, and the most rows of a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2

from hypersonic.client.errors import AnswerError
from hypersonic.client.messages.elements import DTYPES
from hypersonic.client.packing import PARAMETER, PackedRows, read_layouts

#: the most elements of a row that a description may have; a message has 2^31 bytes at most
_MOST_ELEMENTS = 1 << 31


@dataclass(frozen=True)
class TensorSpec:
    """An input or output.

    Attributes:
        shape: of one row, or of the whole tensor if max_batch_size is 0; -1: any length.
        datatype: Triton's name.
        optional: an input that a request may leave out.
        packing: the layout of an input whose bytes are packed rows, and the function that makes them; None for other tensors.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    optional: bool = False
    packing: PackedRows | None = None

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the numpy arrays: float32 for BF16, object for BYTES."""
        return DTYPES[self.datatype]

    @property
    def row_bytes(self) -> int:
        """The bytes of a row on the wire; 0 if they depend on its contents or shape."""
        if self.datatype == "BYTES" or -1 in self.shape:
            return 0
        return prod(self.shape) * (2 if self.datatype == "BF16" else self.dtype.itemsize)


@dataclass(frozen=True)
class ModelSpec:
    """A model.

    Attributes:
        version: "" is the server's choice.
        versions: all that are served.
        max_batch_size: 0 without batches.
        decoupled: a request may have any number of answers.
        stateful: requests belong to sequences.
        preferred_batch_size: the first one of its dynamic batching; 0: none.
    """

    name: str
    version: str
    versions: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_batch_size: int
    decoupled: bool = False
    stateful: bool = False
    preferred_batch_size: int = 0


def read_spec(server: str, name: str, version: str, metadata: bytes, config: bytes) -> ModelSpec:
    """Return the model that two answers describe.

    Args:
        name: of the model that was asked for.
        metadata: a ModelMetadataResponse.
        config: a ModelConfigResponse.

    Raises:
        AnswerError: If they are not such messages, describe another model, or nothing that a model can be.
    """
    try:
        described = service_pb2.ModelMetadataResponse.FromString(metadata)
        limits = service_pb2.ModelConfigResponse.FromString(config).config
    except DecodeError as error:
        raise AnswerError(f"{server}: the model's metadata is not a message of Triton's protocol: {error}") from error
    optional = {tensor.name for tensor in limits.input if tensor.optional}
    rows = 1 if limits.max_batch_size else 0
    for fault in _faults(name, described, limits.max_batch_size):
        raise AnswerError(f"{server} describes {fault}")
    packed = read_layouts(server, limits.parameters[PARAMETER].string_value) if PARAMETER in limits.parameters else {}
    preferred = limits.dynamic_batching.preferred_batch_size
    inputs, outputs = (
        tuple(TensorSpec(t.name, t.datatype, tuple(t.shape)[rows:], t.name in optional, layouts.get(t.name)) for t in tensors)
        for tensors, layouts in ((described.inputs, packed), (described.outputs, dict[str, PackedRows]()))
    )
    return ModelSpec(
        name,
        version,
        tuple(described.versions),
        inputs,
        outputs,
        limits.max_batch_size,
        limits.model_transaction_policy.decoupled,
        limits.HasField("sequence_batching"),
        preferred[0] if preferred else 0,
    )


def _faults(name: str, described: Any, max_batch_size: int) -> Iterator[str]:
    """Yield what no model can have in a ModelMetadataResponse, and what was expected."""
    if described.name not in {"", name}:
        yield f"model {described.name!r}, expected {name!r}"
    if max_batch_size < 0:
        yield f"model {name!r} with max_batch_size {max_batch_size}, expected 0 or more"
    if not described.outputs:
        yield f"model {name!r} without outputs, expected one or more"
    for tensors in (described.inputs, described.outputs):
        for tensor_name, count in Counter(tensor.name for tensor in tensors).items():
            if count > 1:
                yield f"tensor {tensor_name!r} of model {name!r} {count} times, expected different names"
    for tensor in (*described.inputs, *described.outputs):
        if tensor.datatype not in DTYPES:
            yield f"tensor {tensor.name!r} of model {name!r} of datatype {tensor.datatype!r}, expected {', '.join(DTYPES)}"
        if min(tensor.shape, default=0) < -1 or prod(abs(size) for size in tensor.shape) > _MOST_ELEMENTS:
            sizes = f"sizes of -1 or more whose product is at most {_MOST_ELEMENTS}"
            yield f"tensor {tensor.name!r} of model {name!r} of shape {tuple(tensor.shape)}, expected {sizes}"
