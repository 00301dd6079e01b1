# SPDX-License-Identifier: Apache-2.0
"""Options of the gRPC front end that clients can see: forwarded headers, compressed answers, the age of connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.server.conftest import Serve

Stub = service_pb2_grpc.GRPCInferenceServiceStub
ROWS = 200


def request(rows: int = 1) -> service_pb2.ModelInferRequest:
    message = service_pb2.ModelInferRequest(model_name="m")
    message.inputs.add(name="x", datatype="FP32", shape=[rows, 3])
    message.raw_input_contents.append(np.ones((rows, 3), np.float32).tobytes())
    message.parameters["custom"].int64_param = 3
    return message


@contextmanager
def counting_proxy(server: str) -> Iterator[tuple[str, list[int]]]:
    """A TCP proxy before `server`: its address, and how many bytes came from the server."""
    host, port = server.rsplit(":", 1)
    received = [0]

    def pump(source: socket.socket, sink: socket.socket, *, counted: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                received[0] += len(data) if counted else 0
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection((host, int(port))) as behind:

        def serve() -> None:
            with suppress(OSError):
                before, _ = listener.accept()
                threading.Thread(target=pump, args=(behind, before), kwargs={"counted": True}, daemon=True).start()
                pump(before, behind, counted=False)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", received


def test_an_operator_bounds_the_elements_of_typed_bytes(serve: Serve) -> None:
    """On one call and in a stream; elements that come raw are not counted."""
    with serve(grpc_max_bytes_elements=2) as running, grpc.insecure_channel(running.grpc) as channel:
        message = request()
        message.ClearField("raw_input_contents")
        message.inputs[0].contents.bytes_contents.extend([b"a", b"b", b"c"])
        text = (
            "got at least 3 elements in bytes_contents, expected at most 2 (--grpc-max-bytes-elements): send "
            "raw_input_contents, which are not counted, or split the request"
        )
        with pytest.raises(grpc.RpcError) as caught:
            Stub(channel).ModelInfer(message, timeout=60)
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, text)
        assert [answer.error_message for answer in Stub(channel).ModelStreamInfer(iter([message]), timeout=60)] == [text]
        assert Stub(channel).ModelInfer(request(), timeout=60).raw_output_contents


def test_headers_become_parameters_where_that_is_asked_for(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(grpc_header_forward_pattern="^(X-User|timeout)") as running, grpc.insecure_channel(running.grpc) as channel:
        seen: list[Any] = []
        model = type(running.server.repository.model("m"))
        stream = model.stream

        def watched(self: Any, request: Any, *rest: Any, **named: Any) -> Any:
            seen.append(dict(request.parameters))
            return stream(self, request, *rest, **named)

        monkeypatch.setattr(model, "stream", watched)
        stub = Stub(channel)
        headers = (("x-user", "me"), ("x-other", "no"), ("x-user-bin", b"\x00"))
        stub.ModelInfer(request(), timeout=60, metadata=headers)
        list(stub.ModelStreamInfer(iter([request()]), timeout=60, metadata=headers))
        assert seen == [{"x-user": "me", "custom": 3}] * 2
        with pytest.raises(grpc.RpcError, match="'timeout' is a reserved request parameter"):
            stub.ModelInfer(request(), timeout=60, metadata=(("timeout", "5"),))


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
def test_answers_are_compressed_where_that_is_asked_for(serve: Serve, *, stream: bool) -> None:
    sizes = {}
    for level in ("none", "high"):
        with (
            serve(grpc_infer_response_compression_level=level) as running,
            counting_proxy(running.grpc) as (address, received),
            grpc.insecure_channel(address) as channel,
        ):
            stub = Stub(channel)
            if stream:
                (response,) = stub.ModelStreamInfer(iter([request(ROWS)]), timeout=60)
                answer = response.infer_response
            else:
                answer = stub.ModelInfer(request(ROWS), timeout=60)
            np.testing.assert_array_equal(np.frombuffer(answer.raw_output_contents[0], np.float32), np.full(ROWS, 3.0))
            sizes[level] = received[0]
    assert sizes["high"] < sizes["none"] - 4 * ROWS // 2, sizes


def test_a_connection_is_closed_when_it_is_old_and_the_client_comes_back(serve: Serve) -> None:
    with serve(grpc_max_connection_age=200, grpc_max_connection_age_grace=100) as running:
        host, port = running.grpc.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=60) as raw:
            raw.sendall(
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
            )  # preface, empty SETTINGS
            while raw.recv(65536):
                pass  # until the server ends it
        with grpc.insecure_channel(running.grpc) as channel:
            assert Stub(channel).ServerLive(service_pb2.ServerLiveRequest(), timeout=60).live
