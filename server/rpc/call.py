# SPDX-License-Identifier: Apache-2.0
"""A gRPC call as this server sees it: who asks, what it holds, and how errors end it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import grpc

from hypersonic.server.errors import (
    AlreadyExistsError,
    BackendError,
    BudgetError,
    CancelledError,
    InvalidRequestError,
    ModelLoadError,
    NotFoundError,
    ServerError,
    UnauthenticatedError,
    UnavailableError,
    UnknownError,
    UnsupportedError,
)
from hypersonic.server.limits.admission import Admission, Held
from hypersonic.server.limits.slow_clients import Fault
from hypersonic.server.log import log_failure

_LOG = logging.getLogger(__name__)
#: longest error text sent: it travels in a header, and clients' names are in it
_MAX_DETAILS = 4096

#: the one place where errors become gRPC's codes; the first match counts
STATUS: tuple[tuple[type[ServerError], grpc.StatusCode], ...] = (
    (InvalidRequestError, grpc.StatusCode.INVALID_ARGUMENT),
    (NotFoundError, grpc.StatusCode.NOT_FOUND),
    (UnavailableError, grpc.StatusCode.UNAVAILABLE),
    (AlreadyExistsError, grpc.StatusCode.ALREADY_EXISTS),
    (UnauthenticatedError, grpc.StatusCode.UNAUTHENTICATED),
    (BudgetError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (CancelledError, grpc.StatusCode.CANCELLED),
    (UnsupportedError, grpc.StatusCode.UNIMPLEMENTED),
    (ModelLoadError, grpc.StatusCode.INTERNAL),
    (UnknownError, grpc.StatusCode.UNKNOWN),
    (BackendError, grpc.StatusCode.INTERNAL),
)


#: the codes by which slow clients' calls end; DEADLINE_EXCEEDED for the rest
_CUT_OFF = {
    Fault.SENDS_TOO_LITTLE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Fault.READS_TOO_LITTLE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Fault.SHUTDOWN: grpc.StatusCode.UNAVAILABLE,
}


def code_of(fault: Fault) -> grpc.StatusCode:
    """gRPC's code for a client that is cut off."""
    return _CUT_OFF.get(fault, grpc.StatusCode.DEADLINE_EXCEEDED)


def status_of(error: ServerError) -> grpc.StatusCode:
    """gRPC's code for an error."""
    return next((code for kind, code in STATUS if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


class Context(Protocol):
    """What is used of grpc.ServicerContext."""

    def abort(self, code: grpc.StatusCode, details: str) -> Any: ...

    def is_active(self) -> bool: ...

    def add_callback(self, callback: Callable[[], None]) -> bool: ...

    def peer(self) -> str: ...

    def invocation_metadata(self) -> Any: ...

    def set_compression(self, compression: grpc.Compression) -> None: ...

    def set_code(self, code: grpc.StatusCode) -> None: ...

    def set_details(self, details: str) -> None: ...


class GrpcCall:
    """A call as models see it. client: the connection. arrived_s: when its headers came, inf where nobody noted it."""

    __slots__ = ("_metadata", "add_callback", "arrived_s", "client", "is_active")

    def __init__(self, context: Context) -> None:
        self.client = context.peer()
        self.arrived_s: float = getattr(context, "arrived_s", math.inf)
        self.is_active = context.is_active
        self.add_callback = context.add_callback
        self._metadata = context.invocation_metadata

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The client's metadata that is text."""
        return [(key, value) for key, value in self._metadata() or () if isinstance(value, str)]

    @property
    def traceparent(self) -> str:
        """The client's W3C trace context, "" = none."""
        return next((str(value) for key, value in self._metadata() or () if key == "traceparent"), "")


def admit(admission: Admission, call: GrpcCall, size_bytes: int) -> Held:
    """Let a request in until its call has ended: its answer read by the client, or given up.

    Raises ShuttingDownError, BudgetError; CancelledError when the call has ended already.
    """
    held = Held(admission, call.client, size_bytes, call.arrived_s)
    if not call.add_callback(held.leave):
        held.leave()
        raise CancelledError
    return held


def on_pool(handle: Any, pool: ThreadPoolExecutor) -> Any:
    """Mark a handler for a pool of its own; grpcio looks for this attribute."""
    handle.experimental_thread_pool = pool
    return handle


def non_blocking(handle: Any) -> Any:
    """Mark a handler that is given a callback to send by, and keeps no thread; grpcio looks for this attribute."""
    handle.experimental_non_blocking = True
    return handle


def printable(error: ServerError) -> str:
    """The error's text as it may travel in a header: control characters but line ends escaped, length bounded."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in error.text[:_MAX_DETAILS]
    )


def cancel(context: Any, code: grpc.StatusCode, details: str) -> None:
    """End a call from any thread, also while its own waits to send. Where grpcio does not let us say why: CANCELLED."""
    call = getattr(getattr(context, "_rpc_event", None), "call", None)
    if call is not None:
        call.cancel(code.value[0], details.encode())
    else:
        context.cancel()


def ending(error: ServerError, client: str) -> tuple[grpc.StatusCode, str]:
    """The status that ends a call with an error; what is ours to mend is in the log too."""
    code = status_of(error)
    if code is grpc.StatusCode.INTERNAL:
        log_failure(_LOG, error, client)
    return code, printable(error)


def abort(context: Context, error: ServerError) -> None:
    """End the call with the error's code and text. Raises what gRPC raises."""
    context.abort(*ending(error, context.peer()))
