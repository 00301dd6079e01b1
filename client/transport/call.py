# SPDX-License-Identifier: Apache-2.0
"""The interface between the client and the gRPC library below it.

A transport calls the methods of inference.GRPCInferenceService on one server. Requests and answers are bytes. It never
retries a call. The client uses transport/grpcio.py; tests have others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from hypersonic.client.errors import CallError
from hypersonic.client.servers import Server
from hypersonic.client.settings import Settings

#: (name in lower case, value) pairs that are sent with a call
Headers = tuple[tuple[str, str], ...]
#: called once with the answer or the failure of a call, on a thread of the transport, which it must not block
Done = Callable[["bytes | CallError"], None]


class Running(Protocol):
    """A call that was started."""

    def cancel(self) -> None:
        """Cancel it. Its Done is called with the code CANCELLED, unless it was called already."""


class Stream(Protocol):
    """A call of ModelStreamInfer. One thread sends and one reads at a time; they may be two."""

    def send(self, message: bytes) -> None:
        """Send a request. Does not wait for its answer."""

    def half_close(self) -> None:
        """Tell the server that no more requests follow."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield the answers until the server ends the call. Raises CallError."""

    def cancel(self) -> None:
        """End it now."""


class Transport(Protocol):
    """Calls one server. It connects with the first call, and again after a failure. Any thread may call it."""

    def unary(self, method: str, request: bytes, timeout_s: float, headers: Headers) -> bytes:
        """Return the answer. Raises CallError."""

    def start(self, method: str, request: bytes, timeout_s: float, headers: Headers, done: Done) -> Running:
        """Start a call and return without waiting. Raises CallError if the transport was closed."""

    def stream(self, timeout_s: float | None, headers: Headers) -> Stream:
        """Start a call of ModelStreamInfer.

        Args:
            timeout_s: None for no limit.

        Raises:
            CallError: If the transport was closed.
        """

    def close(self) -> None:
        """End all calls and the connection."""


#: makes the transport of a server
Connect = Callable[[Server, Settings], Transport]
