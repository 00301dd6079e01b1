# SPDX-License-Identifier: Apache-2.0
"""The check of a request against its model's configuration.

Error texts that clients may examine are Triton's, word for word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from hypersonic.server.core.config.schema import ModelConfig, TensorConfig
from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.core.inference.request import CheckedRequest, InferRequest, InputTensor
from hypersonic.server.core.inference.strings import incomplete_string, walk_strings
from hypersonic.server.errors import InvalidRequestError, InvalidTensorError, UnsupportedError
from hypersonic.server.limits.message import LIMITS, Limits, check_count, check_dims

#: the product of the non-zero dimensions of a tensor without elements
_MOST_ELEMENTS = 2**31 - 1

_BATCH_NOTE = (
    "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each input "
    "shape. If you want to specify the full shape including the batch dim in your input dims config, try setting "
    "max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
)


def check(request: InferRequest, config: ModelConfig) -> CheckedRequest:
    """Match a request to its model and return it as the scheduler takes it.

    Raises InvalidTensorError or InvalidRequestError (both INVALID_ARGUMENT, 400), with Triton's text, for the first mismatch.
    """
    check_counts(request)
    inputs = _by_name(request.inputs, config)
    rows = _rows(inputs, config)
    tensors: list[memoryview | None] = []
    shapes: list[tuple[int, ...]] = []
    for tensor, spec in inputs:
        tensors.append(None if tensor is None else _bytes(tensor, spec, config))
        shapes.append(() if tensor is None else tensor.shape)
    return CheckedRequest(
        request.id,
        rows,
        tuple(tensors),
        tuple(shapes),
        _outputs([output.name for output in request.outputs], config) if request.outputs else config.all_outputs,
        () if not request.outputs or all(output.plain for output in request.outputs) else request.outputs,
        request.timeout_us,
        request.priority,
        request.sequence,
        request.parameters,
        _group(inputs, config) if config.shapes_vary else None,
    )


def check_unary(config: ModelConfig) -> None:
    """Raise UnsupportedError (UNIMPLEMENTED) for a decoupled model, which may give any number of answers."""
    if config.decoupled:
        raise UnsupportedError("ModelInfer RPC doesn't support models with decoupled transaction policy")


def check_counts(request: InferRequest, limits: Limits = LIMITS) -> None:
    """Bound the numbers of inputs, outputs, parameters and dimensions of any front end's request.

    Raises InvalidRequestError.
    """
    check_count(len(request.inputs), limits.inputs, "inputs")
    check_count(len(request.outputs), limits.outputs, "requested outputs")
    check_count(len(request.parameters), limits.parameters, "parameters")
    for tensor in request.inputs:
        check_dims(tensor.name, tensor.shape, limits)


_Inputs = Sequence[tuple[InputTensor | None, TensorConfig]]


def _group(inputs: _Inputs, config: ModelConfig) -> tuple[tuple[int, ...] | None, ...]:
    """Return the properties that requests must share to be in one run: the shapes beyond the batch, and which inputs are
    present."""
    first = 1 if config.max_batch_size else 0
    return tuple(None if tensor is None else () if spec.ragged else tensor.shape[first:] or (0,) for tensor, spec in inputs)


def _by_name(tensors: Sequence[InputTensor], config: ModelConfig) -> _Inputs:
    """Pair inputs with their configuration, in the configuration's order; None for an optional input that was left out."""
    given = {tensor.name: tensor for tensor in tensors}
    if len(given) != len(tensors):
        twice = next(t.name for i, t in enumerate(tensors) if t.name in {other.name for other in tensors[:i]})
        raise InvalidTensorError(f"input '{twice}' already exists in request")
    if not config.required_inputs <= len(given) <= len(config.inputs):
        raise _wrong_count(given, config)
    for name in given:
        if name not in config.input_names:
            raise InvalidRequestError(f"unexpected inference input '{name}' for model '{config.name}'")
    paired = []
    for spec in config.inputs:
        tensor = given.get(spec.name)
        if tensor is None and not spec.optional:
            raise _wrong_count(given, config)
        paired.append((tensor, spec))
    return paired


def _wrong_count(given: Mapping[str, InputTensor], config: ModelConfig) -> InvalidTensorError:
    missing = [spec.name for spec in config.inputs if spec.name not in given and not spec.optional]
    return InvalidTensorError(
        f"{_expected_count(len(given), config)} for model '{config.name}'. "
        f"Got input(s) {_names(sorted(given))}, but missing required input(s) {_names(missing)}. "
        "Please provide all required input(s)."
    )


def _expected_count(given: int, config: ModelConfig) -> str:
    if config.required_inputs == len(config.inputs):
        return f"expected {len(config.inputs)} inputs but got {given} inputs"
    return f"expected number of inputs between {config.required_inputs} and {len(config.inputs)} but got {given} inputs"


def _names(names: Iterable[str]) -> str:
    return "[" + ",".join(f"'{name}'" for name in names) + "]"


def _rows(inputs: _Inputs, config: ModelConfig) -> int:
    if config.max_batch_size == 0:
        return 1
    rows: int | None = None
    for tensor, _ in inputs:
        if tensor is None:
            continue
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
    """Return the input's bytes after checking datatype, shape and size."""
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
            f"got {_shape(tensor.shape)}. {_BATCH_NOTE if config.max_batch_size else ''}"
        )
    if min(shape, default=0) < 0:
        raise InvalidTensorError(
            f"All input dimensions should be specified for input '{spec.name}' for model '{config.name}', "
            f"got {_shape(tensor.shape)}"
        )
    size_bytes = DATATYPES[spec.datatype].size_bytes
    if not size_bytes:
        _check_strings(tensor, prod(tensor.shape), config)
    elif len(tensor.data) != prod(tensor.shape) * size_bytes:
        raise InvalidTensorError(
            f"input byte size mismatch for input '{spec.name}' for model '{config.name}'. "
            f"Expected {prod(tensor.shape) * size_bytes}, got {len(tensor.data)}"
        )
    if not len(tensor.data):
        _check_emptiness(tensor, config)
    return tensor.data


def _check_emptiness(tensor: InputTensor, config: ModelConfig) -> None:
    """Check an empty tensor's shape: zero bytes match every shape with a 0 in it, but arrays cannot have all of those
    shapes."""
    if prod([max(n, 1) for n in tensor.shape]) > _MOST_ELEMENTS:
        raise InvalidTensorError(
            f"input '{tensor.name}' for model '{config.name}' has shape {_shape(tensor.shape)}; expected a product of at "
            f"most {_MOST_ELEMENTS} for the dimensions that are not 0"
        )


def _check_strings(tensor: InputTensor, count: int, config: ModelConfig) -> None:
    """Check that the tensor holds exactly `count` complete elements."""
    elements, end = 0, len(tensor.data)
    for start, stop in walk_strings(tensor.data):
        if elements == count:
            raise InvalidTensorError(
                f"unexpected number of string elements {elements + 1} for inference input '{tensor.name}' for model "
                f"'{config.name}', expecting {count}"
            )
        if start > end:
            raise InvalidTensorError(
                f"incomplete string length indicator for inference input '{tensor.name}' for model '{config.name}', "
                f"expecting 4 bytes but only {end - start + 4} bytes available. Please make sure the string length "
                "indicator is in one buffer."
            )
        if stop > end:
            raise InvalidTensorError(incomplete_string(tensor.name, start, stop, end))
        elements += 1
    if elements != count:
        raise InvalidTensorError(
            f"expected {count} string elements for inference input '{tensor.name}' for model '{config.name}', got {elements}"
        )


def _matches(shape: Sequence[int], dims: Sequence[int]) -> bool:
    return len(shape) == len(dims) and all(d in (n, -1) for n, d in zip(shape, dims, strict=True))


def _shape(shape: Iterable[int]) -> str:
    return "[" + ",".join(str(n) for n in shape) + "]"


def _outputs(names: Sequence[str], config: ModelConfig) -> tuple[int, ...]:
    if len(set(names)) != len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InvalidTensorError(f"output '{twice}' already exists in request")
    for name in names:
        if name not in config.output_names:
            raise InvalidRequestError(f"unexpected inference output '{name}' for model '{config.name}'")
    return tuple(config.output_names.index(name) for name in names)
