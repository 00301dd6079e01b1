# SPDX-License-Identifier: Apache-2.0
"""Failures that proxies and broken connections make: they are tried again, as UNAVAILABLE is; what a server says is not."""

from __future__ import annotations

import struct
from typing import Any

import grpc
import numpy as np
import pytest

from hypersonic.client import Client, Code, Health, RequestError, Server, Settings, UnknownModelError, WrongAnswersError
from hypersonic.client.errors import CallError
from hypersonic.client.pool.servers import Pool
from hypersonic.client.transport.call import Connect
from hypersonic.client.transport.grpcio import GrpcioTransport
from tests.support.http2_peer import DATA, END, GOAWAY, Reply, begun, frame, headers, http2_peer, reset
from tests.support.scripted_server import Script, scripted_server

X = np.arange(8, dtype=np.float32).reshape(2, 4)
NO_ERROR, PROTOCOL, INTERNAL, REFUSED, CANCEL, CALM = 0, 1, 2, 7, 8, 11
MESSAGE = b"\0\0\0\0\0"  # an empty message

#: what ends the call, and the code and a part of the text that the client sees
LOST: dict[str, tuple[Reply, Code, str]] = {
    "RST_STREAM with NO_ERROR": (lambda n: reset(n, NO_ERROR), Code.UNAVAILABLE, "RST_STREAM"),
    "RST_STREAM with PROTOCOL_ERROR": (lambda n: reset(n, PROTOCOL), Code.UNAVAILABLE, "RST_STREAM"),
    "RST_STREAM with INTERNAL_ERROR": (lambda n: reset(n, INTERNAL), Code.UNAVAILABLE, "RST_STREAM"),
    "RST_STREAM with REFUSED_STREAM": (lambda n: reset(n, REFUSED), Code.UNAVAILABLE, ""),
    "RST_STREAM with CANCEL": (lambda n: reset(n, CANCEL), Code.CANCELLED, ""),
    "RST_STREAM with ENHANCE_YOUR_CALM": (lambda n: reset(n, CALM), Code.RESOURCE_EXHAUSTED, ""),
    "headers, then RST_STREAM": (lambda n: begun(n) + reset(n, INTERNAL), Code.UNAVAILABLE, "RST_STREAM"),
    "a message, then RST_STREAM": (
        lambda n: begun(n) + frame(DATA, 0, n, MESSAGE) + reset(n, INTERNAL), Code.UNAVAILABLE, "RST_STREAM"
    ),
    "headers and no trailers": (lambda n: begun(n) + frame(DATA, END, n), Code.UNAVAILABLE, "(UNKNOWN)"),
    "a message and no trailers": (lambda n: begun(n) + frame(DATA, END, n, MESSAGE), Code.UNAVAILABLE, "(UNKNOWN)"),
    "half a message": (lambda n: begun(n) + frame(DATA, END, n, MESSAGE[:3]), Code.UNAVAILABLE, ""),
    "HTTP 500": (lambda n: headers(n, end=True, status="500"), Code.UNAVAILABLE, "500"),
    "HTTP 500 with a page": (
        lambda n: headers(n, status="500", content_type="text/html") + frame(DATA, END, n, b"<html>"), Code.UNAVAILABLE, "500"
    ),
    "HTTP 502": (lambda n: headers(n, end=True, status="502"), Code.UNAVAILABLE, "502"),
    "HTTP 503": (lambda n: headers(n, end=True, status="503"), Code.UNAVAILABLE, "503"),
    "HTTP 504": (lambda n: headers(n, end=True, status="504"), Code.UNAVAILABLE, "504"),
    "HTTP 429": (lambda n: headers(n, end=True, status="429"), Code.UNAVAILABLE, "429"),
    "GOAWAY": (lambda _n: frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0)), Code.UNAVAILABLE, ""),
    "a closed connection": (lambda _n: b"", Code.UNAVAILABLE, ""),
    "not HTTP/2": (lambda _n: b"\xff" * 40, Code.UNAVAILABLE, ""),
}  # fmt: skip

#: what a server or a proxy says of the request itself
SAID: dict[str, tuple[Reply, Code]] = {
    "INTERNAL": (lambda n: headers(n, end=True, status="200", content_type="application/grpc", grpc_status="13",
                                   grpc_message="the model failed"), Code.INTERNAL),
    "UNKNOWN": (lambda n: begun(n) + headers(n, end=True, grpc_status="2", grpc_message="the model failed"), Code.UNKNOWN),
    "INTERNAL without a text": (lambda n: begun(n) + headers(n, end=True, grpc_status="13"), Code.INTERNAL),
    "HTTP 400": (lambda n: headers(n, end=True, status="400"), Code.INTERNAL),
    "HTTP 404": (lambda n: headers(n, end=True, status="404"), Code.UNIMPLEMENTED),
}  # fmt: skip


class Behind(GrpcioTransport):
    """A server of which ModelInfer goes to another address."""

    def __init__(self, server: Server, settings: Settings, infer_at: str) -> None:
        super().__init__(server, settings)
        self._infer = GrpcioTransport(Server(infer_at), settings)

    def unary(self, method: str, *args: Any) -> bytes:
        return self._infer.unary(method, *args) if method == "ModelInfer" else super().unary(method, *args)

    def start(self, method: str, *args: Any) -> Any:
        return self._infer.start(method, *args) if method == "ModelInfer" else super().start(method, *args)

    def close(self) -> None:
        super().close()
        self._infer.close()


def behind(peer: str) -> Connect:
    """Makes transports whose ModelInfer goes to this peer."""
    return lambda server, settings: Behind(server, settings, peer)


def infer(broken: str, reply: Reply, good: str) -> Any:
    """The results of ten requests to two servers, of which one has its ModelInfer behind such a peer."""
    with http2_peer(reply) as peer:

        def connect(server: Server, settings: Settings) -> GrpcioTransport:
            return Behind(server, settings, peer) if server.address == broken else GrpcioTransport(server, settings)

        with Client([broken, good], connect=connect) as client:
            model = client.model("double")
            return [model.result(X) for _ in range(5)] + [model.submit(X).result() for _ in range(5)]


@pytest.mark.parametrize(("reply", "code", "text"), LOST.values(), ids=LOST)
def test_a_call_that_was_lost_on_its_way_is_tried_again(reply: Reply, code: Code, text: str, address: str) -> None:
    with http2_peer(reply) as peer:
        transport = GrpcioTransport(Server(peer), Settings())
        with pytest.raises(CallError) as error:
            transport.unary("ModelInfer", b"", 5.0, ())
        transport.close()
    assert error.value.code == code, error.value.text
    assert text in error.value.text
    with scripted_server(Script()) as good:
        for result in infer(address, reply, good):
            np.testing.assert_array_equal(result.output, 2 * X)


@pytest.mark.parametrize(("reply", "code"), SAID.values(), ids=SAID)
def test_what_a_server_says_of_the_request_is_not_tried_again(reply: Reply, code: Code, address: str) -> None:
    calls: list[int] = []

    def counted(number: int) -> bytes:
        calls.append(number)
        return reply(number)

    with http2_peer(counted) as peer, Client(address, connect=behind(peer)) as client, pytest.raises(RequestError) as error:
        client.model("double").infer(X)
    assert error.value.code == code
    assert len(calls) == 1


def test_ok_without_a_message_is_a_wrong_answer(address: str) -> None:
    def reply(number: int) -> bytes:
        return headers(number, end=True, status="200", content_type="application/grpc", grpc_status="0")

    with http2_peer(reply) as peer, Client(address, connect=behind(peer)) as client:
        for call in (client.model("double").result, lambda rows: client.model("double").submit(rows).result()):
            with pytest.raises(WrongAnswersError, match="the status is OK, and there is no message"):
                call(X)
    with scripted_server(Script()) as good:
        for result in infer(address, reply, good):
            assert result.server == good


def test_a_listed_model_that_one_server_behind_a_proxy_no_longer_has_is_asked_for_again(address: str, script: Script) -> None:
    """A server that ends unloads its models before a load balancer leaves it out."""
    endings = ["first", "second"]

    def ending(_request: Any, context: grpc.ServicerContext) -> None:
        if endings:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: it was unloaded, {endings.pop(0)} time")

    with Client(address, health=Health(first_s=0.05)) as client:
        model = client.model("double")
        assert model.spec.name == "double"
        script.infer = ending
        with pytest.raises(UnknownModelError):  # one server, or all of them: nobody has it
            model.infer(X)
        endings.append("third")
        np.testing.assert_array_equal(model.infer(X), 2 * X)
        endings.append("fourth")
        np.testing.assert_array_equal(model.submit(X).result().output, 2 * X)
    assert script.calls["ModelInfer"] == 2 + 2 + 2


@pytest.mark.parametrize("way", ["infer", "submit"])
def test_a_server_that_lists_a_model_and_refuses_it_is_asked_twice_however_often_it_is_checked(
    address: str, script: Script, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(Pool, "_lacks", lambda *_: None)  # as if a check always came between two attempts, and listed the model

    def missing(_request: Any, context: grpc.ServicerContext) -> None:
        context.abort(grpc.StatusCode.NOT_FOUND, "Request for unknown model")

    with Client(address) as client:
        model = client.model("double")
        assert model.spec.name == "double"
        script.infer = missing
        with pytest.raises(UnknownModelError):
            _ = model.infer(X) if way == "infer" else model.submit(X).result()
    assert script.calls["ModelInfer"] == 2
