# SPDX-License-Identifier: Apache-2.0
"""The bytes of a request equal those that protobuf writes, for any names, shapes and parameters."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from hypersonic.client.messages.request import HeadKey, kept, make_head, make_request, varint

PARAMETERS = st.dictionaries(
    st.text(max_size=5), st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=5)
)


@given(st.text(max_size=8), st.lists(st.binary(max_size=300), max_size=3), PARAMETERS)
def test_the_bytes_are_those_that_protobuf_writes(name: str, buffers: list[bytes], parameters: dict) -> None:
    key = HeadKey(
        name, "2", tuple((f"x{i}", "UINT8", (len(b),)) for i, b in enumerate(buffers)), ("y",), tuple(parameters.items())
    )
    message = service_pb2.ModelInferRequest.FromString(make_head(key))
    assert (message.model_name, message.model_version, [t.name for t in message.outputs]) == (name, "2", ["y"])
    message.raw_input_contents.extend(buffers)
    made = make_request(make_head(key), buffers)
    assert service_pb2.ModelInferRequest.FromString(made) == message
    if len(parameters) < 2:  # protobuf writes the entries of a map in any order
        assert made == message.SerializeToString()


@given(st.integers(0, 2**64 - 1))
def test_a_varint_is_read_back_by_protobuf(value: int) -> None:
    request = service_pb2.SystemSharedMemoryRegisterRequest.FromString(b"\x18" + varint(value))
    assert request.offset == value


def test_arrays_are_sent_as_their_bytes() -> None:
    x = np.arange(6, dtype="<f4").reshape(2, 3)
    made = make_request(b"", [x, b"ab"])
    assert list(service_pb2.ModelInferRequest.FromString(made).raw_input_contents) == [x.tobytes(), b"ab"]


def test_a_head_is_made_once_for_requests_of_one_kind_and_old_kinds_are_forgotten() -> None:
    made: list[HeadKey] = []

    def make(key: HeadKey) -> bytes:
        made.append(key)
        return make_head(key)

    head = kept(make, most=2)
    keys = [HeadKey("m", "", (("x", "FP32", (rows, 4)),), (), ()) for rows in range(3)]
    assert [head(keys[n]) for n in (0, 1, 0, 1)] == [make_head(keys[n]) for n in (0, 1, 0, 1)]
    assert made == keys[:2]
    head(keys[2])
    head(keys[0])
    assert made == [*keys, keys[0]]
