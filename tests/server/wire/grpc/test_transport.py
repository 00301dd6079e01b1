# SPDX-License-Identifier: Apache-2.0
"""The interface between RPCs and their transport: the RPCs import no gRPC library, and another transport can serve them."""

from __future__ import annotations

import ast
import math
import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from hypersonic.server.core.inference.unary import Unary
from hypersonic.server.errors import NotFoundError
from hypersonic.server.wire.grpc.methods import rpc_methods
from hypersonic.server.wire.grpc.transport import Arrived, Metadata, MethodGroup, StreamMethod, UnaryMethod
from hypersonic.server.wire.status_codes import GrpcStatus
from tests.server.conftest import Running, Serve

SERVER = Path(__file__).resolve().parents[4] / "server"
SERVICE = "/inference.GRPCInferenceService"
WAIT_S = 30


def imported(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_only_the_transport_and_its_credentials_import_grpc() -> None:
    """tritonclient.grpc, whose messages all of the server uses, is another matter."""
    importers = {
        str(module.relative_to(SERVER))
        for module in SERVER.rglob("*.py")
        if any(name.partition(".")[0] == "grpc" for name in imported(module))
    }
    assert importers - {"wire/security/tls.py"} == {name for name in importers if name.startswith("wire/grpc/grpcio/")} != set()


@pytest.mark.parametrize("folder", ["wire/grpc", "wire/http", "observe"])
def test_front_ends_know_neither_each_other_nor_how_models_are_kept_and_run(folder: str) -> None:
    parts = ("wire.grpc", "wire.http", "observe.metrics", "observe.status")
    others = {part for part in parts if not part.startswith(folder.replace("/", "."))}
    modules = sorted((SERVER / folder).rglob("*.py"))
    assert len(modules) > 5
    kept = ("core.scheduling", "core.ensemble", "backends", "repository")
    below = tuple(f"hypersonic.server.{name}." for name in (*others, *kept))
    assert [(str(m), name) for m in modules for name in imported(m) if name.startswith(below)] == []


def test_rpcs_do_not_know_their_transport() -> None:
    modules = list((SERVER / "wire/grpc").glob("*.py"))
    assert {"servicer.py", "stream.py", "messages.py", "methods.py"} <= {module.name for module in modules}
    assert [m.name for m in modules if any(name.startswith("hypersonic.server.wire.grpc.grpcio") for name in imported(m))] == []


class PlainCall:
    """An RpcCall of nobody's transport."""

    client = "ipv4:10.0.0.1:1"
    arrived_s = math.inf
    traceparent = ""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []

    def metadata(self) -> Metadata:
        return ()

    def is_active(self) -> bool:
        return True

    def add_callback(self, callback: Callable[[], None]) -> bool:
        self.callbacks.append(callback)
        return True

    def end(self) -> None:
        for callback in self.callbacks:
            callback()


class PlainStream(PlainCall):
    """A StreamCall that is given all its messages at once."""

    def __init__(self, messages: list[bytes]) -> None:
        super().__init__()
        self.messages = iter(messages)
        self.sent: queue.Queue[bytes | tuple[GrpcStatus, str]] = queue.Queue()

    def listen(self, arrived: Arrived) -> None:
        self.arrived = arrived

    def read(self) -> None:
        self.arrived(next(self.messages, None))

    def stop_reading(self) -> None:
        self.messages = iter(())

    def send(self, message: bytes) -> None:
        self.sent.put(message)

    def finish(self, code: GrpcStatus = GrpcStatus.OK, details: str = "") -> None:
        self.sent.put((code, details))

    def cancel(self, code: GrpcStatus, details: str) -> None:
        self.sent.put((code, details))


@pytest.fixture
def running(serve: Serve) -> Iterator[Running]:
    with serve() as server:
        yield server


@pytest.fixture
def groups(running: Running) -> tuple[MethodGroup, ...]:
    server = running.server
    return rpc_methods(server.service, server._servicer, server._operations)


def method(groups: tuple[MethodGroup, ...], name: str) -> UnaryMethod | StreamMethod:
    return next(method for group in groups for method in group.methods if method.path == f"{SERVICE}/{name}")


def request(rows: int, model: str = "m") -> bytes:
    message = service_pb2.ModelInferRequest(model_name=model, id=str(rows))
    message.inputs.add(name="x", datatype="FP32", shape=[rows, 3])
    message.raw_input_contents.append(np.ones((rows, 3), np.float32).tobytes())
    return message.SerializeToString()


def test_an_inference_needs_no_more_than_bytes_and_a_call(running: Running, groups: tuple[MethodGroup, ...]) -> None:
    infer, call = method(groups, "ModelInfer"), PlainCall()
    assert isinstance(infer, UnaryMethod)
    unary = infer.handle(request(2), call)
    assert isinstance(unary, Unary)
    unary.wait()
    answer = service_pb2.ModelInferResponse.FromString(unary.take())
    assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [3.0, 3.0]
    assert running.server.service.admission.requests == 1
    call.end()
    assert running.server.service.admission.requests == 0
    with pytest.raises(NotFoundError):
        infer.handle(request(1, "nobody"), PlainCall())


def test_other_calls_do_as_well(groups: tuple[MethodGroup, ...]) -> None:
    ready = method(groups, "ServerReady")
    assert isinstance(ready, UnaryMethod)
    answer = ready.handle(service_pb2.ServerReadyRequest().SerializeToString(), PlainCall())
    assert isinstance(answer, bytes)
    assert service_pb2.ServerReadyResponse.FromString(answer).ready


def test_a_stream_needs_no_more_than_messages_and_a_way_to_send(groups: tuple[MethodGroup, ...]) -> None:
    infer, call = method(groups, "ModelStreamInfer"), PlainStream([request(rows) for rows in (1, 2, 3)])
    assert isinstance(infer, StreamMethod)
    infer.handle(call)
    frames = [call.sent.get(timeout=WAIT_S) for _ in range(4)]
    assert frames.pop() == (GrpcStatus.OK, "")
    answers = [service_pb2.ModelStreamInferResponse.FromString(frame) for frame in frames if isinstance(frame, bytes)]
    assert [answer.infer_response.id for answer in answers] == ["1", "2", "3"]
    call.end()
