# SPDX-License-Identifier: Apache-2.0
"""The hand-walked request and the hand-framed answer against the protobuf library: same opinion, same values, same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse, ModelStreamInferResponse

from hypersonic.server.core.inference.answer import Output
from hypersonic.server.errors import InvalidRequestError
from hypersonic.server.wire.grpc.messages import ResponseFrame, split, stream_error, varint

TEXT = st.text(max_size=8)


def assert_as_protobuf(data: bytes) -> None:
    """split() refuses what the library refuses, and reads what it reads."""
    try:
        expected = ModelInferRequest.FromString(data)
    except DecodeError:
        with pytest.raises(InvalidRequestError, match="Unable to parse request"):
            split(data)
        return
    message, raw = split(data)
    assert [bytes(content) for content in raw] == list(expected.raw_input_contents)
    expected.ClearField("raw_input_contents")
    message.DiscardUnknownFields()
    expected.DiscardUnknownFields()
    assert message.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)


@st.composite
def requests(draw: st.DrawFn) -> ModelInferRequest:
    request = ModelInferRequest(model_name=draw(TEXT), model_version=draw(TEXT), id=draw(TEXT))
    for key in draw(st.lists(TEXT, max_size=2)):
        request.parameters[key].int64_param = draw(st.integers(-(2**63), 2**63 - 1))
    for _ in range(draw(st.integers(0, 2))):
        tensor = request.inputs.add(name=draw(TEXT), datatype=draw(TEXT))
        tensor.shape.extend(draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)))
        tensor.contents.fp32_contents.extend(draw(st.lists(st.floats(width=32, allow_nan=False), max_size=3)))
    for name in draw(st.lists(TEXT, max_size=2)):
        request.outputs.add(name=name)
    request.raw_input_contents.extend(draw(st.lists(st.binary(max_size=300), max_size=3)))
    return request


@given(requests())
def test_a_whole_message_is_read_as_the_library_reads_it(request_message: ModelInferRequest) -> None:
    assert_as_protobuf(request_message.SerializeToString())


@given(requests(), st.data())
def test_a_damaged_message_is_judged_as_the_library_judges_it(request_message: ModelInferRequest, data: st.DataObject) -> None:
    wire = bytearray(request_message.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(0, len(wire) - 1)))
        kind = data.draw(st.sampled_from(("flip", "cut", "insert")))
        if kind == "flip" and wire:
            wire[at] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "cut":
            del wire[at:]
        else:
            wire[at:at] = data.draw(st.binary(max_size=6))
    assert_as_protobuf(bytes(wire))


@settings(max_examples=300)
@given(st.binary(max_size=64))
@example(b"\x3a\x80\x80\x80\x80\x00")  # a length with more bytes than it needs
@example(b"\x3a\x81\x80\x80\x80\x80\x00a")  # ... with more than the library allows
@example(b"\xba\x00\x01a")  # the tag itself overlong
@example(b"\x3b\x3a\x01a\x3c")  # field 7 as a group around another field 7
@example(b"\x0b\x0b\x0c\x0c")  # nested groups
@example(b"\x38\x05\x3a\x01b")  # field 7 as a varint: unknown, skipped
@example(b"\x3a\x01a\x0a\x01m\x3a\x01b")  # raw contents around other fields
@example(b"\x0a\x01a\x0a\x01b")  # a scalar twice: the later one counts
@example(b"\x0a\x01\xff")  # not UTF-8
@example(b"\x02\x00")  # field number 0
@example(b"\x3c")  # the end of no group
@example(b"\x3a\xff\xff\xff\xff\x07")  # a length far past the end
@example(b"\x3a\xff\xff\xff\xff\x7f")
@example(b"\x3f\x00")  # wire type 7
def test_any_bytes_are_judged_as_the_library_judges_them(data: bytes) -> None:
    assert_as_protobuf(data)


@given(requests(), requests())
def test_two_messages_in_a_row_merge_as_in_the_library(first: ModelInferRequest, second: ModelInferRequest) -> None:
    assert_as_protobuf(first.SerializeToString() + second.SerializeToString())


def test_raw_contents_are_views_into_the_request_and_not_copies() -> None:
    wire = ModelInferRequest(model_name="m", raw_input_contents=[bytes(1000), b"x" * 2000]).SerializeToString()
    _, raw = split(wire)
    assert [view.obj is wire for view in raw] == [True, True]


@given(
    name=TEXT,
    version=TEXT,
    request_id=TEXT,
    outputs=st.lists(
        st.tuples(TEXT, st.sampled_from(["FP32", "I"]), st.lists(st.integers(0, 2**40), max_size=3), st.binary(max_size=300)),
        min_size=1,
        max_size=3,
    ),
    data=st.data(),
)
def test_a_framed_answer_is_byte_for_byte_the_librarys(
    name: str, version: str, request_id: str, outputs: list[tuple[str, str, list[int], bytes]], data: st.DataObject
) -> None:
    expected = ModelInferResponse(model_name=name, model_version=version, id=request_id)
    order = data.draw(st.permutations(range(len(outputs))))
    given_tensors = []
    for position in order:
        output_name, datatype, shape, content = outputs[position]
        expected.outputs.add(name=output_name, datatype=datatype, shape=shape)
        expected.raw_output_contents.append(content)
        cut = data.draw(st.integers(0, len(content)))
        chunks = (memoryview(content)[:cut], content[cut:])
        given_tensors.append(Output(position, datatype, tuple(shape), chunks, len(content)))
    frame = ResponseFrame.of(name, version, [(o[0], o[1]) for o in outputs])
    assert frame.fill(request_id, given_tensors) == expected.SerializeToString()
    streamed = ModelStreamInferResponse.FromString(frame.fill(request_id, given_tensors, streamed=True))
    assert streamed == ModelStreamInferResponse(infer_response=expected)


def test_an_answer_above_the_message_limit_is_an_error_and_not_a_broken_frame() -> None:
    frame = ResponseFrame.of("m", "1", [("y", "FP32")])
    with pytest.raises(InvalidRequestError, match="exceeds gRPC's byte size limit"):
        frame.fill("", [Output(0, "FP32", (2**29, 1), (), 2**31)])


@given(st.dictionaries(TEXT, st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXT | st.floats(allow_nan=False)))
def test_parameters_and_another_datatype_arrive_as_they_were_given(parameters: dict[str, bool | int | float | str]) -> None:
    frame = ResponseFrame.of("m", "1", [("y", "FP32")])
    wire = frame.fill("", [Output(0, "INT32", (1,), (b"1234",), 4)], parameters, {0: parameters})
    message = ModelInferResponse.FromString(wire)
    assert (message.outputs[0].name, message.outputs[0].datatype) == ("y", "INT32")
    for sent in (message.parameters, message.outputs[0].parameters):
        assert {key: getattr(value, value.WhichOneof("parameter_choice")) for key, value in sent.items()} == parameters


@given(TEXT, TEXT)
def test_an_error_on_a_stream_is_the_librarys(text: str, request_id: str) -> None:
    head = ModelInferResponse(id=request_id)
    message = ModelStreamInferResponse.FromString(stream_error(text, head.SerializeToString()))
    assert (message.error_message, message.infer_response) == (text, head)


@given(st.integers(0, 2**64 - 1))
def test_varint_is_protobufs(value: int) -> None:
    request = ModelInferRequest()
    request.parameters["k"].uint64_param = value
    assert varint(value) in request.SerializeToString()


def test_numpy_views_can_be_framed() -> None:
    y = np.arange(4, dtype=np.float32)
    wire = ResponseFrame.of("m", "1", [("y", "FP32")]).fill("", [Output(0, "FP32", (4,), (y.view(np.uint8).data,), 16)])
    assert ModelInferResponse.FromString(wire).raw_output_contents[0] == y.tobytes()
