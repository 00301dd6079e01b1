# SPDX-License-Identifier: Apache-2.0
"""The classes of a checked model configuration, named as in Triton's model_config.proto.

read.py parses a configuration, check.py checks it. `ModelConfig.message` is the complete message for the ModelConfig RPC; it
alone has the fields that do not concern this server (optimization, metric_tags, ...).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from tritonclient.grpc import model_config_pb2

from hypersonic.server.errors import ModelConfigError
from hypersonic.server.limits.bounds import PARAMETERS

#: indices of cards are below this
_MOST_CARDS = 64
_CARD = re.compile(r"[0-9]{1,2}")

#: the dimensions of a tensor; -1 = any size
Dims = tuple[int, ...]


@dataclass(frozen=True)
class TensorConfig:
    """One input or output of a model.

    Attributes:
        datatype: the protocol's name, for example "FP32".
        dims: without the batch dimension, -1 = any size; () only with a reshape.
        reshape: the dims that the backend uses, None = the same as on the wire. optional, ragged (requests of different shapes
            may share a batch): only for inputs.
        label_filename: only for outputs, relative to the model's directory, "" = none.
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
        """The dims that the backend uses, without the batch dimension."""
        return self.dims if self.reshape is None else self.reshape


@dataclass(frozen=True)
class QueuePolicy:
    """How many requests may wait in a queue, and how long.

    Attributes:
        timeout_us: 0 = no limit.
        allow_timeout_override: a request may set a shorter timeout.
        max_queue_size: in requests, 0 = no limit.
        delay_on_timeout: a request past its timeout is served after all others (DELAY) instead of being refused (REJECT).
    """

    timeout_us: int = 0
    allow_timeout_override: bool = False
    delay_on_timeout: bool = False
    max_queue_size: int = 0

    def timeout_of(self, requested_us: int) -> int:
        """Return the timeout in us of a request that asked for `requested_us` (0 = none).

        As in Triton, a request can only shorten the default.
        """
        if self.allow_timeout_override and 0 < requested_us < self.timeout_us:
            return requested_us
        return self.timeout_us


@dataclass(frozen=True)
class DynamicBatching:
    """The settings of the dynamic batcher.

    Attributes:
        preferred_batch_sizes: ascending.
        max_queue_delay_us: how long a batch may wait to reach a preferred size.
        preserve_ordering: answers are sent in the order in which the requests arrived.
        priority_levels: 0 = one queue for all; otherwise the levels are 1 (highest) to `priority_levels`, and a request that
            names none gets `default_priority_level`.
        priority_policies: level -> queue policy, for the levels that have their own.
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
    """An input that the scheduler fills in.

    Attributes:
        datatype: the protocol's name.
        false_true: its two values, None for CORRID.
    """

    kind: ControlKind
    input_name: str
    datatype: str
    false_true: tuple[float, float] | None = None


@dataclass(frozen=True)
class InitialState:
    """The first value of a sequence's state: the bytes of `data_file` in <model>/initial_state/, or zeros if that is ""."""

    name: str
    datatype: str
    dims: Dims
    data_file: str = ""


@dataclass(frozen=True)
class SequenceState:
    """A tensor that is kept from one request of a sequence to the next.

    The model returns it as `output_name` and gets it back as `input_name`.

    Attributes:
        initial: None = zeros.
    """

    input_name: str
    output_name: str
    datatype: str
    dims: Dims
    initial: InitialState | None = None


@dataclass(frozen=True)
class SequenceBatching:
    """The settings of the sequence batcher.

    Attributes:
        max_idle_us: a sequence without requests for longer than this is ended (Triton's default: one second). strategy
            "direct": each sequence has a slot of the batch; while less than minimum_slot_utilization (0..1) of the slots are
            used, the batch waits up to max_queue_delay_us. strategy "oldest": requests of the oldest sequences, at most
            max_candidate_sequences of them, are batched dynamically.
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

    def control(self, kind: ControlKind) -> SequenceControl | None:
        """Return the control of one kind, None if the model does not have it."""
        return next((control for control in self.controls if control.kind == kind), None)


@dataclass(frozen=True)
class EnsembleStep:
    """One step of an ensemble.

    Attributes:
        version: -1 = the latest.
        input_map, output_map: the model's tensor -> the ensemble's tensor.
    """

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
    """An input that the server computes from the shapes in a batch.

    Attributes:
        datatype: INT32 or FP32.
        source_inputs: the inputs whose elements are counted.
    """

    kind: BatchInputKind
    target_names: tuple[str, ...]
    datatype: str
    source_inputs: tuple[str, ...]


@dataclass(frozen=True)
class BatchOutput:
    """Outputs of a ragged batch that are split among its requests in the way in which `source_inputs` were joined."""

    kind: Literal["BATCH_SCATTER_WITH_INPUT_SHAPE"]
    target_names: tuple[str, ...]
    source_inputs: tuple[str, ...]


@dataclass(frozen=True)
class InstanceGroup:
    """Instances of a model.

    Attributes:
        count: per device, or in total for kinds without devices.
        devices: card indices, () = the backend chooses.
    """

    name: str
    kind: Literal["KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"]
    count: int
    devices: tuple[int, ...] = ()


@dataclass(frozen=True)
class WarmupInput:
    """An input of a warm-up request.

    Attributes:
        dims: fixed, without the batch dimension.
        file: in <model>/warmup/, for source "file".
    """

    datatype: str
    dims: Dims
    source: Literal["zero", "random", "file"]
    file: str = ""


@dataclass(frozen=True)
class Warmup:
    """A request that each instance runs `count` times before the model is READY.

    Attributes:
        batch_size: 0 for models that do not batch.
    """

    name: str
    batch_size: int
    inputs: Mapping[str, WarmupInput]
    count: int = 1


@dataclass(frozen=True)
class VersionPolicy:
    """The choice of the versions to serve: the highest `latest` of them, those in `specific`, or (if neither is set) all."""

    latest: int = 0
    specific: tuple[int, ...] = ()

    def choose(self, present: Iterable[int]) -> tuple[int, ...]:
        """Return the chosen versions, ascending. A specific version that does not exist is left out, as in Triton."""
        versions = sorted(present)
        if self.specific:
            return tuple(version for version in versions if version in self.specific)
        return tuple(versions[-self.latest :]) if self.latest else tuple(versions)


@dataclass(frozen=True)
class ModelConfig:
    """A checked model configuration.

    Attributes:
        max_batch_size: 0 = the model does not batch.
        dynamic_batching, sequence: None if the model does not ask for them.
        parameters: key -> string value.
        ensemble: the steps, () for other models.
        fallback: the backend that takes over when no instance is left, "" = none.
        labels: output -> labels in the order of class indices, for outputs with a label file; read at load, see
            classification.py.
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
    batch_inputs: tuple[BatchInput, ...] = ()
    batch_outputs: tuple[BatchOutput, ...] = ()
    decoupled: bool = False
    warmups: tuple[Warmup, ...] = ()
    fallback: str = ""
    labels: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """The names of all inputs, in the order of the configuration."""
        return tuple(tensor.name for tensor in self.inputs)

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """The names of all outputs, in the order of the configuration."""
        return tuple(tensor.name for tensor in self.outputs)

    @cached_property
    def all_outputs(self) -> tuple[int, ...]:
        """The indices of all outputs, for requests that name none."""
        return tuple(range(len(self.outputs)))

    @cached_property
    def required_inputs(self) -> int:
        """The number of inputs that every request has to have."""
        return sum(not tensor.optional for tensor in self.inputs)

    @cached_property
    def shapes_vary(self) -> bool:
        """True if two requests may differ in more than their batch size."""
        return any(tensor.optional or -1 in tensor.dims for tensor in self.inputs)

    @cached_property
    def devices(self) -> tuple[int, ...]:
        """The card indices of the parameter `cards`, or else of all instance groups, each once; () = the backend chooses.

        Raises ModelConfigError for a parameter that is not a list of indices.
        """
        text = self.parameters.get("cards")
        if text is None:
            return tuple(dict.fromkeys(device for group in self.instance_groups for device in group.devices))
        numbers = [number.strip() for number in text.split(",")]
        if not all(_CARD.fullmatch(number) and int(number) < _MOST_CARDS for number in numbers):
            expected = f"indices from 0 to {_MOST_CARDS - 1}, such as '0,1'"
            raise ModelConfigError(f"model '{self.name}': parameter cards is {text[:80]!r}, expected {expected}")
        return tuple(dict.fromkeys(map(int, numbers)))

    def integer(self, parameter: str, default: int) -> int:
        """Return a parameter as an integer, `default` if it is missing.

        Raises ModelConfigError for text that is not an integer within its bounds (server/limits/bounds.py).
        """
        return int(self._bounded(parameter, default, int, "an integer from"))

    def number(self, parameter: str, default: float) -> float:
        """Return a parameter as a number, `default` if it is missing. Raises ModelConfigError as integer()."""
        return self._bounded(parameter, default, float, "a number from")

    def _bounded(self, parameter: str, default: float, parse: Callable[[str], float], expected: str) -> float:
        text = self.parameters.get(parameter)
        if text is None:
            return default
        bound = PARAMETERS.get(f"{self.backend}.{parameter}") or PARAMETERS[parameter]
        with suppress(ValueError):
            value = parse(text)
            if value in bound:
                return value
        raise ModelConfigError(f"model '{self.name}': parameter {parameter} is {text[:80]!r}, expected {expected} {bound}")
