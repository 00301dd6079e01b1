# SPDX-License-Identifier: Apache-2.0
"""Answers are views of the message; any other bytes are an AnswerError."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from hypersonic.client.errors import AnswerError
from hypersonic.client.messages.response import read_answer


def message(rows: int = 2) -> Any:
    answer = service_pb2.ModelInferResponse(model_name="m", model_version="3", id="7")
    answer.parameters["sequence_id"].int64_param = 5
    answer.outputs.add(name="y", datatype="FP32", shape=[rows, 3])
    answer.outputs.add(name="n", datatype="INT64", shape=[rows])
    answer.raw_output_contents.append(np.arange(3 * rows, dtype="<f4").tobytes())
    answer.raw_output_contents.append(np.arange(rows, dtype="<i8").tobytes())
    return answer


def test_outputs_are_read_only_views_of_the_message() -> None:
    data = message().SerializeToString()
    answer = read_answer(data)
    assert (answer.model, answer.version, answer.parameters) == ("m", "3", {"sequence_id": 5})
    np.testing.assert_array_equal(answer.outputs["y"], [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(answer.outputs["n"], [0, 1])
    assert np.shares_memory(answer.outputs["y"], np.frombuffer(data, np.uint8))
    assert not answer.outputs["y"].flags.writeable


def test_fields_may_have_any_order_and_unknown_ones_are_passed_over() -> None:
    whole = message()
    raw = service_pb2.ModelInferResponse(raw_output_contents=whole.raw_output_contents)
    whole.ClearField("raw_output_contents")
    unknown = b"\xa0\x06\x01" + b"\xa5\x06abcd" + b"\xa1\x06abcdefgh" + b"\xa2\x06\x02xy"
    answer = read_answer(raw.SerializeToString() + unknown + whole.SerializeToString())
    assert answer.outputs["y"].shape == (2, 3)


@pytest.mark.parametrize(
    ("datatype", "field", "values"),
    [("FP32", "fp32_contents", [1.5, 2.5]),
     ("BOOL", "bool_contents", [True, False]), ("BYTES", "bytes_contents", [b"a", b"bc"]),
     ("UINT8", "uint_contents", [1, 255]), ("INT64", "int64_contents", [-1, 2**60])],
)  # fmt: skip
def test_typed_contents_of_other_servers_are_read(datatype: str, field: str, values: list) -> None:
    answer = service_pb2.ModelInferResponse(model_name="m")
    output = answer.outputs.add(name="y", datatype=datatype, shape=[2])
    getattr(output.contents, field).extend(values)
    assert read_answer(answer.SerializeToString()).outputs["y"].tolist() == values


def malformed() -> list[tuple[str, Any]]:
    """Messages whose parts do not fit, with words of the error."""
    few, many, short, unknown, negative = (message() for _ in range(5))
    del few.raw_output_contents[1]
    many.raw_output_contents.append(b"")
    short.raw_output_contents[0] = b"abc"
    unknown.outputs[0].datatype = "FP8"
    negative.outputs[0].shape[0] = -2
    overflow = message()
    del overflow.raw_output_contents[:]
    overflow.outputs[0].contents.fp32_contents.append(1)
    double = message()
    del double.raw_output_contents[:]
    double.outputs[0].contents.fp32_contents.extend(range(6))
    double.outputs[0].contents.int_contents.extend(range(6))
    return [("no bytes for output 'n'", few), ("bytes for 3 outputs, and 2", many), ("has 3 bytes, expected 24", short),
            ("'FP8'", unknown), ("shape (-2, 3)", negative), ("1 values of FP32", overflow),
            ("of datatype FP32 has int_contents", double)]  # fmt: skip


@pytest.mark.parametrize(("words", "answer"), malformed(), ids=[words for words, _ in malformed()])
def test_parts_that_do_not_fit_are_named(words: str, answer: Any) -> None:
    with pytest.raises(AnswerError) as error:
        read_answer(answer.SerializeToString())
    assert words in str(error.value)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_answer_or_an_error(data: bytes) -> None:
    with contextlib.suppress(AnswerError):
        read_answer(data)


@given(st.data())
def test_a_changed_or_cut_message_is_an_answer_or_an_error(data: st.DataObject) -> None:
    whole = bytearray(message().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(AnswerError):
        read_answer(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
