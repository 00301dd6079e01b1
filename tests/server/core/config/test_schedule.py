# SPDX-License-Identifier: Apache-2.0
"""dynamic_batching and sequence_batching: what is read, and Triton's texts for what contradicts itself."""

from __future__ import annotations

import pytest

from hypersonic.server.core.config.check import check_config
from hypersonic.server.core.config.read import parse_config
from hypersonic.server.core.config.schema import (
    DynamicBatching,
    InitialState,
    ModelConfig,
    QueuePolicy,
    SequenceBatching,
    SequenceControl,
    SequenceState,
)
from hypersonic.server.core.scheduling.rule import BatchRule
from hypersonic.server.errors import ModelConfigError

MODEL = """
name: "m" backend: "sum" max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 3 }
output { name: "y" data_type: TYPE_FP32 dims: 1 }
"""


def read(text: str) -> ModelConfig:
    return check_config(parse_config(MODEL + text, "m/config.pbtxt"))


def test_priorities_have_queue_policies_of_their_own() -> None:
    batching = read(
        """dynamic_batching {
             priority_levels: 3 default_priority_level: 2 default_queue_policy { max_queue_size: 5 }
             priority_queue_policy { key: 1 value { max_queue_size: 1 timeout_action: DELAY } }
           }"""
    ).dynamic_batching
    assert batching is not None
    rule = BatchRule.of(8, batching, 8)
    assert [rule.level_of(asked) for asked in (0, 1, 3, 4)] == [2, 1, 3, 2]
    assert rule.policy_of(1) == QueuePolicy(max_queue_size=1, delay_on_timeout=True)
    assert rule.policy_of(2) == QueuePolicy(max_queue_size=5)


def test_without_a_preferred_size_the_largest_batch_is_preferred() -> None:
    assert read("dynamic_batching { preserve_ordering: true }").dynamic_batching == DynamicBatching(
        preferred_batch_sizes=(8,), preserve_ordering=True
    )


def test_dynamic_batching_without_batches_is_none() -> None:
    text = MODEL.replace("max_batch_size: 8", "") + "dynamic_batching { }"
    assert check_config(parse_config(text, "m/config.pbtxt")).dynamic_batching is None


def test_a_sequence_batcher_is_read_whole() -> None:
    sequence = read(
        """sequence_batching {
             max_sequence_idle_microseconds: 7
             oldest { max_candidate_sequences: 4 preferred_batch_size: [ 4, 2 ] max_queue_delay_microseconds: 9 }
             control_input { name: "START" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }
             control_input { name: "END" control { kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] } }
             control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ -1, 2 ] } }
             control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }
             state {
               input_name: "in" output_name: "out" data_type: TYPE_INT32 dims: -1
               initial_state { name: "zero" data_type: TYPE_INT32 dims: 5 data_file: "begin" }
             }
           }"""
    ).sequence
    assert sequence == SequenceBatching(
        max_idle_us=7,
        strategy="oldest",
        max_candidate_sequences=4,
        preferred_batch_sizes=(2, 4),
        max_queue_delay_us=9,
        controls=(
            SequenceControl("START", "START", "FP32", (0, 1)),
            SequenceControl("END", "END", "BOOL", (False, True)),
            SequenceControl("READY", "READY", "INT32", (-1, 2)),
            SequenceControl("CORRID", "ID", "BYTES"),
        ),
        states=(SequenceState("in", "out", "INT32", (-1,), InitialState("zero", "INT32", (5,), "begin")),),
    )
    control = sequence.control("READY")
    assert control is not None
    assert control.false_true == (-1, 2)


def test_an_empty_sequence_batcher_is_direct_and_idles_a_second() -> None:
    config = read("sequence_batching { }")
    assert config.sequence == SequenceBatching()
    assert config.message.sequence_batching.max_sequence_idle_microseconds == 1_000_000


START, ID = "kind: CONTROL_SEQUENCE_START", "kind: CONTROL_SEQUENCE_CORRID"


def control(name: str, text: str) -> str:
    return f'sequence_batching {{ control_input {{ name: "{name}" control {{ {text} }} }} }}'


def state(text: str, dims: str = "1") -> str:
    return (
        f'sequence_batching {{ state {{ input_name: "i" output_name: "o" data_type: TYPE_FP32 dims: {dims} '
        f"initial_state {{ {text} }} }} }}"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("dynamic_batching { preferred_batch_size: 9 }", "dynamic batching preferred size must be <= max batch size for m"),
        ("dynamic_batching { preferred_batch_size: 0 }", "dynamic batching preferred size must be positive for m"),
        ("dynamic_batching { priority_levels: 2 }", r"default priority level must be in range \[1, 2\] for m"),
        (
            "dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value { } } }",
            r"priority queue policy must have priority level in range \[1, 2\] for m",
        ),
        (
            "dynamic_batching { priority_levels: 2 default_priority_level: 1 preserve_ordering: true }",
            "Only one priority level is allowed when 'preserve_ordering' is true for m",
        ),
        (
            "dynamic_batching { preserve_ordering: true default_queue_policy { timeout_action: DELAY } }",
            "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for m",
        ),
        ("dynamic_batching { priority_levels: 100000000000 }", "priority_levels is 100000000000, expected 0 to 1024"),
        (
            "sequence_batching { oldest { max_candidate_sequences: 4 preferred_batch_size: 9 } }",
            "sequence batching preferred batch size must be <= max batch size for m",
        ),
        ("sequence_batching { oldest { } }", "max_candidate_sequences is 0, expected 1 or more for m"),
        (
            "sequence_batching { direct { minimum_slot_utilization: 2 } }",
            r"sequence batching minimum slot utilization must be in range \(0.0, 1.0\] for m",
        ),
        (
            "sequence_batching { direct { minimum_slot_utilization: nan } }",
            "sequence batching minimum slot utilization must be in range",
        ),
        (
            control("S", START),
            "must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for CONTROL_SEQUENCE_START for m",
        ),
        (
            control("S", START + " int32_false_true: [ 0, 1 ] fp32_false_true: [ 0, 1 ]"),
            "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and 'bool_false_true'",
        ),
        (
            control("S", START + " fp32_false_true: 1"),
            "sequence batching control 'fp32_false_true' must have exactly 2 entries for CONTROL_SEQUENCE_START for m",
        ),
        (control("", START + " int32_false_true: [ 0, 1 ]"), "sequence batching control tensor must have a name for m"),
        (
            control("S", START + " int32_false_true: [ 0, 1 ] }, control { " + START + " int32_false_true: [ 0, 1 ]"),
            "sequence batching specifies multiple CONTROL_SEQUENCE_START tensors for m",
        ),
        (
            control("C", ID),
            "for m. Allowed data types are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING",
        ),
        (
            control("C", ID + " data_type: TYPE_UINT64 int32_false_true: [ 0, 1 ]"),
            "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true'",
        ),
        ('sequence_batching { state { input_name: "i" } }', "sequence state output_names are"),
        (
            state('name: "n" data_type: TYPE_FP64 dims: 1 zero_data: true'),
            "The data type used for 'initial_state' field of state 'i' does not match the state data type.",
        ),
        (
            state('name: "n" data_type: TYPE_FP32 dims: 2 zero_data: true'),
            "'initial_state' dim for input name 'i' doesn't match 'state' dim description. 2 != 1",
        ),
        (
            state('name: "n" data_type: TYPE_FP32 dims: -1 zero_data: true', "-1"),
            "'initial_state' field for state input name 'i' contains variable dimensions.",
        ),
        (state("data_type: TYPE_FP32 dims: 1"), "Field 'name' must be set when using initial_state for state input 'i'."),
        (
            state('name: "n" data_type: TYPE_FP32 dims: 1'),
            "initial_state setting expects state'i' to have state_data set",
        ),
        (
            state('name: "n" data_type: TYPE_FP32 dims: 1 data_file: "../x"'),
            "initial_state of 'i' data_file leads out of its directory",
        ),
    ],
)
def test_scheduling_that_contradicts_itself_is_refused_in_tritons_words(text: str, reason: str) -> None:
    with pytest.raises(ModelConfigError, match=reason):
        read(text)
