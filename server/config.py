# SPDX-License-Identifier: Apache-2.0
"""config.pbtxt: Triton's model configuration, read as the whole protobuf message and checked once, at load.

The frozen nouns below are what the server works with; `ModelConfig.message` is the complete message for the ModelConfig RPC.
Fields that do not concern this server (optimization, metric_tags, ...) are read, passed on and otherwise ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from hypersonic.server.datatype import DATATYPES_BY_ENUM
from hypersonic.server.errors import ModelConfigError

#: a config.pbtxt is written by hand; nothing sensible is longer
_MAX_CONFIG_BYTES = 16 * 2**20


@dataclass(frozen=True)
class TensorConfig:
    """One input or output. datatype: wire name. dims: without the batch dimension, -1 = any."""

    name: str
    datatype: str
    dims: tuple[int, ...]


@dataclass(frozen=True)
class QueuePolicy:
    """How long and how many requests may wait. timeout_us: 0 = for ever. max_queue_size: requests, 0 = no limit.

    delay_on_timeout: a request past its timeout is served after all others (DELAY) instead of refused (REJECT).
    """

    timeout_us: int = 0
    allow_timeout_override: bool = False
    delay_on_timeout: bool = False
    max_queue_size: int = 0

    def timeout_of(self, requested_us: int) -> int:
        """The timeout of a request that asked for `requested_us` (0 = none): Triton lets it shorten the default only."""
        if self.allow_timeout_override and 0 < requested_us < self.timeout_us:
            return requested_us
        return self.timeout_us


@dataclass(frozen=True)
class DynamicBatching:
    """preferred_batch_sizes: ascending. max_queue_delay_us: how long a batch may wait to become a preferred one."""

    preferred_batch_sizes: tuple[int, ...] = ()
    max_queue_delay_us: int = 0
    queue_policy: QueuePolicy = QueuePolicy()


@dataclass(frozen=True)
class VersionPolicy:
    """Which of the versions found are served: the latest `latest`, exactly `specific`, or (both empty) all."""

    latest: int = 0
    specific: tuple[int, ...] = ()

    def choose(self, found: Iterable[int]) -> tuple[int, ...]:
        """Ascending. A specific version that is not there is left out, as Triton does."""
        versions = sorted(found)
        if self.specific:
            return tuple(version for version in versions if version in self.specific)
        return tuple(versions[-self.latest :]) if self.latest else tuple(versions)


@dataclass(frozen=True)
class ModelConfig:
    """A checked config.pbtxt. dynamic_batching is None where every request runs alone. devices: card indices, () = card 0."""

    name: str
    backend: str
    platform: str
    max_batch_size: int
    inputs: tuple[TensorConfig, ...]
    outputs: tuple[TensorConfig, ...]
    dynamic_batching: DynamicBatching | None
    versions: VersionPolicy
    devices: tuple[int, ...]
    parameters: Mapping[str, str]
    message: model_config_pb2.ModelConfig

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        return tuple(tensor.name for tensor in self.inputs)

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        return tuple(tensor.name for tensor in self.outputs)

    @cached_property
    def all_outputs(self) -> tuple[int, ...]:
        """Indices of all outputs, for requests that name none."""
        return tuple(range(len(self.outputs)))

    def integer(self, parameter: str, default: int, *, minimum: int = 1) -> int:
        """An integer out of `parameters {}`. Raises ModelConfigError for text that is none, or one below `minimum`."""
        text = self.parameters.get(parameter)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise ModelConfigError(
                f"model '{self.name}': parameter {parameter} is {text!r}, expected an integer of at least {minimum}"
            )
        return value


def read_config(path: Path, directory_name: str) -> ModelConfig:
    """A config.pbtxt as a checked ModelConfig; the model's name is its directory's.

    Raises ModelConfigError with file, line and column for text that is no inference.ModelConfig (unknown fields included), and
    with the field's name for values that cannot be served.
    """
    message = parse_config(_text(path, directory_name), f"{directory_name}/{path.name}")
    if message.name and message.name != directory_name:
        raise ModelConfigError(
            f"unexpected directory name '{directory_name}' for model '{message.name}', directory name must equal model name"
        )
    message.name = directory_name
    return check_config(message)


def _text(path: Path, directory_name: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_CONFIG_BYTES + 1)
        if len(data) > _MAX_CONFIG_BYTES:
            raise ModelConfigError(f"{directory_name}/{path.name}: longer than {_MAX_CONFIG_BYTES} bytes")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ModelConfigError(f"failed to read {directory_name}/{path.name}: {reason}") from error


def parse_config(text: str, origin: str) -> model_config_pb2.ModelConfig:
    """Protobuf text -> message. Raises ModelConfigError starting with `origin:line:column:`."""
    try:
        return text_format.Parse(text, model_config_pb2.ModelConfig())
    except text_format.ParseError as error:
        line, column = error.GetLine(), error.GetColumn()
        place = f"{origin}:{line}:{column}" if line is not None else origin
        reason = str(error).split(" : ", 1)[-1] if line is not None else str(error)
        raise ModelConfigError(f"{place}: {reason}") from error


def check_config(message: model_config_pb2.ModelConfig) -> ModelConfig:
    """Raises ModelConfigError naming the model and the field; fills in the defaults Triton shows in its ModelConfig RPC."""
    name = message.name
    _refuse_unsupported(message)
    if message.max_batch_size < 0:
        raise ModelConfigError(f"model '{name}': max_batch_size is {message.max_batch_size}, expected 0 or more")
    _fill_defaults(message)
    return ModelConfig(
        name=name,
        backend=message.backend,
        platform=message.platform,
        max_batch_size=message.max_batch_size,
        inputs=_tensors(name, "input", message.input),
        outputs=_tensors(name, "output", message.output),
        dynamic_batching=_dynamic_batching(message),
        versions=_version_policy(message),
        devices=tuple(dict.fromkeys(index for group in message.instance_group for index in group.gpus)),
        parameters={key: parameter.string_value for key, parameter in message.parameters.items()},
        message=message,
    )


def _refuse_unsupported(message: model_config_pb2.ModelConfig) -> None:
    kind = message.WhichOneof("scheduling_choice")
    if kind in ("sequence_batching", "ensemble_scheduling"):
        raise ModelConfigError(f"model '{message.name}': {kind} is not supported; expected dynamic_batching or nothing")
    if message.model_transaction_policy.decoupled:
        raise ModelConfigError(f"model '{message.name}': a decoupled model_transaction_policy is not supported")


def _tensors(
    model: str, kind: str, tensors: Sequence[model_config_pb2.ModelInput] | Sequence[model_config_pb2.ModelOutput]
) -> tuple[TensorConfig, ...]:
    names = [tensor.name for tensor in tensors]
    if not tensors or not all(names) or len(set(names)) != len(names):
        raise ModelConfigError(f"model '{model}': {kind}s are named {names}, expected one or more, each with a name of its own")
    return tuple(_tensor(model, kind, tensor) for tensor in tensors)


def _tensor(model: str, kind: str, tensor: model_config_pb2.ModelInput | model_config_pb2.ModelOutput) -> TensorConfig:
    datatype = DATATYPES_BY_ENUM.get(model_config_pb2.DataType.Name(tensor.data_type))
    if datatype is None:
        raise ModelConfigError(f"model '{model}': {kind} '{tensor.name}' must specify 'data_type'")
    dims = tuple(tensor.dims)
    if not dims or any(n < 1 and n != -1 for n in dims):
        raise ModelConfigError(
            f"model '{model}': {kind} '{tensor.name}' has dims {list(dims)}, expected positive integers or -1 = variable"
        )
    return TensorConfig(tensor.name, datatype.name, dims)


def _dynamic_batching(message: model_config_pb2.ModelConfig) -> DynamicBatching | None:
    if not message.HasField("dynamic_batching"):
        return None
    batching = message.dynamic_batching
    if message.max_batch_size == 0:
        raise ModelConfigError(f"model '{message.name}': dynamic_batching needs a max_batch_size above 0")
    for size in batching.preferred_batch_size:
        if not 0 < size <= message.max_batch_size:
            raise ModelConfigError(
                f"model '{message.name}': dynamic batching preferred size is {size}, "
                f"must be positive and <= max batch size {message.max_batch_size}"
            )
    policy = batching.default_queue_policy
    return DynamicBatching(
        preferred_batch_sizes=tuple(sorted(set(batching.preferred_batch_size))),
        max_queue_delay_us=batching.max_queue_delay_microseconds,
        queue_policy=QueuePolicy(
            timeout_us=policy.default_timeout_microseconds,
            allow_timeout_override=policy.allow_timeout_override,
            delay_on_timeout=policy.timeout_action == model_config_pb2.ModelQueuePolicy.DELAY,
            max_queue_size=policy.max_queue_size,
        ),
    )


def _version_policy(message: model_config_pb2.ModelConfig) -> VersionPolicy:
    policy = message.version_policy
    choice = policy.WhichOneof("policy_choice")
    if choice == "specific":
        if not policy.specific.versions:
            raise ModelConfigError(f"model '{message.name}': version_policy specific names no versions")
        return VersionPolicy(specific=tuple(policy.specific.versions))
    return VersionPolicy(latest=policy.latest.num_versions or 1) if choice == "latest" else VersionPolicy()


def _fill_defaults(message: model_config_pb2.ModelConfig) -> None:
    if message.version_policy.WhichOneof("policy_choice") is None:
        message.version_policy.latest.num_versions = 1
    batching = message.dynamic_batching
    if message.HasField("dynamic_batching") and not batching.preferred_batch_size and message.max_batch_size > 0:
        batching.preferred_batch_size.append(message.max_batch_size)
    for index, group in enumerate(message.instance_group):
        group.name = group.name or (message.name if len(message.instance_group) == 1 else f"{message.name}_{index}")
        group.count = group.count or 1
