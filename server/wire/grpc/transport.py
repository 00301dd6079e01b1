# SPDX-License-Identifier: Apache-2.0
"""The interface between the RPCs and the gRPC transport that carries them. Another transport could replace grpcio behind it.

::

    client --> transport: headers --> message ----> UnaryMethod.handle(bytes, RpcCall) --> bytes, or a Unary that has them later
    client --> transport: headers --> StreamMethod.handle(StreamCall);  message --> arrived();  send(bytes) --> client

A transport serves MethodGroups. Messages are bytes in both directions: the handlers of the methods parse and serialize them. A
transport knows the methods' paths and nothing about protobuf.

A transport has to keep these rules:

- The policy is asked about a call's headers before a byte of its message is read (wire/security/policy.py, authorise_rpc()). Of
  a refused call, no byte of the message is read.
- UnaryMethod.handle, StreamMethod.handle and Unary.take() may raise ServerError. MethodGroup.on_error is called with it, and
  then the call ends with the code and the text that failures.ending() returns.
- A Unary that is not over holds no thread, if the transport can avoid it.
- At most `calls` messages of a group are read or handled at one time, shared by address and connection (limits/budget.py). A
  transport that cannot do that uses `threads` threads for the group instead.
- A client that sends or reads too slowly is cut off (limits/slow_clients.py) with the code in failures.CUT_OFF.
- Callbacks are called when a call has ended: the client has read its answer, or nobody will read it.

server/wire/grpc/grpcio is the only transport so far. This module, failures.py and the RPCs in this folder import no gRPC
library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from hypersonic.server.core.inference.model import Call
from hypersonic.server.core.inference.unary import Unary
from hypersonic.server.errors import ServerError
from hypersonic.server.wire.status_codes import GrpcStatus

#: (key in lower case, value) pairs; values of `-bin` keys are bytes
Metadata = Iterable[tuple[str, str | bytes]]
#: called with each message of a stream, and with None after the last one; must not block
Arrived = Callable[["bytes | None"], None]


class RpcCall(Call, Protocol):
    """A call as its handler sees it: the connection, whether the call is still active, and its headers."""

    @property
    def arrived_s(self) -> float:
        """When the call's headers arrived, in seconds of time.monotonic(); inf if the transport does not know."""

    @property
    def traceparent(self) -> str:
        """The `traceparent` header, a W3C trace context; "" = none."""

    def metadata(self) -> Metadata:
        """Return the headers that the client sent."""


class StreamCall(RpcCall, Protocol):
    """A call of a StreamMethod. Any thread may end it."""

    def listen(self, arrived: Arrived) -> None:
        """Set the function that receives the messages. Must be called before the first read()."""

    def read(self) -> None:
        """Ask for one message. Does not wait for it."""

    def stop_reading(self) -> None:
        """Release the resources used for reading. Called once the call has ended."""

    def send(self, message: bytes) -> None:
        """Send one message. Waits for the client; one thread may call it at a time."""

    def finish(self, code: GrpcStatus = GrpcStatus.OK, details: str = "") -> None:
        """End the call after the messages that were sent. Called on the thread that sends."""

    def cancel(self, code: GrpcStatus, details: str) -> None:
        """End the call now, even while another thread waits in send()."""


#: message -> the answer, or the Unary that will have it. Raises ServerError
UnaryHandler = Callable[[bytes, RpcCall], "bytes | Unary"]
#: begins to serve a stream and returns at once. Raises ServerError
StreamHandler = Callable[[StreamCall], None]


@dataclass(frozen=True)
class UnaryMethod:
    """A method with one message in and one out.

    Attributes:
        path: /package.Service/Method.
        compress: compress the answers with gzip, if the client accepts it.
    """

    path: str
    handle: UnaryHandler
    compress: bool = False


@dataclass(frozen=True)
class StreamMethod:
    """A method with any number of messages in both directions. Fields as in UnaryMethod."""

    path: str
    handle: StreamHandler
    compress: bool = False


def _ignore(_error: ServerError) -> None:
    return None


@dataclass(frozen=True)
class MethodGroup:
    """Methods that share threads and limits.

    Attributes:
        name: of the threads.
        budget: name of the budget for unary calls that wait to be read; "" = the transport's own threads serve the group.
        calls: the most unary calls that are read or handled at one time.
        threads: for calls that each hold one.
        on_error: called with each error that ends a unary call.
    """

    name: str
    methods: tuple[UnaryMethod | StreamMethod, ...]
    calls: int
    threads: int
    budget: str = ""
    on_error: Callable[[ServerError], None] = _ignore

    @property
    def unary_paths(self) -> list[str]:
        """The paths of the group's unary methods."""
        return [method.path for method in self.methods if isinstance(method, UnaryMethod)]


def text_headers(metadata: Metadata) -> list[tuple[str, str]]:
    """Return the headers whose values are text, which leaves out the `-bin` ones."""
    return [(key, value) for key, value in metadata if isinstance(value, str)]


def traceparent_of(metadata: Metadata) -> str:
    """Return the `traceparent` header, a W3C trace context; "" = none."""
    return next((str(value) for key, value in metadata if key == "traceparent"), "")
