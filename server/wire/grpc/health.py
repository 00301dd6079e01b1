# SPDX-License-Identifier: Apache-2.0
"""grpc.health.v1: Check, which Kubernetes' gRPC probe calls, and Watch, for clients that balance load by health.

As in Triton, every service name gets the same answer: SERVING if and only if the server is ready. The server sends a watching
client a message when readiness changes; the open call holds no thread.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from grpc_health.v1 import health_pb2

from hypersonic.server.errors import BudgetError
from hypersonic.server.limits.admission import Admission
from hypersonic.server.wire.grpc.transport import MethodGroup, RpcCall, StreamCall, StreamMethod, UnaryMethod
from hypersonic.server.wire.service.inference import InferenceService

SERVICE = "grpc.health.v1.Health"
CHECK, WATCH = f"/{SERVICE}/Check", f"/{SERVICE}/Watch"
#: the most checks whose requests are being read at one time; each is answered as soon as its request has arrived
_CALLS = 256
#: the most watches that are open at one time, shared among addresses and then among connections
_MOST_WATCHERS = 16_384


class HealthServicer:
    """Check and Watch for one service. One thread writes to all streams, because gRPC accepts one message of a stream at a
    time.
    """

    def __init__(self, service: InferenceService) -> None:
        """Follow the readiness of `service`, and report open watches in its saturation metrics."""
        self._service = service
        self._lock = threading.Lock()
        self._watchers: dict[StreamCall, bool | None] = {}
        self._places = Admission(_MOST_WATCHERS, service.peers)
        service.saturation.add("watches", self._places.budget)
        self._teller = ThreadPoolExecutor(1, thread_name_prefix="grpc-health-watch")
        service.on_change(self.refresh)

    def check(self, _request: bytes, _call: RpcCall) -> bytes:
        """Return a serialized HealthCheckResponse. The request's service name is ignored, as in Triton."""
        return _response(self._service.ready)

    def watch(self, call: StreamCall) -> None:
        """Send the current state now, and every later one when it changes.

        The request is not waited for, because nothing depends on it. Raises BudgetError (RESOURCE_EXHAUSTED) when the
        client's address or connection has its share of watches open.
        """
        client = call.client
        try:
            self._places.enter(1, client)
        except BudgetError as error:
            text = f"{self._places.requests} of {_MOST_WATCHERS} watches are open, one more exceeds this address's share"
            raise BudgetError(text) from error
        with self._lock:
            self._watchers[call] = None
        if not call.add_callback(partial(self._forget, call, client)):
            self._forget(call, client)
        self.refresh()

    def refresh(self) -> None:
        """Tell the watching clients if readiness has changed. Does not wait for them."""
        if self._watchers:
            self._teller.submit(self._tell)

    def close(self) -> None:
        """End every watch. Does not wait for that."""
        self._teller.submit(self._end)
        self._teller.shutdown(wait=False)

    def _tell(self) -> None:
        ready = self._service.ready
        with self._lock:
            behind = [call for call, told in self._watchers.items() if told is not ready]
            self._watchers.update(dict.fromkeys(behind, ready))
        for call in behind:
            call.send(_response(ready))

    def _end(self) -> None:
        with self._lock:
            watchers = list(self._watchers)
            self._watchers.clear()
        for call in watchers:
            call.finish()

    def _forget(self, call: StreamCall, client: str) -> None:
        self._places.leave(1, client)
        with self._lock:
            self._watchers.pop(call, None)


def _response(ready: bool) -> bytes:
    status = health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
    message: bytes = health_pb2.HealthCheckResponse(status=status).SerializeToString()
    return message


def health_methods(servicer: HealthServicer) -> MethodGroup:
    """Return the service's methods for a transport. Their requests are never parsed."""
    return MethodGroup(
        "health", (UnaryMethod(CHECK, servicer.check), StreamMethod(WATCH, servicer.watch)), _CALLS, 2, "health_calls"
    )
