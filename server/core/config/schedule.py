# SPDX-License-Identifier: Apache-2.0
"""Checks and converts dynamic_batching and sequence_batching of a model_config.proto message. The error texts are Triton's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tritonclient.grpc import model_config_pb2

from hypersonic.server.core.config.files import check_inside
from hypersonic.server.core.config.schema import (
    ControlKind,
    Dims,
    DynamicBatching,
    InitialState,
    QueuePolicy,
    SequenceBatching,
    SequenceControl,
    SequenceState,
)
from hypersonic.server.core.datatype import DATATYPES, DATATYPES_BY_ENUM
from hypersonic.server.errors import ModelConfigError
from hypersonic.server.limits.bounds import STATE_BYTES

#: the three fields that may hold a control's pair of values, and the datatype of each
_PAIRS = (("int32_false_true", "INT32"), ("fp32_false_true", "FP32"), ("bool_false_true", "BOOL"))
_PAIR_NAMES = "either 'int32_false_true', 'fp32_false_true' or 'bool_false_true'"
_ID_TYPES = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")
_KINDS: dict[str, ControlKind] = {
    "CONTROL_SEQUENCE_START": "START",
    "CONTROL_SEQUENCE_READY": "READY",
    "CONTROL_SEQUENCE_END": "END",
    "CONTROL_SEQUENCE_CORRID": "CORRID",
}


def read_dynamic_batching(message: model_config_pb2.ModelConfig) -> DynamicBatching | None:
    """Return the settings of the dynamic batcher. Raises ModelConfigError.

    Returns None if the model does not ask for one, or (as in Triton) its max_batch_size is 0.
    """
    if not message.HasField("dynamic_batching"):
        return None
    batching = message.dynamic_batching
    if message.max_batch_size:
        _check_preferred(message, "dynamic batching preferred size", batching.preferred_batch_size)
    policies = {level: _queue_policy(policy) for level, policy in batching.priority_queue_policy.items()}
    result = DynamicBatching(
        preferred_batch_sizes=tuple(sorted(set(batching.preferred_batch_size))),
        max_queue_delay_us=batching.max_queue_delay_microseconds,
        queue_policy=_queue_policy(batching.default_queue_policy),
        preserve_ordering=batching.preserve_ordering,
        priority_levels=batching.priority_levels,
        default_priority_level=batching.default_priority_level if batching.priority_levels else 0,
        priority_policies=policies if batching.priority_levels else {},
    )
    _check_priorities(message.name, result)
    return result if message.max_batch_size else None


def _check_preferred(message: model_config_pb2.ModelConfig, what: str, sizes: Sequence[int]) -> None:
    if any(size < 1 for size in sizes):
        raise ModelConfigError(f"{what} must be positive for {message.name}")
    if any(size > message.max_batch_size for size in sizes):
        raise ModelConfigError(f"{what} must be <= max batch size for {message.name}")


def _queue_policy(policy: model_config_pb2.ModelQueuePolicy) -> QueuePolicy:
    return QueuePolicy(
        timeout_us=policy.default_timeout_microseconds,
        allow_timeout_override=policy.allow_timeout_override,
        delay_on_timeout=policy.timeout_action == model_config_pb2.ModelQueuePolicy.DELAY,
        max_queue_size=policy.max_queue_size,
    )


def _check_priorities(model: str, batching: DynamicBatching) -> None:
    levels = batching.priority_levels
    if levels and not 1 <= batching.default_priority_level <= levels:
        raise ModelConfigError(f"default priority level must be in range [1, {levels}] for {model}")
    if any(not 1 <= level <= levels for level in batching.priority_policies):
        raise ModelConfigError(f"priority queue policy must have priority level in range [1, {levels}] for {model}")
    if batching.preserve_ordering and levels > 1:
        raise ModelConfigError(f"Only one priority level is allowed when 'preserve_ordering' is true for {model}")
    policies = (batching.queue_policy, *batching.priority_policies.values())
    if batching.preserve_ordering and any(policy.delay_on_timeout for policy in policies):
        raise ModelConfigError(
            f"Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for {model}"
        )


def read_sequence_batching(message: model_config_pb2.ModelConfig) -> SequenceBatching | None:
    """Return the settings of the sequence batcher, None if the model does not ask for one. Raises ModelConfigError."""
    if not message.HasField("sequence_batching"):
        return None
    batching, name = message.sequence_batching, message.name
    oldest, direct = batching.oldest, batching.direct
    is_oldest = batching.HasField("oldest")
    if message.max_batch_size:
        _check_preferred(message, "sequence batching preferred batch size", oldest.preferred_batch_size)
    if is_oldest and oldest.max_candidate_sequences < 1:
        raise ModelConfigError(
            f"sequence batching max_candidate_sequences is {oldest.max_candidate_sequences}, expected 1 or more for {name}"
        )
    if not 0.0 <= direct.minimum_slot_utilization <= 1.0:
        raise ModelConfigError(f"sequence batching minimum slot utilization must be in range (0.0, 1.0] for {name}")
    return SequenceBatching(
        max_idle_us=batching.max_sequence_idle_microseconds,
        strategy="oldest" if is_oldest else "direct",
        max_candidate_sequences=oldest.max_candidate_sequences,
        preferred_batch_sizes=tuple(sorted(set(oldest.preferred_batch_size))),
        max_queue_delay_us=oldest.max_queue_delay_microseconds if is_oldest else direct.max_queue_delay_microseconds,
        minimum_slot_utilization=direct.minimum_slot_utilization,
        controls=_controls(name, batching),
        states=_states(name, batching.state),
        preserve_ordering=oldest.preserve_ordering,
    )


class _Control(NamedTuple):
    """A control of a control tensor.

    Attributes:
        kind: its name in model_config.proto.
    """

    tensor: str
    kind: str
    message: model_config_pb2.ModelSequenceBatching.Control


def _each_control(batching: model_config_pb2.ModelSequenceBatching) -> Iterator[_Control]:
    for tensor in batching.control_input:
        for control in tensor.control:
            yield _Control(tensor.name, model_config_pb2.ModelSequenceBatching.Control.Kind.Name(control.kind), control)


def _controls(model: str, batching: model_config_pb2.ModelSequenceBatching) -> tuple[SequenceControl, ...]:
    """Return one control for each kind. Several kinds for one tensor are refused; Triton would use only one of them."""
    if not all(tensor.name for tensor in batching.control_input):
        raise ModelConfigError(f"sequence batching control tensor must have a name for {model}")
    controls: dict[str, _Control] = {}
    for control in _each_control(batching):
        if control.kind in controls:
            raise ModelConfigError(f"sequence batching specifies multiple {control.kind} tensors for {model}")
        controls[control.kind] = control
    names = [control.tensor for control in controls.values()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ModelConfigError(
            f"sequence batching control tensor '{twice}' is specified for multiple control kinds for {model}"
        )
    return tuple(_control(model, control) for control in controls.values())


def _control(model: str, control: _Control) -> SequenceControl:
    given = [(field, datatype) for field, datatype in _PAIRS if getattr(control.message, field)]
    if control.kind == "CONTROL_SEQUENCE_CORRID":
        return _id_control(model, control, bool(given))
    if not given:
        raise ModelConfigError(f"sequence batching must specify {_PAIR_NAMES} for {control.kind} for {model}")
    if len(given) > 1:
        names = "'int32_false_true', 'fp32_false_true' and 'bool_false_true'"
        raise ModelConfigError(f"sequence batching specifies more than one from {names} for {control.kind} for {model}")
    field, datatype = given[0]
    values = tuple(getattr(control.message, field))
    if len(values) != 2:
        raise ModelConfigError(
            f"sequence batching control '{field}' must have exactly 2 entries for {control.kind} for {model}"
        )
    return SequenceControl(_KINDS[control.kind], control.tensor, datatype, (values[0], values[1]))


def _id_control(model: str, control: _Control, has_values: bool) -> SequenceControl:
    if has_values:
        raise ModelConfigError(f"sequence batching must not specify {_PAIR_NAMES} for {control.kind} for {model}")
    enum = model_config_pb2.DataType.Name(control.message.data_type)
    if enum not in _ID_TYPES:
        raise ModelConfigError(
            f"unexpected data type for control {control.kind} for {model}. "
            f"Allowed data types are {', '.join(_ID_TYPES[:-1])} and {_ID_TYPES[-1]}"
        )
    return SequenceControl("CORRID", control.tensor, DATATYPES_BY_ENUM[enum].name)


def _states(model: str, states: Sequence[model_config_pb2.ModelSequenceBatching.State]) -> tuple[SequenceState, ...]:
    for field in ("input_name", "output_name"):
        names = [getattr(state, field) for state in states]
        if not all(names) or len(set(names)) != len(names):
            raise ModelConfigError(f"sequence state {field}s are {names}, expected a different name for each, for {model}")
    checked = tuple(_state(model, state) for state in states)
    size_bytes = sum(abs(math.prod(state.dims)) * DATATYPES[state.datatype].size_bytes for state in checked)
    if size_bytes not in STATE_BYTES:
        raise ModelConfigError(f"the states of one sequence have {size_bytes} bytes, expected {STATE_BYTES} for {model}")
    return checked


def _state(model: str, state: model_config_pb2.ModelSequenceBatching.State) -> SequenceState:
    name = state.input_name
    datatype = DATATYPES_BY_ENUM.get(model_config_pb2.DataType.Name(state.data_type))
    if datatype is None:
        raise ModelConfigError(f"sequence state '{name}' must specify 'data_type' for {model}")
    dims = tuple(state.dims)
    if not dims or any(n < 1 and n != -1 for n in dims):
        raise ModelConfigError(
            f"sequence state '{name}' dimension must be integer >= 1, or -1 to indicate a variable-size dimension for {model}"
        )
    if len(state.initial_state) > 1:
        raise ModelConfigError(
            f"initial_state field for state input '{name}' must contain exactly one or zero element. "
            f"Found '{len(state.initial_state)}' elements."
        )
    initial = next((_initial(model, state, item) for item in state.initial_state), None)
    return SequenceState(name, state.output_name, datatype.name, dims, initial)


def _initial(
    model: str,
    state: model_config_pb2.ModelSequenceBatching.State,
    initial: model_config_pb2.ModelSequenceBatching.InitialState,
) -> InitialState:
    name = state.input_name
    if initial.data_type != state.data_type:
        raise ModelConfigError(
            f"The data type used for 'initial_state' field of state '{name}' does not match the state data type."
        )
    if not initial.name:
        raise ModelConfigError(f"Field 'name' must be set when using initial_state for state input '{name}'.")
    _check_initial_dims(name, tuple(state.dims), tuple(initial.dims))
    choice = initial.WhichOneof("state_data")
    if choice is None:
        raise ModelConfigError(f"initial_state setting expects state'{name}' to have state_data set")
    if choice == "data_file":
        check_inside(initial.data_file, f"initial_state of '{name}' data_file", model)
    datatype = DATATYPES_BY_ENUM[model_config_pb2.DataType.Name(initial.data_type)].name
    return InitialState(initial.name, datatype, tuple(initial.dims), initial.data_file if choice == "data_file" else "")


def _check_initial_dims(name: str, dims: Dims, initial: Dims) -> None:
    if any(n < 0 for n in initial):
        raise ModelConfigError(f"'initial_state' field for state input name '{name}' contains variable dimensions.")
    if len(initial) != len(dims):
        raise ModelConfigError(
            f"'initial_state' field for state input name '{name}' has {len(initial)} dims, expected {len(dims)}"
        )
    for got, expected in zip(initial, dims, strict=True):
        if expected not in (-1, got):
            raise ModelConfigError(
                f"'initial_state' dim for input name '{name}' doesn't match 'state' dim description. {got} != {expected}"
            )
