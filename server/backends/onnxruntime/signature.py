# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of an ONNX model: a model configuration is completed from them, or checked against them.

Rules and texts are those of Triton's ONNX Runtime backend (AutoCompleteConfig, ValidateInputs, ValidateOutputs).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tritonclient.grpc import model_config_pb2

from hypersonic.server.core.config.schema import Dims, ModelConfig, TensorConfig
from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.errors import ModelLoadError

#: Triton's default-max-batch-size, for models whose inputs and outputs all have a variable first dimension
DEFAULT_MAX_BATCH_SIZE = 4
#: instances of a model whose config.pbtxt gives no number; Triton's default for this backend
DEFAULT_INSTANCES = 2

#: ONNX's name of an element -> datatype on the wire, where they differ by more than capitals
_NAMED = {"float16": "FP16", "float": "FP32", "double": "FP64", "bfloat16": "BF16", "string": "BYTES"}
#: ONNX Runtime's type of a tensor -> datatype on the wire
_DATATYPES = {f"tensor({name})": datatype for name, datatype in _NAMED.items()} | {
    f"tensor({name.lower()})": name for name in DATATYPES if name not in _NAMED.values()
}


class TensorInfo(NamedTuple):
    """An input or output of a model.

    Attributes:
        datatype: "" for a type that Triton does not have.
        dims: with the batch dimension, -1 = variable; () is a scalar or a tensor of unknown rank.
    """

    name: str
    datatype: str
    dims: Dims


class Signature(NamedTuple):
    """The inputs and outputs of a model.

    Attributes:
        overridable: initializers that may be given as inputs.
    """

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    overridable: tuple[TensorInfo, ...] = ()


def tensor_info(name: str, type_name: str, shape: Sequence[int | str | None] | None) -> TensorInfo:
    """Convert ONNX Runtime's description of a tensor; a named or unknown dimension is variable."""
    dims = tuple(n if isinstance(n, int) and n >= 0 else -1 for n in shape or ())
    return TensorInfo(name, _DATATYPES.get(type_name, ""), dims)


def is_complete(message: model_config_pb2.ModelConfig) -> bool:
    """Return whether Triton would leave the configuration unchanged."""
    return bool((message.input or message.batch_input) and message.output)


def complete_instances(message: model_config_pb2.ModelConfig) -> None:
    """Fill in instance_group, or its count, if it is missing."""
    if not message.instance_group:
        message.instance_group.add(name=message.name, kind=model_config_pb2.ModelInstanceGroup.KIND_CPU)
    for group in message.instance_group:
        if group.count == 0 and group.kind != model_config_pb2.ModelInstanceGroup.KIND_MODEL:
            group.count = DEFAULT_INSTANCES


def complete(message: model_config_pb2.ModelConfig, signature: Signature) -> None:
    """Fill in max_batch_size, dynamic_batching, inputs and outputs. Raises ModelLoadError with Triton's text."""
    _complete_batching(message, signature)
    if not (message.input or message.batch_input):
        for tensor in signature.inputs:
            _complete_tensor(message.input.add(), tensor, message)
    if not message.output:
        for tensor in signature.outputs:
            _complete_tensor(message.output.add(), tensor, message)


def _complete_batching(message: model_config_pb2.ModelConfig, signature: Signature) -> None:
    batches = all(tensor.dims[:1] == (-1,) for tensor in (*signature.inputs, *signature.outputs))
    if not batches and message.max_batch_size:
        raise ModelLoadError(
            f"autofill failed for model '{message.name}': model does not support batching while non-zero max_batch_size is "
            "specified"
        )
    if not batches:
        return
    message.max_batch_size = message.max_batch_size or DEFAULT_MAX_BATCH_SIZE
    if message.max_batch_size > 1 and message.WhichOneof("scheduling_choice") is None:
        message.dynamic_batching.SetInParent()


def _complete_tensor(
    target: model_config_pb2.ModelInput | model_config_pb2.ModelOutput,
    tensor: TensorInfo,
    message: model_config_pb2.ModelConfig,
) -> None:
    if not tensor.datatype:
        raise ModelLoadError(f"model '{message.name}': tensor '{tensor.name}' has a type that the protocol does not support")
    target.name = tensor.name
    target.data_type = model_config_pb2.DataType.Value(DATATYPES[tensor.datatype].enum)
    dims = tensor.dims[1:] if message.max_batch_size else tensor.dims
    target.dims.extend(dims or (1,))
    if not dims and message.max_batch_size:
        target.reshape.SetInParent()


def check(config: ModelConfig, signature: Signature) -> None:
    """Raise ModelLoadError, with Triton's text, for the first difference between configuration and model."""
    expected = len(config.inputs) + sum(len(b.target_names) for b in config.batch_inputs) + _scheduled(config)
    if expected != len(signature.inputs) and not signature.overridable:
        raise _unable(config, f"configuration expects {expected} inputs, model provides {len(signature.inputs)}")
    for spec in config.inputs:
        _check_input(spec, _find(spec, "input", (*signature.inputs, *signature.overridable)), config)
    for batch_input in config.batch_inputs:
        for name in batch_input.target_names:
            target = TensorConfig(name, batch_input.datatype, ())
            _check_datatype(target, "input", _find(target, "input", signature.inputs), config)
    for state in config.sequence.states if config.sequence else ():
        target = TensorConfig(state.output_name, state.datatype, state.dims)
        _check_datatype(target, "output", _find(target, "output", signature.outputs), config)
    scattered = {name for batch_output in config.batch_outputs for name in batch_output.target_names}
    for spec in config.outputs:
        tensor = _find(spec, "output", signature.outputs)
        _check_datatype(spec, "output", tensor, config)
        if tensor.dims and spec.name not in scattered:
            _check_dims(spec, tensor, config, _equal)


def _scheduled(config: ModelConfig) -> int:
    """Return the number of inputs that the sequence scheduler fills in."""
    if config.sequence is None:
        return 0
    controls = {control.input_name for control in config.sequence.controls}
    return len(controls | {state.input_name for state in config.sequence.states})


def _unable(config: ModelConfig, what: str) -> ModelLoadError:
    return ModelLoadError(f"unable to load model '{config.name}', {what}")


def _find(spec: TensorConfig, kind: str, tensors: Sequence[TensorInfo]) -> TensorInfo:
    match = next((tensor for tensor in tensors if tensor.name == spec.name), None)
    if match is None:
        allowed = ", ".join(sorted(tensor.name for tensor in tensors))
        raise ModelLoadError(f"unexpected inference {kind} '{spec.name}', allowed {kind}s are: {allowed}")
    return match


def _check_input(spec: TensorConfig, tensor: TensorInfo, config: ModelConfig) -> None:
    if spec.optional and config.max_batch_size:
        raise _unable(config, f"optional input '{spec.name}' is not supported for models that support batching")
    _check_datatype(spec, "input", tensor, config)
    if spec.ragged:
        _check_ragged(spec, tensor, config)
    elif tensor.dims:
        _check_dims(spec, tensor, config, _takes)
    elif any(dim != 1 for dim in spec.model_dims):
        raise _unable(
            config,
            f"scalar tensor '{spec.name}', should only provide 1 in the model configuration when the model doesn't support "
            f"batching. Model configuration provided: {_shape(spec.model_dims)}.",
        )


def _check_datatype(spec: TensorConfig, kind: str, tensor: TensorInfo, config: ModelConfig) -> None:
    if spec.datatype != tensor.datatype:
        wanted, got = DATATYPES[spec.datatype].enum, DATATYPES[tensor.datatype].enum if tensor.datatype else "another type"
        raise _unable(config, f"configuration expects datatype {wanted} for {kind} '{spec.name}', model provides {got}")


def _check_ragged(spec: TensorConfig, tensor: TensorInfo, config: ModelConfig) -> None:
    if spec.optional:
        raise _unable(
            config,
            "configuration expects model provides input with shape [-1] for ragged input "
            f"'{spec.name}', which is not supported for optional input",
        )
    if tensor.dims != (-1,):
        raise _unable(
            config,
            f"configuration expects model provides input with shape [-1]  for ragged input '{spec.name}', model provides "
            f"{_shape(tensor.dims)}",
        )


def _takes(model: int, configured: int) -> bool:
    """Return whether an input's dimension accepts every size that the configuration allows."""
    return model in (-1, configured)


def _equal(model: int, configured: int) -> bool:
    return model == configured


def _check_dims(spec: TensorConfig, tensor: TensorInfo, config: ModelConfig, fits: Callable[[int, int], bool]) -> None:
    batched = config.max_batch_size > 0
    dims = ((-1,) if batched else ()) + spec.model_dims
    what = f"model '{config.name}', tensor '{spec.name}': "
    if batched and tensor.dims[0] != -1:
        raise ModelLoadError(
            f"{what}for the model to support batching the shape should have at least 1 dimension and the first dimension must "
            f"be -1; but shape expected by the model is {_shape(tensor.dims)}"
        )
    if len(dims) == len(tensor.dims) and all(fits(m, c) for m, c in zip(tensor.dims, dims, strict=True)):
        return
    first = "an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete shape"
    raise ModelLoadError(
        f"{what}the model expects {len(tensor.dims)} dimensions (shape {_shape(tensor.dims)}) but the model configuration "
        f"specifies {len(dims)} dimensions ({f'{first} ' if batched else 'shape '}{_shape(dims)})"
    )


def _shape(dims: Dims) -> str:
    return "[" + ",".join(str(dim) for dim in dims) + "]"
