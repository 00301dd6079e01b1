# SPDX-License-Identifier: Apache-2.0
"""A server that is healthy and does with ModelInfer what a test says: fail, or hold the requests until they are released."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import grpc
from grpc_health.v1 import health_pb2
from tritonclient.grpc import service_pb2

from tests.support.scripted_server import SERVICE

_SERVING = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING).SerializeToString()


@dataclass
class Scripted:
    """received: requests that have arrived whole. released: set it to let the held ones go."""

    address: str = ""
    received: int = 0
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)


Infer = Callable[[Scripted, grpc.ServicerContext], None]


def unavailable(_server: Scripted, context: grpc.ServicerContext) -> None:
    """End every request with UNAVAILABLE."""
    context.abort(grpc.StatusCode.UNAVAILABLE, "scripted")


def cancelled(_server: Scripted, context: grpc.ServicerContext) -> None:
    """End every request with CANCELLED and without a reason, as gRPC does for one that arrives while the server closes."""
    context.abort(grpc.StatusCode.CANCELLED, "CANCELLED")


def hold(server: Scripted, _context: grpc.ServicerContext) -> None:
    """Keep every request until it is released."""
    server.released.wait(120)


def hold_and_fail(server: Scripted, context: grpc.ServicerContext) -> None:
    """Keep every request until it is released, and end it with UNAVAILABLE then."""
    server.released.wait(120)
    unavailable(server, context)


@contextmanager
def scripted(infer: Infer, threads: int = 40) -> Iterator[Scripted]:
    """Run the server. Its answers have no tensors."""
    script = Scripted()

    def handle(_message: bytes, context: grpc.ServicerContext) -> bytes:
        with script.lock:
            script.received += 1
        infer(script, context)
        return service_pb2.ModelInferResponse(model_name="rows").SerializeToString()

    server = grpc.server(ThreadPoolExecutor(threads), options=[("grpc.max_receive_message_length", -1)])
    one = grpc.unary_unary_rpc_method_handler
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(SERVICE, {"ModelInfer": one(handle)}),
            grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": one(lambda _message, _context: _SERVING)}),
        )
    )
    script.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield script
    finally:
        script.released.set()
        with suppress(RuntimeError):
            server.stop(0).wait()


def large_request(size: int) -> bytes:
    """Return a ModelInferRequest of about this many bytes."""
    message = service_pb2.ModelInferRequest(model_name="rows")
    message.inputs.add(name="x", datatype="INT32", shape=[size // 4])
    message.raw_input_contents.append(bytes(size // 4 * 4))
    return message.SerializeToString()
