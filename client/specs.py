# SPDX-License-Identifier: Apache-2.0
"""The description of a model by its server: names, shapes and datatypes of tensors, and the most rows of a request."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2

from hypersonic.client.errors import AnswerError
from hypersonic.client.messages.elements import DTYPES
from hypersonic.client.packing import PARAMETER, PackedRows, read_layouts


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


def read_spec(server: str, version: str, metadata: bytes, config: bytes) -> ModelSpec:
    """Return the model that two answers describe.

    Args:
        metadata: a ModelMetadataResponse.
        config: a ModelConfigResponse.

    Raises:
        AnswerError: If they are not such messages, or name a datatype that is none of Triton's.
    """
    try:
        described = service_pb2.ModelMetadataResponse.FromString(metadata)
        limits = service_pb2.ModelConfigResponse.FromString(config).config
    except DecodeError as error:
        raise AnswerError(f"{server}: the model's metadata is not a message of Triton's protocol: {error}") from error
    optional = {tensor.name for tensor in limits.input if tensor.optional}
    rows = 1 if limits.max_batch_size else 0
    for tensor in (*described.inputs, *described.outputs):
        if tensor.datatype not in DTYPES:
            known = ", ".join(DTYPES)
            raise AnswerError(
                f"{server}: {tensor.name!r} of {described.name} is of datatype {tensor.datatype!r}, expected {known}"
            )
    packed = read_layouts(server, limits.parameters[PARAMETER].string_value) if PARAMETER in limits.parameters else {}
    preferred = limits.dynamic_batching.preferred_batch_size
    inputs, outputs = (
        tuple(TensorSpec(t.name, t.datatype, tuple(t.shape)[rows:], t.name in optional, layouts.get(t.name)) for t in tensors)
        for tensors, layouts in ((described.inputs, packed), (described.outputs, dict[str, PackedRows]()))
    )
    return ModelSpec(
        described.name,
        version,
        tuple(described.versions),
        inputs,
        outputs,
        limits.max_batch_size,
        limits.model_transaction_policy.decoupled,
        limits.HasField("sequence_batching"),
        preferred[0] if preferred else 0,
    )
