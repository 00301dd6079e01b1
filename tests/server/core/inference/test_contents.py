# SPDX-License-Identifier: Apache-2.0
"""Typed contents become the bytes that raw contents would have been, for every datatype that may travel typed."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc.service_pb2 import ModelInferRequest
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.core.inference.contents import to_infer_request
from hypersonic.server.errors import InvalidRequestError
from hypersonic.server.wire.grpc.messages import split


def converted(datatype: str, field: str, values: list[object]) -> bytes:
    message = ModelInferRequest(model_name="m")
    given_tensor = message.inputs.add(name="x", datatype=datatype, shape=[len(values)])
    getattr(given_tensor.contents, field).extend(values)
    given_tensor.contents.SetInParent()
    return bytes(to_infer_request(message, []).inputs[0].data)


#: bits of a float by its bytes
WIDTHS: dict[int, Literal[16, 32, 64]] = {2: 16, 4: 32, 8: 64}


@pytest.mark.parametrize("datatype", [name for name, d in DATATYPES.items() if d.contents and name != "BYTES"])
@given(data=st.data())
def test_numbers_are_laid_out_as_numpy_lays_them_out(datatype: str, data: st.DataObject) -> None:
    kind = np.dtype(DATATYPES[datatype].numpy)
    if kind.kind == "b":
        one: st.SearchStrategy[object] = st.booleans()
    elif kind.kind == "f":
        one = st.floats(width=WIDTHS[kind.itemsize])
    else:
        one = st.integers(int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    values = data.draw(st.lists(one, max_size=5))
    expected = np.array(values, kind)
    got = np.frombuffer(converted(datatype, DATATYPES[datatype].contents, values), kind)
    np.testing.assert_array_equal(got, expected)
    assert np_to_triton_dtype(kind) == datatype


def test_bytes_elements_carry_their_lengths() -> None:
    values = [b"", b"abc", b"\x00"]
    expected = serialize_byte_tensor(np.array(values, dtype=object)).item()
    assert converted("BYTES", "bytes_contents", list(values)) == expected
    assert expected[4:8] == struct.pack("<I", 3)


@pytest.mark.parametrize(("datatype", "field", "value"), [("INT8", "int_contents", 128), ("UINT16", "uint_contents", 65536)])
def test_a_value_that_its_datatype_does_not_hold_is_refused(datatype: str, field: str, value: int) -> None:
    with pytest.raises(InvalidRequestError, match=f"{value} does not fit {datatype}"):
        converted(datatype, field, [value])


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "", "nonsense"])
def test_a_datatype_that_cannot_travel_typed_has_no_data(datatype: str) -> None:
    with pytest.raises(InvalidRequestError, match="unable to find data for input tensor 'x'"):
        converted(datatype, "fp32_contents", [1.0])


def test_priority_and_timeout_are_read() -> None:
    message = ModelInferRequest(model_name="m", id="i")
    message.parameters["timeout"].int64_param = 5
    message.parameters["priority"].uint64_param = 2
    request = to_infer_request(message, [])
    assert (request.id, request.timeout_us, request.priority) == ("i", 5, 2)


@pytest.mark.parametrize(
    ("datatype", "field", "value"),
    [("INT64", "int64_contents", 1), ("INT8", "int_contents", 1), ("BYTES", "bytes_contents", b"")],
)
def test_long_typed_contents_take_no_more_memory_than_was_counted(datatype: str, field: str, value: object) -> None:
    count = 300_000
    message = ModelInferRequest(model_name="m")
    getattr(message.inputs.add(name="x", datatype=datatype, shape=[count]).contents, field).extend([value] * count)
    counted: list[int] = []
    parsed, raw = split(message.SerializeToString(), counted.append)
    tracemalloc.start()
    try:
        data = to_infer_request(parsed, raw).inputs[0].data
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(data) == count * (DATATYPES[datatype].size_bytes or 4)
    assert most_bytes < sum(counted)


def test_short_typed_contents_are_not_counted() -> None:
    message = ModelInferRequest(model_name="m")
    message.inputs.add(name="x", datatype="INT64", shape=[9]).contents.int64_contents.extend(range(9))
    counted: list[int] = []
    split(message.SerializeToString(), counted.append)
    assert counted == []
