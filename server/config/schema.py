# SPDX-License-Identifier: Apache-2.0
"""The nouns of a model configuration: config.pbtxt, checked, in the words of Triton's model_config.proto.

read.py reads them out of text or JSON, check.py checks them. `ModelConfig.message` is the complete message for
the ModelConfig RPC; fields that do not concern this server (optimization, metric_tags, ...) are only there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from tritonclient.grpc import model_config_pb2

from hypersonic.server.errors import ModelConfigError

#: dims: -1 = any size
Dims = tuple[int, ...]


@dataclass(frozen=True)
class TensorConfig:
    """One input or output. datatype: wire name. dims: without the batch dimension, -1 = any; () only with a reshape.

    reshape: the dims the backend works with where they differ from those on the wire, None = the same. optional and ragged
    (requests of different shapes may share a batch) concern inputs, label_filename (in the model's directory) outputs.
    """

    name: str
    datatype: str
    dims: Dims
    optional: bool = False
    ragged: bool = False
    reshape: Dims | None = None
    label_filename: str = ""

    @property
    def model_dims(self) -> Dims:
        """The dims the backend works with."""
        return self.dims if self.reshape is None else self.reshape


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
    """preferred_batch_sizes: ascending. max_queue_delay_us: how long a batch may wait to become a preferred one.

    priority_levels: 0 = one queue for all; else levels 1 (highest) to `priority_levels`, a request without one gets
    `default_priority_level`. priority_policies: queue policies of the levels that have one of their own.
    preserve_ordering: answers leave in the order the requests came in.
    """

    preferred_batch_sizes: tuple[int, ...] = ()
    max_queue_delay_us: int = 0
    queue_policy: QueuePolicy = QueuePolicy()
    preserve_ordering: bool = False
    priority_levels: int = 0
    default_priority_level: int = 0
    priority_policies: Mapping[int, QueuePolicy] = field(default_factory=dict)


ControlKind = Literal["START", "END", "READY", "CORRID"]


@dataclass(frozen=True)
class SequenceControl:
    """An input the scheduler fills in. datatype: wire name. false_true: its two values; None for CORRID, which has none."""

    kind: ControlKind
    input_name: str
    datatype: str
    false_true: tuple[float, float] | None = None


@dataclass(frozen=True)
class InitialState:
    """What a sequence's state begins with: zeros, or the bytes of `data_file` under <model>/initial_state/."""

    name: str
    datatype: str
    dims: Dims
    data_file: str = ""


@dataclass(frozen=True)
class SequenceState:
    """A tensor kept from one request of a sequence to its next: comes out as `output_name`, goes in as `input_name`."""

    input_name: str
    output_name: str
    datatype: str
    dims: Dims
    initial: InitialState | None = None


@dataclass(frozen=True)
class SequenceBatching:
    """max_idle_us: a sequence silent for longer is ended (Triton's default: one second).

    strategy direct: each sequence has a slot of the batch; minimum_slot_utilization: 0..1, below it the batch waits up to
    max_queue_delay_us. strategy oldest: the oldest of at most max_candidate_sequences sequences are batched dynamically.
    """

    max_idle_us: int = 1_000_000
    strategy: Literal["direct", "oldest"] = "direct"
    max_candidate_sequences: int = 0
    preferred_batch_sizes: tuple[int, ...] = ()
    max_queue_delay_us: int = 0
    minimum_slot_utilization: float = 0.0
    controls: tuple[SequenceControl, ...] = ()
    states: tuple[SequenceState, ...] = ()
    preserve_ordering: bool = False
    iterative: bool = False

    def control(self, kind: ControlKind) -> SequenceControl | None:
        """The control of one kind, if the model has it."""
        return next((control for control in self.controls if control.kind == kind), None)


@dataclass(frozen=True)
class EnsembleStep:
    """version: -1 = the latest. input_map, output_map: the model's tensor name -> the ensemble's."""

    model_name: str
    version: int
    input_map: Mapping[str, str]
    output_map: Mapping[str, str]


BatchInputKind = Literal[
    "BATCH_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
    "BATCH_ITEM_SHAPE",
    "BATCH_ITEM_SHAPE_FLATTEN",
]


@dataclass(frozen=True)
class BatchInput:
    """A tensor made of each batch's shapes. datatype: wire name, INT32 or FP32. source_inputs: whose elements are counted."""

    kind: BatchInputKind
    target_names: tuple[str, ...]
    datatype: str
    source_inputs: tuple[str, ...]


@dataclass(frozen=True)
class BatchOutput:
    """Outputs of a ragged batch that are split among its requests as `source_inputs` were joined."""

    kind: Literal["BATCH_SCATTER_WITH_INPUT_SHAPE"]
    target_names: tuple[str, ...]
    source_inputs: tuple[str, ...]


@dataclass(frozen=True)
class InstanceGroup:
    """count: instances per device (or in all, for kinds without devices). devices: card indices, () = the backend chooses."""

    name: str
    kind: Literal["KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"]
    count: int
    devices: tuple[int, ...] = ()


@dataclass(frozen=True)
class WarmupInput:
    """dims: without the batch dimension, fixed. source "file": the bytes of `file` under <model>/warmup/."""

    datatype: str
    dims: Dims
    source: Literal["zero", "random", "file"]
    file: str = ""


@dataclass(frozen=True)
class Warmup:
    """A request sent `count` times to each instance before the model is READY. batch_size: 0 for models without batches."""

    name: str
    batch_size: int
    inputs: Mapping[str, WarmupInput]
    count: int = 1


@dataclass(frozen=True)
class VersionPolicy:
    """Which of the versions found are served: the latest `latest`, exactly `specific`, or (both empty) all."""

    latest: int = 0
    specific: tuple[int, ...] = ()

    def choose(self, present: Iterable[int]) -> tuple[int, ...]:
        """Ascending. A specific version that is not there is left out, as Triton does."""
        versions = sorted(present)
        if self.specific:
            return tuple(version for version in versions if version in self.specific)
        return tuple(versions[-self.latest :]) if self.latest else tuple(versions)


@dataclass(frozen=True)
class ModelConfig:
    """A checked model configuration.

    dynamic_batching and sequence are None where the model does not ask for them; ensemble: its steps, () for other models.
    fallback: the backend that takes over when no instance is left, "" = none. max_inflight: of an ensemble, 0 = no limit.
    labels: of outputs with a label file, by class index; read at load, see classification.py.
    """

    name: str
    backend: str
    platform: str
    max_batch_size: int
    inputs: tuple[TensorConfig, ...]
    outputs: tuple[TensorConfig, ...]
    dynamic_batching: DynamicBatching | None
    versions: VersionPolicy
    parameters: Mapping[str, str]
    message: model_config_pb2.ModelConfig
    instance_groups: tuple[InstanceGroup, ...] = ()
    sequence: SequenceBatching | None = None
    ensemble: tuple[EnsembleStep, ...] = ()
    max_inflight: int = 0
    batch_inputs: tuple[BatchInput, ...] = ()
    batch_outputs: tuple[BatchOutput, ...] = ()
    decoupled: bool = False
    warmups: tuple[Warmup, ...] = ()
    fallback: str = ""
    labels: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)

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

    @cached_property
    def required_inputs(self) -> int:
        """How many inputs a request has to have."""
        return sum(not tensor.optional for tensor in self.inputs)

    @cached_property
    def shapes_vary(self) -> bool:
        """Whether two requests may differ in more than their batch size."""
        return any(tensor.optional or -1 in tensor.dims for tensor in self.inputs)

    @cached_property
    def devices(self) -> tuple[int, ...]:
        """Card indices of all instance groups, each once; () = the backend chooses."""
        return tuple(dict.fromkeys(device for group in self.instance_groups for device in group.devices))

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
