# SPDX-License-Identifier: Apache-2.0
"""A request as the server sees it, whichever front end it came through, and the check against its model's configuration.

Error texts are Triton's, word for word where its clients may look at them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

from hypersonic.server.config import ModelConfig, TensorConfig
from hypersonic.server.datatype import DATATYPES
from hypersonic.server.errors import InvalidRequestError, InvalidTensorError

_BATCH_NOTE = (
    "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each input "
    "shape. If you want to specify the full shape including the batch dim in your input dims config, try setting "
    "max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
)


class InputTensor(NamedTuple):
    """One input as sent. shape: with the batch dimension, unchecked. data: its bytes, C order, little endian."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: memoryview


class InferRequest(NamedTuple):
    """A request as sent, not yet matched to its model. outputs: names asked for, empty = all. timeout_us: 0 = none."""

    id: str
    inputs: tuple[InputTensor, ...]
    outputs: tuple[str, ...] = ()
    timeout_us: int = 0
    priority: int = 0


class CheckedRequest(NamedTuple):
    """A request that fits its model.

    rows: its batch size (1 for a model without a batch dimension). tensors: the bytes of each input, in the order of the
    configuration; row r of input i lies at r * len(tensors[i]) // rows. outputs: indices into the configuration's outputs,
    in the order of the answer.
    """

    id: str
    rows: int
    tensors: tuple[memoryview, ...]
    outputs: tuple[int, ...]
    timeout_us: int
    priority: int


def check(request: InferRequest, config: ModelConfig) -> CheckedRequest:
    """Raises InvalidTensorError or InvalidRequestError with Triton's text for the first thing that does not fit."""
    inputs = _by_name(request.inputs, config)
    rows = _rows(inputs, config)
    tensors = tuple(_bytes(tensor, spec, config) for tensor, spec in inputs)
    return CheckedRequest(request.id, rows, tensors, _outputs(request.outputs, config), request.timeout_us, request.priority)


def _by_name(tensors: Sequence[InputTensor], config: ModelConfig) -> list[tuple[InputTensor, TensorConfig]]:
    """Inputs paired with their configuration, in the configuration's order."""
    given = {tensor.name: tensor for tensor in tensors}
    if len(given) != len(tensors):
        twice = next(t.name for i, t in enumerate(tensors) if t.name in {other.name for other in tensors[:i]})
        raise InvalidTensorError(f"input '{twice}' already exists in request")
    if len(given) != len(config.inputs):
        missing = [spec.name for spec in config.inputs if spec.name not in given]
        raise InvalidTensorError(
            f"expected {len(config.inputs)} inputs but got {len(given)} inputs for model '{config.name}'. "
            f"Got input(s) {_names(sorted(given))}, but missing required input(s) {_names(missing)}. "
            "Please provide all required input(s)."
        )
    for name in given:
        if name not in config.input_names:
            raise InvalidRequestError(f"unexpected inference input '{name}' for model '{config.name}'")
    return [(given[spec.name], spec) for spec in config.inputs]


def _names(names: Iterable[str]) -> str:
    return "[" + ",".join(f"'{name}'" for name in names) + "]"


def _rows(inputs: Sequence[tuple[InputTensor, TensorConfig]], config: ModelConfig) -> int:
    if config.max_batch_size == 0:
        return 1
    rows: int | None = None
    for tensor, _ in inputs:
        if not tensor.shape:
            raise InvalidTensorError(
                f"input '{tensor.name}' has no shape but model requires batch dimension for '{config.name}'"
            )
        if rows is not None and tensor.shape[0] != rows:
            raise InvalidTensorError(f"input '{tensor.name}' batch size does not match other inputs for '{config.name}'")
        rows = tensor.shape[0]
    if rows is None:  # a model without inputs
        return 1
    if rows < 1:
        raise InvalidTensorError(f"inference request batch-size must be >= 1 for '{config.name}'")
    if rows > config.max_batch_size:
        raise InvalidTensorError(f"inference request batch-size must be <= {config.max_batch_size} for '{config.name}'")
    return rows


def _bytes(tensor: InputTensor, spec: TensorConfig, config: ModelConfig) -> memoryview:
    """The input's bytes, once datatype, shape and size fit."""
    if tensor.datatype != spec.datatype:
        got = tensor.datatype if tensor.datatype in DATATYPES else "<invalid>"
        raise InvalidTensorError(
            f"inference input '{spec.name}' data-type is '{got}', but model '{config.name}' expects '{spec.datatype}'"
        )
    shape = tensor.shape[1:] if config.max_batch_size else tensor.shape
    if shape != spec.dims and not _matches(shape, spec.dims):
        expected = ([-1] if config.max_batch_size else []) + list(spec.dims)
        raise InvalidTensorError(
            f"unexpected shape for input '{spec.name}' for model '{config.name}'. Expected {_shape(expected)}, "
            f"got {_shape(tensor.shape)}. {_BATCH_NOTE if config.max_batch_size else ''}".rstrip()
        )
    size_bytes = DATATYPES[spec.datatype].size_bytes
    if size_bytes and len(tensor.data) != prod(tensor.shape) * size_bytes:
        raise InvalidTensorError(
            f"input byte size mismatch for input '{spec.name}' for model '{config.name}'. "
            f"Expected {prod(tensor.shape) * size_bytes}, got {len(tensor.data)}"
        )
    return tensor.data


def _matches(shape: Sequence[int], dims: Sequence[int]) -> bool:
    return len(shape) == len(dims) and all(n == d or (d == -1 and n >= 1) for n, d in zip(shape, dims, strict=True))


def _shape(shape: Iterable[int]) -> str:
    return "[" + ",".join(str(n) for n in shape) + "]"


def _outputs(names: Sequence[str], config: ModelConfig) -> tuple[int, ...]:
    if not names:
        return config.all_outputs
    if len(set(names)) != len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InvalidTensorError(f"output '{twice}' already exists in request")
    for name in names:
        if name not in config.output_names:
            raise InvalidRequestError(f"unexpected inference output '{name}' for model '{config.name}'")
    return tuple(config.output_names.index(name) for name in names)
