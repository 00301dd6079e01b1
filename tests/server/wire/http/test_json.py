# SPDX-License-Identifier: Apache-2.0
"""JSON bodies of the HTTP port, and what is refused of them."""

from __future__ import annotations

from typing import Any

import pytest

from hypersonic.server.errors import InvalidRequestError, ServerError
from hypersonic.server.wire.http.codec import header_bytes, parse_request
from hypersonic.server.wire.http.tensors import to_json
from tests.server.wire.http.codec_config import CONFIG, model_config

# requests


def request(document: dict[str, Any], blob: bytes = b"", regions: Any = None) -> Any:
    head = to_json(document)
    return parse_request(memoryview(head + blob), len(head), CONFIG, regions, {})


def x(**changes: Any) -> dict[str, Any]:
    given = {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]} | changes
    return {key: value for key, value in given.items() if value is not ...}


def test_binary_inputs_are_views_into_the_body() -> None:
    inputs = [x(data=..., parameters={"binary_data_size": 4}), x(), x(data=..., parameters={"binary_data_size": 8})]
    head = to_json({"inputs": inputs})
    body = memoryview(bytearray(head + b"abcdefghijkl"))
    parsed = parse_request(body, len(head), CONFIG, None, {})
    assert [bytes(tensor.data) for tensor in parsed.request.inputs][::2] == [b"abcd", b"efghijkl"]
    assert parsed.request.inputs[0].data.obj is body.obj


def test_parameters_go_where_they_belong() -> None:
    parameters = {"timeout": 5, "priority": 2, "sequence_id": "s", "sequence_start": True, "custom": 1.5, "headers": "h"}
    parsed = request({"id": "i", "inputs": [x()], "parameters": parameters | {"big": 2**70}}).request
    assert (parsed.id, parsed.timeout_us, parsed.priority, parsed.sequence) == ("i", 5, 2, ("s", True, False))
    assert parsed.parameters == {"custom": 1.5, "headers": "h", "big": float(2**70)}


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        ({}, [False, False]),
        ({"parameters": {"binary_data_output": True}}, [True, True]),
        ({"outputs": [{"name": "y", "parameters": {"binary_data": True}}, {"name": "z"}]}, [True, False]),
        ({"outputs": [{"name": "y"}, {"name": "z"}], "parameters": {"binary_data_output": True}}, [False, False]),
    ],
)
def test_outputs_leave_as_bytes_where_they_are_asked_to(document: dict[str, Any], wanted: list[bool]) -> None:
    binary = request({"inputs": [x()], **document}).binary
    assert [binary.wants(name) for name in ("y", "z")] == wanted


REFUSED = [
    ([], "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"),
    ({}, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"),
    ({"inputs": {}}, "Unable to parse 'inputs': attempt to access JSON non-array as array"),
    ({"inputs": [3]}, "But no field is set"),
    ({"id": 3, "inputs": []}, "Unable to parse 'id': attempt to access JSON non-string as string"),
    ({"id": None, "inputs": []}, "Unable to parse 'id': attempt to access JSON non-string as string"),
    ({"inputs": [x(name=...)]}, "Unable to parse 'name': attempt to access non-existing object member 'name'"),
    ({"inputs": [x(shape=3)]}, "Unable to parse 'shape': attempt to access JSON non-array as array"),
    (
        {"inputs": [x(shape=[-1, 3])]},
        "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer",
    ),
    (
        {"inputs": [x(shape=[1.0, 3])]},
        "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer",
    ),
    ({"inputs": [x(shape=[True, 3])]}, "Unable to parse 'shape': attempt to access JSON non-unsigned-integer"),
    ({"inputs": [x(shape=[2**40, 2**40])]}, "Shape does not match true shape"),
    ({"inputs": [x(datatype="FOO")]}, "invalid datatype for input x"),
    ({"inputs": [x(parameters={"binary_data_size": 4})]}, "But set 'data' 'binary_data_size'"),
    ({"inputs": [x(parameters={"shared_memory_region": "r"})]}, "But set 'data' 'shared_memory_region'"),
    ({"inputs": [x(parameters=3)]}, "attempt to get members for non-object"),
    (
        {"inputs": [x(data=..., parameters={"binary_data_size": 4})]},
        "unexpected size for input 'x', expecting 4 additional bytes",
    ),
    ({"inputs": [x(data=..., parameters={"binary_data_size": -1})]}, "Unable to parse 'binary_data_size'"),
    ({"inputs": [x(data=..., parameters={"binary_data_size": 2**63})]}, "expecting 9223372036854775808 additional bytes"),
    ({"inputs": [x(data=..., parameters={"shared_memory_region": "r"})]}, "Client shared memory is disabled."),
    ({"inputs": [x()], "outputs": "y"}, "Unable to parse 'outputs': attempt to access JSON non-array as array"),
    ({"inputs": [x()], "outputs": ["y"]}, "Unable to parse 'name': attempt to access non-existing object member 'name'"),
    ({"inputs": [x()], "outputs": [{"name": "y", "parameters": {"binary_data": 1}}]}, "JSON non-boolean as boolean"),
    ({"inputs": [x()], "outputs": [{"name": "y", "parameters": {"classification": -1}}]}, "Unable to set 'classification'"),
    ({"inputs": [x()], "parameters": []}, "failed to get request params.: attempt to get members for non-object"),
    ({"inputs": [x()], "parameters": {"triton_foo": 1}}, "reserved for Triton usage and should not be specified."),
    (
        {"inputs": [x()], "parameters": {"timeout": -5}},
        "Unable to parse 'timeout': attempt to access JSON non-unsigned-integer",
    ),
    ({"inputs": [x()], "parameters": {"priority": "1"}}, "Unable to parse 'priority'"),
    ({"inputs": [x()], "parameters": {"sequence_id": -5}}, "'sequence_id': attempt to access JSON non-string as string"),
    ({"inputs": [x()], "parameters": {"sequence_start": 1}}, "'sequence_start': attempt to access JSON non-boolean"),
    ({"inputs": [x()], "parameters": {"custom": [1]}}, "It should be either 'int', 'bool', or 'string'."),
]


@pytest.mark.parametrize(("document", "text"), REFUSED)
def test_what_triton_refuses_is_refused_in_its_words(document: Any, text: str) -> None:
    with pytest.raises(ServerError) as caught:
        request(document)
    assert text in str(caught.value)


def test_bytes_behind_the_last_input_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match=f"^unexpected additional input data for model '{CONFIG.name}'$"):
        request({"inputs": [x()]}, b"abc")


@pytest.mark.parametrize("text", ["-1", "5", "abc", "", "1x", "1.5", "+1", "²", str(2**64), "9" * 5000])
def test_the_header_size_lies_within_the_body(text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"^inference header size should be in range \(0, 4\), got: "):
        header_bytes(text, 4)


def test_a_body_without_a_header_is_the_models_only_input() -> None:
    parsed = parse_request(memoryview(b"\0" * 12), 0, CONFIG, None, {})
    assert parsed.request.inputs[0][:3] == ("x", "FP32", (1, 3))
    assert parsed.binary.wants("y")
    with pytest.raises(
        InvalidRequestError, match=r"input byte size mismatch for input 'raw_input' for model 'm'\. Expected 12, got 8"
    ):
        parse_request(memoryview(b"\0" * 8), 0, CONFIG, None, {})


@pytest.mark.parametrize(
    ("inputs", "size_bytes", "expected"),
    [
        ({"x": ("INT16", (2, -1))}, 12, (2, 3)),
        ({"x": ("INT16", (2, -1))}, 10, "input byte size mismatch for input 'raw_input'"),
        ({"x": ("INT16", (-1, -1))}, 12, "can not be deduced because there are more than one variable-sized dimension"),
        ({"x": ("BYTES", (1,))}, 12, (1,)),
        ({"x": ("BYTES", (2,))}, 12, "For BYTE datatype raw input 'x', the model must have input shape [1]"),
        ({"x": ("FP32", (1,)), "w": ("FP32", (1,))}, 4, "Raw request must only have 1 input (found 1) to be deduced but got 2"),
    ],
)
def test_a_raw_inputs_shape_is_deduced(inputs: Any, size_bytes: int, expected: Any) -> None:
    config = model_config(inputs)
    if isinstance(expected, tuple):
        tensor = parse_request(memoryview(b"a" * size_bytes), 0, config, None, {}).request.inputs[0]
        assert tensor.shape == expected
        assert len(tensor.data) == size_bytes + (4 if tensor.datatype == "BYTES" else 0)
    else:
        with pytest.raises(InvalidRequestError) as caught:
            parse_request(memoryview(b"a" * size_bytes), 0, config, None, {})
        assert expected in str(caught.value)
