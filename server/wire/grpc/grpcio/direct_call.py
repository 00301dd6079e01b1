# SPDX-License-Identifier: Apache-2.0
"""DirectCall: one call of a CallQueue, made of gRPC core's operations. It is also the context that its handler is given."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

from hypersonic.server.limits.slow_clients import Fault, SlowClients
from hypersonic.server.wire.grpc.failures import cut_off_status
from hypersonic.server.wire.grpc.grpcio.core import cygrpc
from hypersonic.server.wire.grpc.transport import Metadata, traceparent_of

_LOG = logging.getLogger(__name__)
_NO_FLAGS = 0
#: grpcio's object for a status code -> its number; the attribute `value` of an Enum costs two calls
_NUMBERS = {code: code.value[0] for code in grpc.StatusCode}
_ALGORITHMS = {
    grpc.Compression.NoCompression: "identity",
    grpc.Compression.Deflate: "deflate",
    grpc.Compression.Gzip: "gzip",
}


class CallDetails(NamedTuple):
    """The fields of grpc.HandlerCallDetails, by which a handler is looked up."""

    method: str
    invocation_metadata: Any


class AbortedError(Exception):
    """Raised by abort() to leave the handler, once the call's code and details are set."""


class Reply:
    """The promise that a call is answered later. One of the methods has to be called, once, on any thread."""

    __slots__ = ("_call",)

    def __init__(self, call: DirectCall) -> None:
        """Use DirectCall.later()."""
        self._call = call

    def send(self, answer: bytes) -> None:
        """End the call with a serialized answer and the status OK."""
        self._call.reply(grpc.StatusCode.OK, "", answer)

    def fail(self, code: grpc.StatusCode, details: str) -> None:
        """End the call with an error."""
        self._call.reply(code, details)

    def withdraw(self) -> None:
        """Cancel the promise: the handler itself returns the answer or raises."""
        self._call.promised(-1)


class DirectCall:
    """An RpcCall that also has the part of grpc.ServicerContext that a unary call needs.

    The handler's thread and the queue's threads use it. The call ends when core has reported it closed and all operations begun
    on it are over; the callbacks are called then.
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
        """Create a DirectCall.

        Args:
            event: core's event of a new call.
            promised: called with +1 for an answer that will be sent later, and with -1 when it has been.
        """
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
        #: when its headers arrived, in seconds of time.monotonic()
        self.arrived_s = time.monotonic()
        self._lock = threading.Lock()
        self._cancelled = self._statused = False
        self._callbacks: list[Callable[[], None]] | None = []
        self._message: bytes | None = None
        self._code = grpc.StatusCode.UNKNOWN
        self._details = ""
        #: the number of operations that have begun and are not over
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
        """True if the policy refused the call's headers. run() then sends the refusal, and the message is never read."""
        return self._handler is not None and bool(self._handler.request_streaming)

    def read(self) -> None:
        """Ask for the message. It is reported by an event whose tag returns this call, ready for run()."""
        self._clients.sending(self)
        self._begin((cygrpc.ReceiveMessageOperation(_NO_FLAGS),), self._receive)

    def refuse(self, code: grpc.StatusCode, details: str) -> None:
        """End the call without reading its message."""
        self._send(code, details)

    def run(self) -> None:
        """Call the handler and send its answer or error. An exception of the handler ends the call with UNKNOWN."""
        message, self._message = self._message, None
        try:
            answer = self._answer(message)
        except AbortedError:
            self._send(self._code, self._details)
        except Exception as error:  # noqa: BLE001 - as grpcio does: the handler's fault is reported to the client
            _LOG.exception("a handler of %s failed", self.method)
            self._send(grpc.StatusCode.UNKNOWN, f"Exception calling application: {error}")
        else:
            if not isinstance(answer, Reply):
                self._send(grpc.StatusCode.OK, "", answer)

    def later(self) -> Reply:
        """Return the Reply that a handler returns when its answer is not ready yet."""
        self.promised(1)
        return Reply(self)

    def reply(self, code: grpc.StatusCode, details: str, answer: bytes | None = None) -> None:
        """Send the answer that was promised."""
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
        status = cygrpc.SendStatusFromServerOperation(None, _NUMBERS[code], details.encode(), _NO_FLAGS)
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
        """Handle core's event that the client has its answer or has given up."""
        self._cancelled = event.batch_operations[0].cancelled()
        self._over(event)

    def _receive(self, event: Any) -> DirectCall:
        """Handle core's event that the message has arrived, or (None) that there is none."""
        self._clients.forget(self)
        self._message = event.batch_operations[0].message()
        self._over(event)
        return self

    def _over(self, _event: Any) -> None:
        """Handle core's event that an operation is over. Calls the callbacks after the last one."""
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
        """Set the status with which the call ends, and raise AbortedError."""
        self._code, self._details = code, details
        raise AbortedError

    def is_active(self) -> bool:
        """Return False once the client has cancelled or disconnected, its deadline has passed, or the call has its status."""
        return not self._cancelled and not self._statused

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call `callback` on any thread when the call ends. Returns False, and never calls it, if the call has ended."""
        with self._lock:
            if self._callbacks is None:
                return False
            self._callbacks.append(callback)
            return True

    def cut_off(self, fault: Fault, text: str) -> None:
        """End the call of a client that has been slow for too long."""
        self._call.cancel(int(cut_off_status(fault)), text.encode())

    def peer(self) -> str:
        """Return the client's address as gRPC writes it, for example `ipv4:127.0.0.1:50000`."""
        return self.client

    def invocation_metadata(self) -> Any:
        """Return the client's headers as grpcio has them: (key, value) pairs, or None."""
        return self._metadata

    def metadata(self) -> Metadata:
        """Return the headers that the client sent."""
        return self._metadata or ()

    @property
    def traceparent(self) -> str:
        """The `traceparent` header, a W3C trace context; "" = none."""
        return traceparent_of(self.metadata())

    def set_compression(self, compression: grpc.Compression) -> None:
        """Compress the answer in this way, if the client accepts it."""
        self._sent_metadata = ((cygrpc.GRPC_COMPRESSION_REQUEST_ALGORITHM_MD_KEY, _ALGORITHMS[compression]),)

    def time_remaining(self) -> float | None:
        """Return the seconds until the client's deadline, None if it set none."""
        return None if self._deadline is None else max(0.0, self._deadline - time.time())
