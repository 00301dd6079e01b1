# SPDX-License-Identifier: Apache-2.0
"""A fuzzer over the hand-walked request: the protobuf library's opinion, and its values, on whatever bytes come.

HYPERSONIC_FUZZ_SECONDS=300 runs on for that long from a seed that is printed with a failure.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from random import Random
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc.service_pb2 import ModelInferRequest

from hypersonic.server.core.inference.contents import to_infer_request
from hypersonic.server.errors import InvalidRequestError, ServerError
from hypersonic.server.limits.message import LIMITS, Limits, check_wire
from hypersonic.server.wire.grpc.messages import split
from tests.server.wire.grpc.message_mutations import MUTATIONS, damaged, message

_SECONDS = float(os.environ.get("HYPERSONIC_FUZZ_SECONDS", "0"))


def verdict(data: bytes) -> str:
    """ "read" or "refused", once the library agrees about it and about every value. Raises AssertionError."""
    try:
        expected = ModelInferRequest.FromString(data)
    except DecodeError:
        with pytest.raises(InvalidRequestError, match="Unable to parse request"):
            split(data)
        return "refused"
    header, raw = split(data)
    assert [bytes(content) for content in raw] == list(expected.raw_input_contents)
    expected.ClearField("raw_input_contents")
    header.DiscardUnknownFields()
    expected.DiscardUnknownFields()
    assert header.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)
    return "read"


def run(random: Random) -> str:
    """One case, through the reader and on to what it is for: every byte string is an answer or a ServerError."""
    data = damaged(random)
    outcome = verdict(data)
    if outcome == "read":
        try:
            to_infer_request(*split(data))
        except ServerError:
            return "refused by its contents"
    return outcome


@settings(max_examples=300)
@given(st.randoms(use_true_random=False))
def test_damaged_messages_are_judged_and_read_as_the_library_does(random: Random) -> None:
    run(random)


def test_a_few_thousand_seeds_are_judged_as_the_library_judges_them() -> None:
    outcomes = Counter(run(Random(seed)) for seed in range(5000))
    assert min(outcomes["read"], outcomes["refused"], outcomes["refused by its contents"]) > 300, outcomes


@pytest.mark.parametrize("mutation", MUTATIONS[:-1], ids=lambda mutation: mutation.__name__)
def test_each_kind_of_damage_is_judged_as_the_library_judges_it(mutation: Any) -> None:
    for seed in range(200):
        random = Random(seed)
        wire = message(random)
        if wire:
            verdict(mutation(wire, random))


def test_fuzzing_goes_on_for_as_long_as_asked() -> None:
    seed = time.time_ns() if _SECONDS else 0
    end, cases = time.monotonic() + _SECONDS, 0
    while cases < 100 or time.monotonic() < end:
        try:
            run(Random(seed + cases))
        except Exception as error:
            raise AssertionError(f"seed {seed + cases}: {error!r}") from error
        cases += 1


def test_the_count_before_the_parse_is_the_librarys() -> None:
    """check_wire refuses exactly where a parsed message holds more than a limit, whatever the order and the nesting."""
    small = Limits(inputs=2, outputs=2, parameters=2, dims=64, typed_elements=12, string_elements=3, uncounted_bytes=0)
    seen: Counter[bool] = Counter()
    for seed in range(3000):
        data = damaged(Random(seed))
        try:
            parsed = ModelInferRequest.FromString(data)
        except DecodeError:
            parsed = None
        try:
            check_wire(data, small)
            refused = False
        except InvalidRequestError:
            refused = True
        if parsed is not None:
            # the wire may hold more than the message (a parameter twice, merged contents), never less
            more = len(parsed.inputs) > 2 or len(parsed.outputs) > 2 or len(parsed.parameters) > 2
            assert refused or not more, seed
            seen[refused] += 1
    assert min(seen[True], seen[False]) > 300


@pytest.mark.parametrize(
    ("bomb", "text"),
    [
        (b"\x2a\x00", f"more than {LIMITS.inputs} inputs"),
        (b"\x32\x00", f"more than {LIMITS.outputs} requested outputs"),
        (b"\x22\x00", f"more than {LIMITS.parameters} parameters"),
        (b"\x3a\x00", f"more than {LIMITS.inputs} raw_input_contents"),
        (b"\x0a\x00", "more protobuf fields than any tensor needs"),
        (b"\x40\x01", "more protobuf fields than any tensor needs"),
        (b"\x43\x44", "more protobuf fields than any tensor needs"),
    ],
    ids=["inputs", "outputs", "parameters", "raw", "scalar again", "unknown field", "group"],
)
def test_a_message_of_very_many_fields_is_refused_before_it_is_parsed(bomb: bytes, text: str) -> None:
    data = bomb * (LIMITS.fields + LIMITS.string_elements + 10)
    with pytest.raises(InvalidRequestError, match=text):
        split(data)
    with pytest.raises(InvalidRequestError, match=text):
        split(b"\x40\x01" + data)  # an unknown field in front sends it another way


@pytest.mark.parametrize(
    ("contents", "text"),
    [
        (
            b"\x42\x00" * (LIMITS.string_elements + 1),
            "got at least 1048577 elements in bytes_contents",
        ),
        (b"\x1a\x84\x80\x80\x10" + bytes(LIMITS.typed_elements + 4), "elements of typed contents"),
    ],
    ids=["bytes_contents", "int64_contents"],
)
def test_typed_contents_of_very_many_elements_are_refused_before_they_are_parsed(contents: bytes, text: str) -> None:
    from hypersonic.server.wire.grpc.messages import varint

    tensor = b"\x2a" + varint(len(contents)) + contents
    with pytest.raises(InvalidRequestError, match=text):
        split(b"\x2a" + varint(len(tensor)) + tensor)


def typed_strings(count: int) -> bytes:
    request = ModelInferRequest(model_name="m")
    request.inputs.add(name="x", datatype="BYTES", shape=[count]).contents.bytes_contents.extend([b""] * count)
    data: bytes = request.SerializeToString()
    return data


@pytest.mark.parametrize("most", [1, 20, 40_000, 3_000_000])
def test_an_operator_says_how_many_elements_bytes_contents_have(most: int) -> None:
    limits = Limits.of_strings(most)
    if most < LIMITS.string_elements:
        text = (
            rf"got at least {most + 1} elements in bytes_contents, expected at most {most} \(--grpc-max-bytes-elements\): send"
        )
        with pytest.raises(InvalidRequestError, match=text):
            split(typed_strings(most + 1), limits=limits)
    most = min(most, LIMITS.fields + 1)  # also without the option's room for fields
    assert len(split(typed_strings(most), limits=limits)[0].inputs[0].contents.bytes_contents) == most


def test_a_large_typed_tensor_is_read() -> None:
    request = ModelInferRequest(model_name="m")
    request.inputs.add(name="x", datatype="FP32", shape=[1, 240_000]).contents.fp32_contents.extend([0.5] * 240_000)
    data = request.SerializeToString()
    assert len(data) > LIMITS.uncounted_bytes
    assert split(data)[0] == request


def test_a_large_parameter_beside_raw_contents_is_read() -> None:
    request = ModelInferRequest(model_name="m", raw_input_contents=[b"x" * 10, b"y"])
    request.parameters["k"].string_param = "v" * 100_000
    header, raw = split(request.SerializeToString())
    assert ([bytes(content) for content in raw], header.parameters["k"].string_param) == ([b"x" * 10, b"y"], "v" * 100_000)
