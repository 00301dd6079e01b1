# SPDX-License-Identifier: Apache-2.0
"""grpc.health.v1: Check for Kubernetes' gRPC probe, Watch for clients that balance on health.

As in Triton, every service name answers alike: SERVING if and only if the server is ready. A watching client is pushed to
when that changes and holds no thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc
from grpc_health.v1 import health_pb2

from hypersonic.server.errors import BudgetError
from hypersonic.server.limits.admission import Admission
from hypersonic.server.rpc.call import Context, abort, non_blocking, on_pool
from hypersonic.server.service.inference import InferenceService

SERVICE = "grpc.health.v1.Health"
CHECK = f"/{SERVICE}/Check"
#: open at a time, shared by address and connection
_MOST_WATCHERS = 16_384
#: grpcio's way to send on a stream from any thread; None ends the stream
Send = Callable[[Any], None]


class HealthServicer:
    """Check and Watch of one service. All streams are written by one thread: gRPC takes one message of a stream at a time."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._watchers: dict[Send, bool | None] = {}
        self._places = Admission(_MOST_WATCHERS, service.peers)
        service.saturation.add("watches", self._places.budget)
        self._teller = ThreadPoolExecutor(1, thread_name_prefix="grpc-health-watch")
        service.on_change(self.refresh)

    def check(self, _request: bytes, _context: Context) -> bytes:
        return _response(self._service.ready)

    def watch(self, _requests: Any, context: Context, send: Send) -> None:
        """Send the present state now, every other one when it comes. The request is not waited for: nothing depends on it."""
        client = context.peer()
        try:
            self._places.enter(1, client)
        except BudgetError:
            text = f"{self._places.requests} of {_MOST_WATCHERS} watches are open, one more exceeds this address's share"
            abort(context, BudgetError(text))
        with self._lock:
            self._watchers[send] = None
        if not context.add_callback(partial(self._forget, send, client)):
            self._forget(send, client)
        self.refresh()

    def refresh(self) -> None:
        """Readiness may have changed: tell those who watch. Does not wait for them."""
        if self._watchers:
            self._teller.submit(self._tell)

    def close(self) -> None:
        """End every stream."""
        self._teller.submit(self._end)
        self._teller.shutdown(wait=False)

    def _tell(self) -> None:
        ready = self._service.ready
        with self._lock:
            behind = [send for send, told in self._watchers.items() if told is not ready]
            self._watchers.update(dict.fromkeys(behind, ready))
        for send in behind:
            send(_response(ready))

    def _end(self) -> None:
        with self._lock:
            watchers = list(self._watchers)
            self._watchers.clear()
        for send in watchers:
            send(None)

    def _forget(self, send: Send, client: str) -> None:
        self._places.leave(1, client)
        with self._lock:
            self._watchers.pop(send, None)


def _response(ready: bool) -> bytes:
    status = health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
    message: bytes = health_pb2.HealthCheckResponse(status=status).SerializeToString()
    return message


def health_handler(servicer: HealthServicer) -> grpc.GenericRpcHandler:
    """The service as grpc.Server.add_generic_rpc_handlers takes it, on threads of its own. Requests are not even parsed."""
    pool = ThreadPoolExecutor(2, thread_name_prefix="grpc-health")
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "Check": grpc.unary_unary_rpc_method_handler(on_pool(partial(servicer.check), pool)),
            "Watch": grpc.stream_stream_rpc_method_handler(on_pool(non_blocking(partial(servicer.watch)), pool)),
        },
    )
