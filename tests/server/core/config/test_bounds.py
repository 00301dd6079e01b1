# SPDX-License-Identifier: Apache-2.0
"""Numbers of a configuration at the ends of their types: refused with their bounds, or served without harm."""

from __future__ import annotations

import contextlib
import math
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

import hypersonic.server
from hypersonic.server.core.config.check import check_config
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.parameters import SequenceMark
from hypersonic.server.core.inference.pending import PendingRequest
from hypersonic.server.core.inference.request import CheckedRequest
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.core.scheduling.sequence import SequenceBatcher
from hypersonic.server.errors import ModelConfigError, ServerError
from hypersonic.server.limits.bounds import FIELDS, PARAMETERS, Bound, seconds_of
from tests.server.conftest import Script, SumModel

TENSORS = """
name: "m" backend: "sum" max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] reshape { shape: [ 3 ] } } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ 1 ] } } ]
instance_group [ { count: 1 } ]
model_warmup [ { name: "w" count: 1 inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 3 ] zero_data: true } } } ]
model_metrics { metric_control [ { metric_identifier { family: "nv_inference_first_response_histogram_ms" } } ] }
"""
STATES = """
control_input [ { name: "s" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ]
state [ { input_name: "in" output_name: "out" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
BATCHINGS = (
    "",
    "dynamic_batching { }",
    "dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 2 value { } } }",
    f"sequence_batching {{ direct {{ }} {STATES} }}",
    f"sequence_batching {{ oldest {{ max_candidate_sequences: 2 }} {STATES} }}",
)
#: protobuf's type of a number -> values at the ends of it and around zero
EXTREMES: dict[int, tuple[float, ...]] = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), -1, 0, 1, 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), -1, 0, 1, 2**62, 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 1, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 10**13, 2**63, 2**64 - 1),
    FieldDescriptor.CPPTYPE_FLOAT: (-math.inf, -1.0, 0.0, 1e-45, 1.0, 3e38, math.inf, math.nan),
    FieldDescriptor.CPPTYPE_DOUBLE: (-math.inf, -1.0, 0.0, 5e-324, 1.7e308, math.inf, math.nan),
}
Path_ = tuple[FieldDescriptor, ...]


def numbers(of: Descriptor, above: tuple[Descriptor, ...] = ()) -> Iterator[Path_]:
    """Every numeric field of a message and of those in it, as the way to it."""
    for field in of.fields:
        if field.message_type is not None and field.message_type not in above:
            for below in numbers(field.message_type, (*above, of)):
                yield (field, *below)
        elif field.cpp_type in EXTREMES:
            yield (field,)


NUMBERS = tuple(numbers(model_config_pb2.ModelConfig.DESCRIPTOR))


def put(message: Any, path: Path_, value: float) -> None:
    """Set the field; messages on the way to it that exist are changed, others are made."""
    field, rest = path[0], path[1:]
    if not rest and field.is_repeated:
        getattr(message, field.name)[:] = [value]
    elif not rest:
        setattr(message, field.name, value)
    elif field.message_type.GetOptions().map_entry:
        held = getattr(message, field.name)
        if rest[0].name == "key":
            held[value].SetInParent()
        else:
            put(held[next(iter(held), 1 if rest[0].containing_type.fields_by_name["key"].cpp_type in EXTREMES else "x")],
                rest[1:], value)  # fmt: skip
    elif field.is_repeated:
        held = getattr(message, field.name)
        put(held[0] if held else held.add(), rest, value)
    else:
        put(getattr(message, field.name), rest, value)


def changed(batching: str, path: Path_, value: float) -> ModelConfig | None:
    """The configuration with one number changed, None if it is refused."""
    message = text_format.Parse(TENSORS + batching, model_config_pb2.ModelConfig())
    put(message, path, value)
    with contextlib.suppress(ModelConfigError):
        return check_config(message)
    return None


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), timeout_us=st.sampled_from((0, 1, 2**31, 2**63 - 1)))
def test_any_number_of_a_configuration_is_refused_or_the_model_serves_and_ends(data: st.DataObject, timeout_us: int) -> None:
    path = data.draw(st.sampled_from(NUMBERS), label="field")
    config = changed(
        data.draw(st.sampled_from(BATCHINGS)), path, data.draw(st.sampled_from(EXTREMES[path[-1].cpp_type]), label="value")
    )
    if config is None:
        return
    try:
        model = ScheduledModel(config, 1, SumModel(Script(slot_rows=4)))
    except ModelConfigError:
        return
    mark = SequenceMark(1, start=True, end=True) if config.sequence else None
    given_rows = (np.zeros((1, 3), np.float32).data.cast("B"),)
    request = CheckedRequest("", 1, given_rows, ((1, 3),), (0,), timeout_us=timeout_us, sequence=mark)
    over = threading.Event()
    pending = PendingRequest(request, lambda *_: b"answer", time.monotonic_ns(), on_done=lambda _: over.set())
    try:
        model.scheduler.submit(pending, here=False)
    except ServerError:
        over.set()
    assert not model.reason
    assert model.close(60)
    assert over.wait(60)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "dynamic_batching { max_queue_delay_microseconds: 9300000000000000 }",
            r"dynamic_batching\.max_queue_delay_microseconds is 9300000000000000, expected 0 to 31622400000000 \(366 days\)",
        ),
        (
            "dynamic_batching { default_queue_policy { default_timeout_microseconds: 18446744073709551615 } }",
            r"default_timeout_microseconds is 18446744073709551615, expected 0 to 31622400000000 \(366 days\) for m",
        ),
        (
            "sequence_batching { max_sequence_idle_microseconds: 18446744073709551615 }",
            r"sequence_batching\.max_sequence_idle_microseconds is 18446744073709551615, expected 0 to",
        ),
        (
            "sequence_batching { oldest { max_candidate_sequences: 2147483647 } }",
            r"max_candidate_sequences is 2147483647, expected 0 to 65536 for m",
        ),
        (
            'sequence_batching { state [ { input_name: "i" output_name: "o" data_type: TYPE_FP32 dims: [ 1073741824 ] } ] }',
            r"the states of one sequence have 4294967296 bytes, expected 0 to 1073741824 \(1 GiB\) for m",
        ),
    ],
)
def test_a_number_out_of_bounds_is_refused_with_the_field_and_the_bounds(text: str, reason: str) -> None:
    with pytest.raises(ModelConfigError, match=reason):
        check_config(text_format.Parse(TENSORS + text, model_config_pb2.ModelConfig()))


def test_more_sequences_than_memory_is_kept_for_are_refused_when_the_slots_are_known() -> None:
    message = text_format.Parse(TENSORS + "sequence_batching { direct { } }", model_config_pb2.ModelConfig())
    message.max_batch_size = 2**31 - 1
    with pytest.raises(ModelConfigError, match="room for 2147483647 sequences, expected 0 to 1048576 for m: lower"):
        SequenceBatcher(check_config(message), 2**31 - 1, 1)


@given(
    parameter=st.sampled_from(sorted(PARAMETERS)),
    text=st.one_of(
        st.integers().map(str),
        st.floats().map(str),
        st.sampled_from(("1" * 5000, "1e-320", "5e-324", "1e300", "-0", "inf", "nan", "")),
    ),
)
def test_a_parameter_is_within_its_bounds_or_refused_with_them(parameter: str, text: str) -> None:
    backend, _, name = parameter.rpartition(".")
    message = text_format.Parse(TENSORS, model_config_pb2.ModelConfig())
    message.backend = backend or "fpga"
    message.parameters[name].string_value = text
    config, bound = check_config(message), PARAMETERS[parameter]
    read = config.number if name == "share" else config.integer
    try:
        value, reason = read(name, 7), ""
    except ModelConfigError as error:
        value, reason = math.nan, str(error)
    assert value in bound or (reason.endswith(f" from {bound}") and len(reason) < 300)


def test_the_table_has_each_parameter_that_a_backend_reads_and_no_other() -> None:
    sources = Path(next(iter(hypersonic.server.__path__))).rglob("*.py")
    read = {name for file in sources for name in re.findall(r'\.(?:integer|number)\("(\w+)"', file.read_text())}
    assert read == {name.rpartition(".")[2] for name in PARAMETERS}


def test_the_table_has_fields_that_exist() -> None:
    assert FIELDS.keys() <= {f"{path[-1].containing_type.name}.{path[-1].name}" for path in NUMBERS}


@given(st.integers(0, 2**70))
def test_a_lock_can_wait_for_any_time(wait_ns: int) -> None:
    lock = threading.Lock()
    assert lock.acquire(timeout=seconds_of(wait_ns))


def test_bounds_have_their_ends_and_nothing_that_is_no_number() -> None:
    bound = Bound(1, 3, "three")
    assert [value in bound for value in (0, 1, 3, 4, math.nan, "2")] == [False, True, True, False, False, False]
    assert str(bound) == "1 to 3 (three)"
