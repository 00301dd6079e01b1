# SPDX-License-Identifier: Apache-2.0
"""Conversion from shares of requests to the arrays of one run, and from a run's output arrays to the answer of each share.

::

    shares      [2, 3]  [1, 3]              ragged  [1, 2]  [1, 3]          batch_input of the ragged one
    array       [3, 3]                              [5]                     element counts [2, 3], accumulated [2, 5], ...

The semantics of allow_ragged_batch, batch_input and batch_output are those of Triton's model_config.proto and ragged batching
page: a ragged input reaches the model flat, in the order of the requests, and elements are counted per request, not per row.
BYTES elements are bytes objects in arrays of objects. A BF16 element, which numpy does not support, is its 16 bits as uint16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.server.core.config.schema import BatchInput, BatchInputKind, Dims, ModelConfig, TensorConfig
from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.core.inference.answer import Output
from hypersonic.server.core.inference.pending import Share
from hypersonic.server.core.inference.request import InputTensor
from hypersonic.server.core.inference.strings import incomplete_string, pack_strings, walk_strings
from hypersonic.server.errors import BackendError, InvalidRequestError, ServerError, UnsupportedError

Array = NDArray[Any]


def collect(shares: Sequence[Share], config: ModelConfig) -> dict[str, Array]:
    """Return the input arrays of one run, by input name: shape with the batch dimension, numpy type of the datatype.

    Batch inputs and sequences' controls and states are included; optional inputs that were left out are not. All shares are of
    one group, since the scheduler lets only such shares run together. A run of one whole request gets read-only views of its
    bytes, unless they are not aligned for the processor's vector units. Raises InvalidRequestError for a truncated BYTES
    element.
    """
    tensors = [share.tensors for share in shares]
    arrays: dict[str, Array] = {}
    for index, spec in enumerate(config.inputs):
        pieces = [piece for row in tensors if (piece := row[index]) is not None]
        if pieces:
            arrays[spec.name] = _elements(pieces, spec).reshape(_run_shape(shares, index, spec, config))
    for batch_input in config.batch_inputs:
        values = _batch_values(batch_input, shares, config)
        arrays.update(dict.fromkeys(batch_input.target_names, values))
    for index, tensor in enumerate(shares[0].pending.request.extra):
        arrays[tensor.name] = _extra([share.pending.request.extra[index] for share in shares], config)
    return arrays


def _extra(tensors: Sequence[InputTensor], config: ModelConfig) -> Array:
    """Return a control or state of a sequence: one element per request, already shaped for the model."""
    first = tensors[0]
    elements = _elements([tensor.data for tensor in tensors], TensorConfig(first.name, first.datatype, ()))
    rows = sum(tensor.shape[0] for tensor in tensors) if config.max_batch_size else 0
    return elements.reshape((rows, *first.shape[1:]) if rows else first.shape)


def _elements(pieces: Sequence[memoryview], spec: TensorConfig) -> Array:
    """Return all elements of one input as a flat array."""
    if spec.datatype == "BYTES":
        return _objects([element for piece in pieces for element in unpack_strings(piece, spec.name)])
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    array = np.frombuffer(data, DATATYPES[spec.datatype].numpy)
    # vectorised code assumes that a float is aligned; a request's bytes may start at any address
    return array if array.flags.aligned else array.copy()


def _objects(elements: Sequence[bytes]) -> Array:
    array = np.empty(len(elements), object)
    array[:] = elements
    return array


def unpack_strings(data: memoryview, name: str) -> list[bytes]:
    """Return the elements of a BYTES tensor. Raises InvalidRequestError if the last one is truncated."""
    elements: list[bytes] = []
    end = len(data)
    for start, stop in walk_strings(data):
        if stop > end:
            raise InvalidRequestError(incomplete_string(name, start, stop, end))
        elements.append(bytes(data[start:stop]))
    return elements


def _shape(share: Share, index: int, config: ModelConfig) -> Dims:
    """Return an input's shape as sent, for the share's rows only."""
    shape = share.pending.request.shapes[index]
    return shape if share.whole or not config.max_batch_size else (share.rows, *shape[1:])


def _run_shape(shares: Sequence[Share], index: int, spec: TensorConfig, config: ModelConfig) -> Dims:
    if spec.ragged:
        return (-1,)
    shape = _shape(shares[0], index, config)
    if not config.max_batch_size:
        return reshape_to_model(shape, spec)
    return (sum(share.rows for share in shares), *reshape_to_model(shape[1:], spec))


def reshape_to_model(dims: Dims, spec: TensorConfig) -> Dims:
    """Apply config.pbtxt's `reshape` to an input's dims (without the batch); variable dims keep their order."""
    return dims if spec.reshape is None else _replaced(dims, spec.dims, spec.reshape)


def reshape_from_model(dims: Dims, spec: TensorConfig) -> Dims:
    """Undo config.pbtxt's `reshape` for an output's dims (without the batch), as clients get them."""
    return dims if spec.reshape is None else _replaced(dims, spec.reshape, spec.dims)


def _replaced(dims: Dims, old: Dims, new: Dims) -> Dims:
    """Convert `dims`, an instance of `old`, to an instance of `new`; other dims are returned unchanged."""
    if len(dims) != len(old) or old.count(-1) != new.count(-1):
        return dims
    sizes = iter([size for size, dim in zip(dims, old, strict=True) if dim == -1])
    return tuple(next(sizes) if dim == -1 else dim for dim in new)


def _batch_values(batch_input: BatchInput, shares: Sequence[Share], config: ModelConfig) -> Array:
    source = config.input_names.index(batch_input.source_inputs[0])
    shapes = [_shape(share, source, config) for share in shares]
    return _BATCH_INPUTS[batch_input.kind](shapes).astype(DATATYPES[batch_input.datatype].numpy)


def _counts(shapes: Sequence[Dims]) -> Array:
    return np.array([prod(shape) for shape in shapes])


def _accumulated(shapes: Sequence[Dims]) -> Array:
    return np.cumsum(_counts(shapes))


def _accumulated_with_zero(shapes: Sequence[Dims]) -> Array:
    return np.concatenate([[0], _accumulated(shapes)])


def _max_count_as_shape(shapes: Sequence[Dims]) -> Array:
    """Return an array whose shape is the information; Triton leaves its elements undefined."""
    return np.zeros(int(_counts(shapes).max()), np.int8)


def _item_shapes(shapes: Sequence[Dims]) -> Array:
    return np.repeat(np.array([shape[1:] for shape in shapes]), [shape[0] for shape in shapes], axis=0)


def _item_shapes_flat(shapes: Sequence[Dims]) -> Array:
    return _item_shapes(shapes).reshape(-1)


#: shapes of the source input as sent -> the values; per-item kinds take the first dimension for the batch
_BATCH_INPUTS: dict[BatchInputKind, Callable[[Sequence[Dims]], Array]] = {
    "BATCH_ELEMENT_COUNT": _counts,
    "BATCH_ACCUMULATED_ELEMENT_COUNT": _accumulated,
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO": _accumulated_with_zero,
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE": _max_count_as_shape,
    "BATCH_ITEM_SHAPE": _item_shapes,
    "BATCH_ITEM_SHAPE_FLATTEN": _item_shapes_flat,
}


def split(array: Array, position: int, shares: Sequence[Share], config: ModelConfig) -> list[Output | ServerError]:
    """Return each share's slice of an output array, without a copy; an error for a share whose rows the model did not give.

    Without a batch dimension the (only) share gets the whole array.

    Args:
        position: the output's index in the configuration; indices beyond those are a sequence's states.
    """
    spec = output_spec(position, config)
    scattered = next((b for b in config.batch_outputs if spec.name in b.target_names), None)
    if scattered is not None:
        return _scatter(array, position, config.input_names.index(scattered.source_inputs[0]), shares, config)
    if not config.max_batch_size:
        # a scalar has the dims of the configuration, all 1
        dims = reshape_from_model(array.shape, spec) if array.ndim else spec.dims
        return [_output(array, position, dims, spec)]
    return _by_rows(array, position, shares, spec)


def output_spec(position: int, config: ModelConfig) -> TensorConfig:
    """Return the model's output at this position; states follow the configuration's outputs."""
    if position < len(config.outputs) or config.sequence is None:
        return config.outputs[position]
    state = config.sequence.states[position - len(config.outputs)]
    return TensorConfig(state.output_name, state.datatype, state.dims)


def _by_rows(array: Array, position: int, shares: Sequence[Share], spec: TensorConfig) -> list[Output | ServerError]:
    if not array.ndim:
        text = f"output '{spec.name}' is a scalar, expected a batch dimension"
        return [BackendError(text) for _ in shares]
    dims = reshape_from_model(array.shape[1:], spec)
    answers: list[Output | ServerError] = []
    start = 0
    for share in shares:
        stop = start + share.rows
        if stop > len(array):
            answers.append(_too_small(spec, stop, len(array)))
        else:
            answers.append(_output(array[start:stop], position, (share.rows, *dims), spec))
        start = stop
    return answers


def _too_small(spec: TensorConfig, expected: int, got: int) -> ServerError:
    """Return an error with Triton's text, including its spelling."""
    return UnsupportedError(
        f"failed to split the output tensor '{spec.name}' in responses: expected batch size of atleast {expected} in model "
        f"output, got {got}"
    )


def _scatter(
    array: Array, position: int, source: int, shares: Sequence[Share], config: ModelConfig
) -> list[Output | ServerError]:
    """Apply BATCH_SCATTER_WITH_INPUT_SHAPE: each variable dimension equals that dimension of the share's source input."""
    spec = config.outputs[position]
    flat = array.reshape(-1)
    answers: list[Output | ServerError] = []
    start = 0
    for share in shares:
        shape = _scattered_shape(_shape(share, source, config), spec, config)
        stop = start + prod(shape)
        if -1 in shape or stop > len(flat):
            answers.append(
                BackendError(
                    f"output '{spec.name}' has {len(flat)} elements, expected those of shape {list(shape)} from {start}"
                )
            )
        else:
            answers.append(_output(flat[start:stop], position, shape, spec))
        start = stop
    return answers


def _scattered_shape(source: Dims, spec: TensorConfig, config: ModelConfig) -> Dims:
    dims = ((-1,) if config.max_batch_size else ()) + spec.dims
    return tuple(source[axis] if dim == -1 and axis < len(source) else dim for axis, dim in enumerate(dims))


def _output(array: Array, position: int, shape: Dims, spec: TensorConfig) -> Output:
    if spec.datatype == "BYTES":
        data: bytes | memoryview = pack_strings(array.reshape(-1).tolist())
    else:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return Output(position, spec.datatype, shape, (data,), len(data))
