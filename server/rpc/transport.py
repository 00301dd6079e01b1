# SPDX-License-Identifier: Apache-2.0
"""The interface between RPCs and the gRPC transport that carries them: what it is given, and what it owes in return.

Behind it grpcio could be replaced.

    client --> transport: headers --> message ----> UnaryMethod.handle(bytes, RpcCall) --> bytes, or a Unary that has them later
    client --> transport: headers --> StreamMethod.handle(StreamCall);  message --> arrived();  send(bytes) --> client

A transport serves MethodGroups. Messages are bytes in both directions: whoever handles a method parses and frames them. A
transport knows the methods' paths, and of protobuf nothing.

What it owes:

- The policy is asked with a call's headers before a byte of its message is read (security/policy.py, authorise_rpc()); of a
  call that it refuses none is.
- UnaryMethod.handle and StreamMethod.handle may raise ServerError, and so may Unary.take(): the call ends with what
  failures.ending() makes of it, and MethodGroup.on_error is told first.
- A Unary that is not over holds no thread where the transport can help it.
- Of a group at most `calls` messages are being read or handled at a time, shared by address and connection (limits/budget.py);
  one that cannot do that itself keeps `threads` threads for the group instead.
- A client that sends or reads too slowly is cut off (limits/slow_clients.py) with failures.CUT_OFF's code.
- Callbacks are called when a call has ended: its answer is read by the client, or nobody will read it.

server/rpc/grpcio is the transport there is; this module, failures.py and the RPCs beside it import no gRPC library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from hypersonic.server.errors import ServerError
from hypersonic.server.inference.model import Call
from hypersonic.server.inference.unary import Unary
from hypersonic.server.status_codes import GrpcStatus

#: (key in lower case, value) pairs; values of `-bin` keys are bytes
Metadata = Iterable[tuple[str, str | bytes]]
#: takes each message of a stream, and None after the last one; must not keep its thread
Arrived = Callable[["bytes | None"], None]


class RpcCall(Call, Protocol):
    """A call as its handler sees it: the connection, whether it is still wanted, and what its headers say."""

    @property
    def arrived_s(self) -> float:
        """When its headers came, of time.monotonic(); inf where the transport does not know."""

    @property
    def traceparent(self) -> str:
        """The client's W3C trace context, "" = none."""

    def metadata(self) -> Metadata:
        """The client's headers."""


class StreamCall(RpcCall, Protocol):
    """A call of a StreamMethod. Any thread may end it."""

    def listen(self, arrived: Arrived) -> None:
        """Who takes the messages. Before the first read()."""

    def read(self) -> None:
        """Ask for one message."""

    def stop_reading(self) -> None:
        """The call has ended, and nobody reads any more."""

    def send(self, message: bytes) -> None:
        """Send one message; waits for the client. One thread at a time."""

    def finish(self, code: GrpcStatus = GrpcStatus.OK, details: str = "") -> None:
        """End the call behind what was sent. The thread that sends."""

    def cancel(self, code: GrpcStatus, details: str) -> None:
        """End the call now, also while another thread waits in send()."""


#: message -> the answer, or where it will be. Raises ServerError
UnaryHandler = Callable[[bytes, RpcCall], "bytes | Unary"]
#: returns at once. Raises ServerError
StreamHandler = Callable[[StreamCall], None]


@dataclass(frozen=True)
class UnaryMethod:
    """One message in, one out. path: /package.Service/Method. compress: gzip for its answers, if the client takes that."""

    path: str
    handle: UnaryHandler
    compress: bool = False


@dataclass(frozen=True)
class StreamMethod:
    """Any number of messages in both directions."""

    path: str
    handle: StreamHandler
    compress: bool = False


def _ignore(_error: ServerError) -> None:
    return None


@dataclass(frozen=True)
class MethodGroup:
    """Methods that share threads. name: of the threads. budget: name of the share of unary calls that wait to be read.

    calls: unary calls read or handled at a time. threads: for calls that each hold one. on_error: told of each error that a
    unary call ends with.
    """

    name: str
    methods: tuple[UnaryMethod | StreamMethod, ...]
    calls: int
    threads: int
    budget: str = ""
    on_error: Callable[[ServerError], None] = _ignore

    @property
    def unary_paths(self) -> list[str]:
        """Of its unary methods."""
        return [method.path for method in self.methods if isinstance(method, UnaryMethod)]


def text_headers(metadata: Metadata) -> list[tuple[str, str]]:
    """The headers that are text."""
    return [(key, value) for key, value in metadata if isinstance(value, str)]


def traceparent_of(metadata: Metadata) -> str:
    """The client's W3C trace context, "" = none."""
    return next((str(value) for key, value in metadata if key == "traceparent"), "")
