# SPDX-License-Identifier: Apache-2.0
"""DirectCall: one call of a CallQueue, on gRPC core's own terms, and the context its handler sees."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

from hypersonic.server.limits.slow_clients import Fault, SlowClients
from hypersonic.server.rpc.failures import cut_off_status
from hypersonic.server.rpc.grpcio.core import cygrpc
from hypersonic.server.rpc.transport import Metadata, traceparent_of

_LOG = logging.getLogger(__name__)
_NO_FLAGS = 0
_ALGORITHMS = {
    grpc.Compression.NoCompression: "identity",
    grpc.Compression.Deflate: "deflate",
    grpc.Compression.Gzip: "gzip",
}


class CallDetails(NamedTuple):
    """grpc.HandlerCallDetails: what a handler is looked up by."""

    method: str
    invocation_metadata: Any


class AbortedError(Exception):
    """Raised by abort(): the call's code and details are known, its handler has nothing more to say."""


class Reply:
    """The promise that a call is answered later. One of its methods is called, once, on any thread."""

    __slots__ = ("_call",)

    def __init__(self, call: DirectCall) -> None:
        self._call = call

    def send(self, answer: bytes) -> None:
        """The answer."""
        self._call.reply(grpc.StatusCode.OK, "", answer)

    def fail(self, code: grpc.StatusCode, details: str) -> None:
        """There is none."""
        self._call.reply(code, details)

    def withdraw(self) -> None:
        """The handler answers after all."""
        self._call.promised(-1)


class DirectCall:
    """An RpcCall, and the part of grpc.ServicerContext that a unary call needs. Its handler's thread and the queue's use it.

    Ends when core has said that it is closed and all operations begun on it are over; then the callbacks are called.
    """

    __slots__ = ("_call", "_callbacks", "_cancelled", "_clients", "_code", "_deadline", "_details", "_due", "_handler", "_lock",
                 "_message", "_metadata", "_sent_metadata", "_statused", "arrived_s", "client", "method",
                 "promised")  # fmt: skip

    def __init__(
        self,
        event: Any,
        method: str,
        handler: grpc.GenericRpcHandler,
        clients: SlowClients,
        promised: Callable[[int], None] = lambda _: None,
    ) -> None:
        """promised: told of answers that come later: one more, one less."""
        self.promised = promised
        self._call = event.call
        self._clients = clients
        peer: bytes = event.call.peer()
        #: the connection, as gRPC writes addresses
        self.client = peer.decode("utf-8", "replace")
        self._deadline: float | None = event.call_details.deadline
        self._metadata = event.invocation_metadata
        self._sent_metadata: tuple[tuple[str, str], ...] | None = None
        self.method = method
        #: when its headers came
        self.arrived_s = time.monotonic()
        self._lock = threading.Lock()
        self._cancelled = self._statused = False
        self._callbacks: list[Callable[[], None]] | None = []
        self._message: bytes | None = None
        self._code = grpc.StatusCode.UNKNOWN
        self._details = ""
        #: operations begun and not over
        self._due = 1
        self._call.start_server_batch((cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS),), self._close)
        self._handler = self._look_up(handler)

    def _look_up(self, handler: grpc.GenericRpcHandler) -> Any:
        try:
            return handler.service(CallDetails(self.method, self._metadata))  # type: ignore[arg-type]  # the same fields
        except Exception:  # noqa: BLE001 - one call's headers must not end the thread that serves all
            _LOG.exception("no handler for %s", self.method)
            return None

    @property
    def is_refused(self) -> bool:
        """Whether its headers are refused: run() says so, and nobody asks for its message."""
        return self._handler is not None and bool(self._handler.request_streaming)

    def read(self) -> None:
        """Ask for the message: an event whose tag gives this call, ready to run."""
        self._clients.sending(self)
        self._begin((cygrpc.ReceiveMessageOperation(_NO_FLAGS),), self._receive)

    def refuse(self, code: grpc.StatusCode, details: str) -> None:
        """End it without its message having been read."""
        self._send(code, details)

    def run(self) -> None:
        """DirectCall the handler and send what it gives. Raises nothing."""
        message, self._message = self._message, None
        try:
            answer = self._answer(message)
        except AbortedError:
            self._send(self._code, self._details)
        except Exception as error:  # noqa: BLE001 - as grpcio does: the handler's fault is told to the client
            _LOG.exception("a handler of %s failed", self.method)
            self._send(grpc.StatusCode.UNKNOWN, f"Exception calling application: {error}")
        else:
            if not isinstance(answer, Reply):
                self._send(grpc.StatusCode.OK, "", answer)

    def later(self) -> Reply:
        """For a handler that returns before it has an answer: it returns this."""
        self.promised(1)
        return Reply(self)

    def reply(self, code: grpc.StatusCode, details: str, answer: bytes | None = None) -> None:
        """The answer that was promised."""
        try:
            self._send(code, details, answer)
        finally:
            self.promised(-1)

    def _answer(self, message: bytes | None) -> bytes | Reply:
        handler = self._handler
        if handler is None:
            self.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        if handler.request_streaming:
            next(iter(handler.stream_stream(iter(()), self) or ()), None)
            self.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        if message is None:
            self.abort(grpc.StatusCode.UNIMPLEMENTED, f'"{self.method}" requires exactly one request message.')
        answer = handler.unary_unary(message, self)
        if not isinstance(answer, bytes | Reply):
            self.abort(grpc.StatusCode.INTERNAL, "Failed to serialize response!")
        return answer  # type: ignore[no-any-return]

    def _send(self, code: grpc.StatusCode, details: str, answer: bytes | None = None) -> None:
        if self._cancelled:
            return
        self._statused = True
        self._clients.reading(self, len(answer or b""))
        status = cygrpc.SendStatusFromServerOperation(None, code.value[0], details.encode(), _NO_FLAGS)
        metadata = cygrpc.SendInitialMetadataOperation(self._sent_metadata, _NO_FLAGS)
        if answer is None:
            self._begin((status, metadata), self._over)
        else:
            self._begin((status, metadata, cygrpc.SendMessageOperation(answer, _NO_FLAGS)), self._over)

    def _begin(self, operations: tuple[Any, ...], tag: Callable[[Any], DirectCall | None]) -> None:
        with self._lock:
            self._due += 1
        self._call.start_server_batch(operations, tag)

    def _close(self, event: Any) -> None:
        """Core: the client has its answer, or gave up."""
        self._cancelled = event.batch_operations[0].cancelled()
        self._over(event)

    def _receive(self, event: Any) -> DirectCall:
        """Core: the message is here, or (None) there is none."""
        self._clients.forget(self)
        self._message = event.batch_operations[0].message()
        self._over(event)
        return self

    def _over(self, _event: Any) -> None:
        """Core: an operation is over."""
        with self._lock:
            self._due -= 1
            if self._due:
                return
            callbacks, self._callbacks = self._callbacks, None
        self._clients.forget(self)
        for callback in callbacks or ():
            try:
                callback()
            except Exception:  # noqa: BLE001 - the others have to be called too
                _LOG.exception("a callback of %s failed", self.method)

    def abort(self, code: grpc.StatusCode, details: str) -> Any:
        """Raises AbortedError."""
        self._code, self._details = code, details
        raise AbortedError

    def is_active(self) -> bool:
        """False once the client cancelled, disconnected, or its deadline passed, and once the call has its status."""
        return not self._cancelled and not self._statused

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """DirectCall back when the call has ended, on any thread; False when it has ended already."""
        with self._lock:
            if self._callbacks is None:
                return False
            self._callbacks.append(callback)
            return True

    def cut_off(self, fault: Fault, text: str) -> None:
        """The client has been slow for too long."""
        self._call.cancel(int(cut_off_status(fault)), text.encode())

    def peer(self) -> str:
        """The client's address, as gRPC writes it."""
        return self.client

    def invocation_metadata(self) -> Any:
        """The client's headers: (key, value) pairs."""
        return self._metadata

    def metadata(self) -> Metadata:
        """The same, for handlers that know no grpcio."""
        return self._metadata or ()

    @property
    def traceparent(self) -> str:
        """The client's W3C trace context, "" = none."""
        return traceparent_of(self.metadata())

    def set_compression(self, compression: grpc.Compression) -> None:
        """How the answer is compressed, if the client takes it so."""
        self._sent_metadata = ((cygrpc.GRPC_COMPRESSION_REQUEST_ALGORITHM_MD_KEY, _ALGORITHMS[compression]),)

    def time_remaining(self) -> float | None:
        """Seconds until the client's deadline, None without one."""
        return None if self._deadline is None else max(0.0, self._deadline - time.time())
