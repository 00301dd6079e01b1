# SPDX-License-Identifier: Apache-2.0
"""Checks a model_config.proto message and converts it into the classes of schema.py, once, at load.

The error texts are Triton's, where Triton makes the check.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from tritonclient.grpc import model_config_pb2

from hypersonic.server.core.config.backends import NO_BACKENDS, Backends
from hypersonic.server.core.config.ensemble import ENSEMBLE, read_ensemble_steps
from hypersonic.server.core.config.files import check_inside
from hypersonic.server.core.config.schedule import read_dynamic_batching, read_sequence_batching
from hypersonic.server.core.config.schema import (
    BatchInput,
    BatchOutput,
    Dims,
    InstanceGroup,
    ModelConfig,
    TensorConfig,
    VersionPolicy,
    Warmup,
    WarmupInput,
)
from hypersonic.server.core.config.values import check_bounds, check_enums
from hypersonic.server.core.datatype import DATATYPES_BY_ENUM
from hypersonic.server.errors import ModelConfigError
from hypersonic.server.limits.bounds import INSTANCES

#: the number of source inputs that every kind of batch_input and batch_output takes
_SOURCES_OF_KIND = 1
#: limits on the memory and the work that one file can cause
_MAX_TENSORS, _MAX_RANK = 4096, 64


def check_config(message: model_config_pb2.ModelConfig, backends: Backends = NO_BACKENDS) -> ModelConfig:
    """Check `message` and convert it. Fills in the defaults that Triton shows in its ModelConfig RPC.

    Raises ModelConfigError, whose text names the model and the field.
    """
    known = backends.get(message.backend)
    has_devices = known is None or known.on_card
    name = message.name
    check_enums(message)
    check_bounds(message)
    if message.max_batch_size < 0:
        raise ModelConfigError(f"'max_batch_size' must be non-negative value for {name}")
    if "\0" in message.default_model_filename:
        raise ModelConfigError(f"default_model_filename has a NUL character for {name}, expected a file name")
    _check_platform(message)
    inputs = _tensors(message, "input", message.input)
    outputs = _tensors(message, "output", message.output)
    steps = read_ensemble_steps(message)
    _fill_defaults(message, has_devices=has_devices)
    parameters = {key: parameter.string_value for key, parameter in message.parameters.items()}
    return ModelConfig(
        name=name,
        backend=message.backend,
        platform=message.platform,
        max_batch_size=message.max_batch_size,
        inputs=inputs,
        outputs=outputs,
        dynamic_batching=read_dynamic_batching(message),
        versions=read_version_policy(message),
        parameters=parameters,
        message=message,
        instance_groups=_instance_groups(message, has_devices=has_devices),
        sequence=read_sequence_batching(message),
        ensemble=steps,
        batch_inputs=_batch_inputs(message),
        batch_outputs=_batch_outputs(message),
        decoupled=message.model_transaction_policy.decoupled,
        warmups=_warmups(message),
        fallback=_fallback(message, parameters.get("fallback_backend", "")),
    )


def _check_platform(message: model_config_pb2.ModelConfig) -> None:
    name, ensemble = message.name, message.platform == ENSEMBLE
    if ensemble and not message.HasField("ensemble_scheduling"):
        raise ModelConfigError(f"ensemble scheduling must be set for ensemble {name} whose platform is ensemble")
    if not ensemble and message.HasField("ensemble_scheduling"):
        raise ModelConfigError(f"ensemble scheduling cannot be set for model '{name}' whose platform is not ensemble")
    if message.platform and not message.backend and not ensemble:
        raise ModelConfigError(f"unexpected platform type '{message.platform}' for {name}")
    if message.response_cache.enable and message.model_transaction_policy.decoupled:
        raise ModelConfigError(
            f"Response Cache does not currently support model {name} with 'decoupled' transaction policy. "
            "Please disable the response cache."
        )


def _fallback(message: model_config_pb2.ModelConfig, backend: str) -> str:
    if backend and (backend == message.backend or message.platform == ENSEMBLE):
        raise ModelConfigError(
            f"model '{message.name}': fallback_backend is '{backend}', expected a backend other than the model's own"
        )
    return backend


Tensor: TypeAlias = model_config_pb2.ModelInput | model_config_pb2.ModelOutput


def _tensors(message: model_config_pb2.ModelConfig, kind: str, tensors: Sequence[Tensor]) -> tuple[TensorConfig, ...]:
    model, names = message.name, [tensor.name for tensor in tensors]
    if (not names and message.platform != ENSEMBLE) or len(names) > _MAX_TENSORS:
        raise ModelConfigError(f"model '{model}' has {len(names)} {kind}s, expected 1 to {_MAX_TENSORS}")
    if not all(names):
        raise ModelConfigError(f"model {kind} must specify 'name' for {model}")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ModelConfigError(f"model '{model}': {kind} '{twice}' is specified more than once")
    return tuple(_tensor(message, kind, tensor) for tensor in tensors)


def _tensor(message: model_config_pb2.ModelConfig, kind: str, tensor: Tensor) -> TensorConfig:
    what = f"model {kind} '{tensor.name}'"
    datatype = DATATYPES_BY_ENUM.get(model_config_pb2.DataType.Name(tensor.data_type))
    if datatype is None:
        raise ModelConfigError(f"{what} must specify 'data_type' for {message.name}")
    if tensor.is_shape_tensor:
        raise ModelConfigError(f"shape tensors are only supported for TensorRT platform for {message.name}")
    dims = _dims(tensor.dims, f"{what} dimension", message.name)
    if not dims:
        raise ModelConfigError(f"{what} must specify 'dims' for {message.name}")
    is_input = kind == "input"
    if is_input and tensor.format != model_config_pb2.ModelInput.FORMAT_NONE and len(dims) != 3:
        raise ModelConfigError(f"model input NHWC/NCHW require 3 dims for {message.name}")
    return TensorConfig(
        name=tensor.name,
        datatype=datatype.name,
        dims=dims,
        optional=is_input and tensor.optional,
        ragged=is_input and tensor.allow_ragged_batch,
        reshape=_reshape(message, what, tensor, dims),
        label_filename="" if is_input else _label_filename(message.name, tensor),
    )


def _dims(dims: Sequence[int], what: str, model: str) -> Dims:
    if any(n < 1 and n != -1 for n in dims):
        raise ModelConfigError(f"{what} must be integer >= 1, or -1 to indicate a variable-size dimension for {model}")
    if len(dims) > _MAX_RANK:
        raise ModelConfigError(f"{what} count is {len(dims)}, expected at most {_MAX_RANK} for {model}")
    return tuple(dims)


def _reshape(message: model_config_pb2.ModelConfig, what: str, tensor: Tensor, dims: Dims) -> Dims | None:
    if not tensor.HasField("reshape"):
        return None
    shape = _dims(tensor.reshape.shape, f"{what} reshape dimensions", message.name)
    if not shape and message.max_batch_size == 0:
        raise ModelConfigError(
            f"{what} cannot have empty reshape for non-batching model as scalar tensors are not supported for {message.name}"
        )
    if not _same_size(dims, shape):
        raise ModelConfigError(f"{what} has different size for dims and reshape for {message.name}")
    return shape


def _same_size(dims: Dims, shape: Dims) -> bool:
    """Return whether both have the same number of elements between one variable dimension and the next (Triton's rule)."""
    return _sizes_between_variables(dims) == _sizes_between_variables(shape)


def _sizes_between_variables(dims: Dims) -> list[int]:
    sizes = [1]
    for n in dims:
        if n == -1:
            sizes.append(1)
        else:
            sizes[-1] *= n
    return sizes


def _label_filename(model: str, tensor: model_config_pb2.ModelOutput) -> str:
    if tensor.label_filename:
        check_inside(tensor.label_filename, f"model output '{tensor.name}' label_filename", model)
    return str(tensor.label_filename)


def read_version_policy(message: model_config_pb2.ModelConfig) -> VersionPolicy:
    """Return the version policy; the default is the latest version, as in Triton.

    Raises ModelConfigError for a policy that can choose no version.
    """
    policy = message.version_policy
    choice = policy.WhichOneof("policy_choice")
    if (choice == "specific" and not policy.specific.versions) or (choice == "latest" and not policy.latest.num_versions):
        raise no_version(message.name)
    if choice == "specific":
        return VersionPolicy(specific=tuple(policy.specific.versions))
    return VersionPolicy() if choice == "all" else VersionPolicy(latest=policy.latest.num_versions or 1)


def no_version(model: str) -> ModelConfigError:
    """Return the error for a version policy that chooses none of the existing versions, with Triton's text."""
    return ModelConfigError(f"at least one version must be available under the version policy of model '{model}'")


def _instance_groups(message: model_config_pb2.ModelConfig, *, has_devices: bool) -> tuple[InstanceGroup, ...]:
    groups = tuple(_instance_group(message, group, has_devices=has_devices) for group in message.instance_group)
    count = sum(group.count * max(1, len(group.devices)) for group in groups)
    if count > INSTANCES.most:
        raise ModelConfigError(
            f"model '{message.name}': instance_group asks for {count} instances, expected {INSTANCES.most} at most"
        )
    return groups


def _instance_group(
    message: model_config_pb2.ModelConfig, group: model_config_pb2.ModelInstanceGroup, *, has_devices: bool
) -> InstanceGroup:
    kind = model_config_pb2.ModelInstanceGroup.Kind.Name(group.kind)
    what = f"instance group {group.name} of model {message.name}"
    if group.gpus and kind in ("KIND_CPU", "KIND_MODEL"):
        raise ModelConfigError(f"{what} has kind {kind} but specifies one or more GPUs")
    if kind == "KIND_GPU" and not has_devices:
        raise ModelConfigError(f"{what} has kind KIND_GPU but no GPUs are available")
    if group.profile:
        raise ModelConfigError(f"{what} and platform specifies profile field which is only supported for TensorRT models")
    if any(device < 0 for device in group.gpus):
        raise ModelConfigError(f"{what} names card {min(group.gpus)}, expected 0 or more")
    return InstanceGroup(group.name, kind, group.count, tuple(dict.fromkeys(group.gpus)))


def _batch_inputs(message: model_config_pb2.ModelConfig) -> tuple[BatchInput, ...]:
    return tuple(_batch_input(message, item) for item in message.batch_input)


def _batch_input(message: model_config_pb2.ModelConfig, item: model_config_pb2.BatchInput) -> BatchInput:
    kind = model_config_pb2.BatchInput.Kind.Name(item.kind)
    if model_config_pb2.DataType.Name(item.data_type) not in ("TYPE_INT32", "TYPE_FP32"):
        raise ModelConfigError(f"batch input data type must be TYPE_INT32 or TYPE_FP32 for {message.name}")
    _check_sources(message, f"batch input kind '{kind}'", item.source_input)
    if not item.target_name or not all(item.target_name):
        raise ModelConfigError(f"batch input kind '{kind}' expects a target name for {message.name}")
    datatype = DATATYPES_BY_ENUM[model_config_pb2.DataType.Name(item.data_type)].name
    return BatchInput(kind, tuple(item.target_name), datatype, tuple(item.source_input))


def _check_sources(message: model_config_pb2.ModelConfig, what: str, sources: Sequence[str]) -> None:
    if len(sources) != _SOURCES_OF_KIND:
        raise ModelConfigError(f"{what} expects {_SOURCES_OF_KIND} source input, got {len(sources)} for {message.name}")
    known = {tensor.name for tensor in message.input}
    for source in sources:
        if source not in known:
            raise ModelConfigError(f"unknown source input name '{source}' for {message.name}")


def _batch_outputs(message: model_config_pb2.ModelConfig) -> tuple[BatchOutput, ...]:
    known, seen = {tensor.name for tensor in message.output}, set[str]()
    for item in message.batch_output:
        kind = model_config_pb2.BatchOutput.Kind.Name(item.kind)
        for target in item.target_name:
            if target not in known:
                raise ModelConfigError(f"unknown target output name '{target}' for {message.name}")
            if target in seen:
                raise ModelConfigError(f"target output name '{target}' can only be specified once for {message.name}")
            seen.add(target)
        _check_sources(message, f"batch output kind '{kind}'", item.source_input)
    return tuple(
        BatchOutput("BATCH_SCATTER_WITH_INPUT_SHAPE", tuple(item.target_name), tuple(item.source_input))
        for item in message.batch_output
    )


def _warmups(message: model_config_pb2.ModelConfig) -> tuple[Warmup, ...]:
    return tuple(_warmup(message, sample) for sample in message.model_warmup)


def _warmup(message: model_config_pb2.ModelConfig, sample: model_config_pb2.ModelWarmup) -> Warmup:
    limit = message.max_batch_size
    if limit and sample.batch_size > limit:
        raise ModelConfigError(
            f"failed to run warmup sample '{sample.name}': batch size {sample.batch_size} for '{message.name}', "
            f"max allowed is {limit}"
        )
    inputs = {key: _warmup_input(message.name, key, value) for key, value in sample.inputs.items()}
    return Warmup(sample.name, max(1, sample.batch_size) if limit else 0, inputs, max(1, sample.count))


def _warmup_input(model: str, key: str, value: model_config_pb2.ModelWarmup.Input) -> WarmupInput:
    datatype = DATATYPES_BY_ENUM.get(model_config_pb2.DataType.Name(value.data_type))
    choice = value.WhichOneof("input_data_type")
    if datatype is None:
        raise ModelConfigError(f"warmup setting expects input '{key}' to have data_type set for {model}")
    if any(n < 0 for n in value.dims):
        raise ModelConfigError(f"warmup setting expects all variable-size dimensions are specified for input '{key}'")
    if math.prod(value.dims) > 1 << 32:
        raise ModelConfigError(f"warmup setting has more than {1 << 32} elements for input '{key}'")
    if choice is None:
        raise ModelConfigError(f"warmup setting expects input '{key}' to have input_data_type set")
    if choice == "input_data_file":
        check_inside(value.input_data_file, f"warmup input '{key}' input_data_file", model)
        return WarmupInput(datatype.name, tuple(value.dims), "file", value.input_data_file)
    return WarmupInput(datatype.name, tuple(value.dims), "random" if choice == "random_data" else "zero")


def _fill_defaults(message: model_config_pb2.ModelConfig, *, has_devices: bool) -> None:
    """Fill in the values that Triton's ModelConfig RPC shows for fields that a configuration leaves out."""
    if message.version_policy.WhichOneof("policy_choice") is None:
        message.version_policy.latest.num_versions = 1
    if message.HasField("sequence_batching") and not message.sequence_batching.max_sequence_idle_microseconds:
        message.sequence_batching.max_sequence_idle_microseconds = 1_000_000
    for batching in _batchings(message):
        if not batching.preferred_batch_size and message.max_batch_size > 0:
            batching.preferred_batch_size.append(message.max_batch_size)
    if message.platform != ENSEMBLE:
        _fill_instance_groups(message, has_devices=has_devices)
        message.optimization.input_pinned_memory.enable = True
        message.optimization.output_pinned_memory.enable = True


def _batchings(
    message: model_config_pb2.ModelConfig,
) -> list[model_config_pb2.ModelDynamicBatching | model_config_pb2.ModelSequenceBatching.StrategyOldest]:
    batchings = [message.dynamic_batching] if message.HasField("dynamic_batching") else []
    return [*batchings, message.sequence_batching.oldest] if message.sequence_batching.HasField("oldest") else batchings


def _fill_instance_groups(message: model_config_pb2.ModelConfig, *, has_devices: bool) -> None:
    """Fill in names, counts and kinds. KIND_AUTO becomes KIND_GPU where cards are named, otherwise KIND_CPU, as in Triton on a
    host without a GPU.
    """
    kinds = model_config_pb2.ModelInstanceGroup
    if not message.instance_group:
        message.instance_group.add(name=message.name)
    for index, group in enumerate(message.instance_group):
        group.name = group.name or f"{message.name}_{index}"
        group.count = max(1, group.count)
        if group.kind == kinds.KIND_AUTO:
            group.kind = kinds.KIND_GPU if group.gpus and has_devices else kinds.KIND_CPU
