# SPDX-License-Identifier: Apache-2.0
"""Calls that grpcio's own server serves, with the interface of wire/grpc/transport.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from hypersonic.server.wire.grpc.grpcio.core import to_grpc
from hypersonic.server.wire.grpc.grpcio.stream_requests import StreamRequests
from hypersonic.server.wire.grpc.transport import Arrived, Metadata, traceparent_of
from hypersonic.server.wire.status_codes import GrpcStatus


class ServicerCall:
    """An RpcCall over a grpc.ServicerContext."""

    __slots__ = ("_context", "add_callback", "client", "is_active")

    #: grpcio does not report when a call arrived
    arrived_s = math.inf

    def __init__(self, context: Any) -> None:
        """Create a ServicerCall.

        Args:
            context: a grpc.ServicerContext.
        """
        self.client: str = context.peer()
        self.is_active: Callable[[], bool] = context.is_active
        self.add_callback: Callable[[Callable[[], None]], bool] = context.add_callback
        self._context = context

    def metadata(self) -> Metadata:
        """Return the headers that the client sent."""
        return self._context.invocation_metadata() or ()

    @property
    def traceparent(self) -> str:
        """The `traceparent` header, a W3C trace context; "" = none."""
        return traceparent_of(self.metadata())


class ServicerStreamCall(ServicerCall):
    """A StreamCall over the arguments that grpcio passes to a handler marked as non-blocking."""

    __slots__ = ("_incoming", "_requests", "_send")

    def __init__(self, requests: Iterator[bytes], context: Any, send: Callable[[bytes | None], object]) -> None:
        """Create a ServicerStreamCall.

        Args:
            requests: grpcio's iterator.
            send: sends a message and waits for the client; None ends the call.
        """
        super().__init__(context)
        self._incoming = requests
        self._send = send
        self._requests: StreamRequests | None = None

    def listen(self, arrived: Arrived) -> None:
        """Set the function that receives the messages. Must be called before the first read()."""
        self._requests = StreamRequests(self._incoming, arrived)

    def read(self) -> None:
        """Ask for one message. Does not wait for it."""
        if self._requests is not None:
            self._requests.read()

    def stop_reading(self) -> None:
        """Release the resources used for reading. Called once the call has ended."""
        if self._requests is not None:
            self._requests.close()

    def send(self, message: bytes) -> None:
        """Send one message. Waits for the client."""
        self._send(message)

    def finish(self, code: GrpcStatus = GrpcStatus.OK, details: str = "") -> None:
        """End the call after the messages that were sent."""
        if code is not GrpcStatus.OK:
            self._context.set_code(to_grpc(code))
            self._context.set_details(details)
        self._send(None)

    def cancel(self, code: GrpcStatus, details: str) -> None:
        """End the call now, with CANCELLED instead of `code` where grpcio does not give access to the call."""
        call = getattr(getattr(self._context, "_rpc_event", None), "call", None)
        if call is not None:
            call.cancel(int(code), details.encode())
        else:
            self._context.cancel()
