# SPDX-License-Identifier: Apache-2.0
"""ModelStreamInfer: many requests and their answers on one stream; an error ends its request but not the stream.

::

    client --> requests --> thread --> models (they answer on threads of their own) --> answers --> thread --> client

Both threads exist only while there is something to do (pump.py): an idle stream holds none.

As in Triton, the answers of ordinary models are sent in the order of their requests, and those of decoupled models as soon as
they are ready. A request's bytes count against the budget (see Admission) until its last answer has been handed to gRPC, which
waits for the client. The bytes of answers count too. A client that reads more slowly than its models answer loses the stream
when too many bytes wait for it, and one that reads nothing loses it after a time limit. Models never wait for a client, because
other clients' requests are queued behind this client's.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from tritonclient.grpc.service_pb2 import ModelInferResponse

from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.parameters import EMPTY_FINAL_RESPONSE
from hypersonic.server.core.inference.pending import FINAL_RESPONSE
from hypersonic.server.core.inference.request import CheckedRequest
from hypersonic.server.errors import BudgetError, ServerError
from hypersonic.server.limits.admission import Held
from hypersonic.server.limits.slow_clients import Fault
from hypersonic.server.observe.log import log_failure
from hypersonic.server.statistics.refusals import Protocol
from hypersonic.server.wire.grpc.failures import cut_off_status, details_of, ending
from hypersonic.server.wire.grpc.messages import split, stream_error
from hypersonic.server.wire.grpc.pump import Pump
from hypersonic.server.wire.grpc.servicer import Servicer
from hypersonic.server.wire.grpc.transport import StreamCall
from hypersonic.server.wire.service.inference import ArrivedRequest, InferenceService
from hypersonic.server.wire.status_codes import GrpcStatus, grpc_status

_LOG = logging.getLogger(__name__)
#: the most unanswered requests of one stream; the next request is read when one of them has been answered
_MOST_REQUESTS = 1024
#: the most bytes of answers that may wait for the client of one stream
_MOST_UNREAD_BYTES = 256 * 2**20
#: memory of an answer in addition to its serialized bytes
_ANSWER_BYTES = 256
#: the request header with which a client asks that an error end the stream with a gRPC status; Triton's name
_GRPC_ERRORS = "triton_grpc_error"


class Ticket:
    """One request of a stream. It is the Sink that takes the request's answers, and the Call that brought the request."""

    def __init__(self, stream: Stream, held: Held) -> None:
        """Create a Ticket.

        Args:
            held: the request's bytes, released when its last answer has been sent or the stream has ended.
        """
        self.client = stream.client
        self.traceparent = stream.traceparent
        self.ended = False
        self.frames: list[bytes] = []
        #: True if the answers are sent in the order of requests; those of a decoupled model are sent at once
        self.ordered = True
        #: True if the client asked for an empty final answer of a decoupled model
        self.empty_final = False
        #: the model's name and the request's id
        self.about = ("", "")
        self._stream = stream
        self._held = held
        self._final = self._failed = False
        self._callbacks: list[Callable[[], None]] = []

    def is_active(self) -> bool:
        """Return whether the stream is open."""
        return self._stream.open

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call `callback` when the stream ends before the request does. Returns False when it has already ended."""
        self._callbacks.append(callback)
        return self._stream.open

    def give_up(self) -> None:
        """Tell everything that still works for this request that the stream has ended."""
        for callback in self._callbacks:
            callback()

    def respond(self, framed: bytes) -> None:
        """Send a serialized answer, or drop it if there is no room: the stream then ends."""
        if self._stream.accept(framed):
            self.frames.append(framed)
            self._stream.moved(self)

    def respond_error(self, error: ServerError) -> None:
        """Send an error that may not be the last answer."""
        if not self._failed:  # one line in the log is enough for a request
            self._stream.failed(error, *self.about)
        self._failed = True
        self.respond(stream_error(details_of(error), self._head(final=False)))

    def mark_final(self) -> None:
        """Record that an answer carries the final flag, so that no empty final answer is needed."""
        self._final = True

    def end(self, error: ServerError | None) -> None:
        """End the request: with `error`, with the empty final answer if one is due, or with nothing more to send."""
        if error is not None:
            self._stream.failed(error, *self.about)
            self._last(stream_error(details_of(error), self._head(final=True)))
        elif self.empty_final and not self._final:
            self._last(stream_error("", self._head(final=True)))
        else:
            self._last()

    def _head(self, *, final: bool) -> bytes:
        """Return a serialized answer without tensors: the model's name, the request's id and the final flag."""
        head = ModelInferResponse(model_name=self.about[0], id=self.about[1])
        head.parameters[FINAL_RESPONSE].bool_param = final
        return bytes(head.SerializeToString())

    def refuse(self, framed: bytes) -> None:
        """End a request that did not reach its model with the serialized error."""
        self._last(framed)

    def _last(self, framed: bytes = b"") -> None:
        if framed and self._stream.accept(framed):
            self.frames.append(framed)
        self.ended = True
        self._stream.moved(self)

    def sent(self) -> None:
        """Release the request's bytes: its last answer has been handed to gRPC."""
        self._held.leave()


class Stream:
    """One ModelStreamInfer call."""

    def __init__(self, servicer: Servicer, service: InferenceService, call: StreamCall) -> None:
        """read() begins to take requests."""
        self._call = call
        self.client, self.traceparent = call.client, call.traceparent
        self.open = True
        self._servicer = servicer
        self._service = service
        self._status = any(key == _GRPC_ERRORS and value == "true" for key, value in call.metadata())
        self._lock = threading.Lock()
        self._tickets: set[Ticket] = set()
        self._order: deque[Ticket] = deque()
        self._out: Pump[bytes | Ticket | ServerError | None] = Pump("grpc-stream-writer", self._put_out, self._broke)
        self._in: Pump[bytes] = Pump("grpc-stream-reader", self._take_in, self._broke)
        call.listen(self._arrived)
        #: bytes of the answers that the client has not read, _ANSWER_BYTES for each included
        self._unread_bytes = 0
        self._unread_lock = threading.Lock()
        self._overrun = False
        self._room = threading.Semaphore(_MOST_REQUESTS)
        self._read_all = False

    def read(self) -> None:
        """Begin to take requests."""
        self._call.read()

    def _arrived(self, data: bytes | None) -> None:
        """Take a request, or None after the last one. Must not block, because this is gRPC's own thread."""
        if data is not None:
            self._in.put(data)
            return
        with self._lock:
            self._read_all = True
            self._end_if_done()

    def _take_in(self, data: bytes) -> bool:
        """Begin a request. Returns False if the stream has ended and no more are read."""
        self._room.acquire()
        if not self.open:
            return False
        self._take(data)
        self._call.read()
        return True

    def _broke(self) -> None:
        """End the call after a fault of the server."""
        self._call.cancel(GrpcStatus.INTERNAL, "the stream failed")

    def _take(self, data: bytes) -> None:
        arrived_ns = time.monotonic_ns()
        request_id = ""
        ticket: Ticket | None = None
        try:
            held = Held(self._service.admission, self.client, len(data))
            ticket = self._add(Ticket(self, held))
            message, raw = split(data, held.take, self._servicer.limits)
            request_id = message.id
            model = self._service.repository.model(message.model_name, message.model_version)
            request = self._servicer.request(message, raw, held, self._call)
            wants_final = EMPTY_FINAL_RESPONSE in message.parameters and message.parameters[EMPTY_FINAL_RESPONSE].bool_param
            self._describe(ticket, model, request_id, empty_final=wants_final)
            frames = partial(self._frame, ticket)
            arrived = ArrivedRequest(message.model_name, message.model_version, request, frames, ticket, arrived_ns)
            self._service.stream(arrived, model, ticket)
        except ServerError as error:
            error.request_id = request_id
            self._service.refusals.add(Protocol.GRPC, error)
            self._refuse(ticket, stream_error(details_of(error), ModelInferResponse(id=request_id).SerializeToString()))

    def _add(self, ticket: Ticket) -> Ticket:
        with self._lock:
            self._tickets.add(ticket)
            self._order.append(ticket)
        return ticket

    def _describe(self, ticket: Ticket, model: Model, request_id: str, *, empty_final: bool) -> None:
        """Give the ticket everything that it needs before the first answer can arrive."""
        ticket.about = (model.name, request_id)
        if not model.config.decoupled:
            return
        ticket.empty_final = empty_final
        with self._lock:
            ticket.ordered = False
            self._order.remove(ticket)

    def _frame(self, ticket: Ticket, model: Model) -> Callable[[CheckedRequest, Answer], bytes]:
        frame = self._servicer.frame(model)

        def streamed(request: CheckedRequest, answer: Answer) -> bytes:
            if not model.config.decoupled:
                answer = answer._replace(parameters={**answer.parameters, FINAL_RESPONSE: True})
            elif answer.parameters.get(FINAL_RESPONSE):
                ticket.mark_final()
            return frame.streamed(request, answer)

        return streamed

    def _refuse(self, ticket: Ticket | None, framed: bytes) -> None:
        """Answer a request that did not reach its model with a serialized error."""
        if ticket is None:  # it was not admitted
            self._room.release()
            if self.accept(framed):
                self._out.put(framed)
            return
        ticket.refuse(framed)

    def failed(self, error: ServerError, model: str, request_id: str) -> None:
        """Handle the error of a request: end the stream if the client asked for that, otherwise log an INTERNAL error."""
        error.model_name = error.model_name or model
        if self._status:
            self._out.put(error)
        elif grpc_status(error) is GrpcStatus.INTERNAL:
            log_failure(_LOG, error, self.client, request_id=request_id)

    def moved(self, ticket: Ticket) -> None:
        """Send every answer whose turn it is. Called when a ticket has a new answer or has ended."""
        with self._lock:
            if not ticket.ordered:
                self._send(ticket)
            while self._order and self._order[0].ended:
                self._send(self._order.popleft())
            self._end_if_done()

    def _send(self, ticket: Ticket) -> None:
        for framed in ticket.frames:
            self._out.put(framed)
        ticket.frames = []
        if ticket.ended and ticket in self._tickets:
            self._tickets.remove(ticket)
            self._out.put(ticket)

    def accept(self, framed: bytes) -> bool:
        """Return whether there is room for one more answer; if there is not, the stream ends.

        May be called on any thread and with any locks held.
        """
        size_bytes = len(framed) + _ANSWER_BYTES
        with self._unread_lock:
            if self._overrun or not self.open:
                return False
            try:
                self._check_unread(size_bytes)
            except BudgetError as error:
                self._overrun = True
                text = f"the client reads its answers too slowly: {error}"
                self._service.clients.cut_off(self, Fault.READS_TOO_LITTLE, text)
                return False
            self._unread_bytes += size_bytes
        return True

    def _check_unread(self, size_bytes: int) -> None:
        """Take the bytes of an answer from the budget. Raises BudgetError.

        The only unread answer is accepted whatever its size, because it is in memory already.
        """
        admission, unread = self._service.admission, self._unread_bytes
        if not unread:
            admission.grow(size_bytes, self.client)
        elif unread + size_bytes > _MOST_UNREAD_BYTES:
            raise BudgetError(f"{unread} bytes wait for it, expected at most {_MOST_UNREAD_BYTES}")
        else:
            admission.take(size_bytes, self.client)

    def _left(self, size_bytes: int) -> None:
        """Release the bytes of an answer that gRPC has sent."""
        with self._unread_lock:
            if self.open:
                self._unread_bytes -= size_bytes
                self._service.admission.shrink(size_bytes, self.client)

    def cut_off(self, fault: Fault, text: str) -> None:
        """End the call of a client that has been slow for too long. gRPC's callbacks then call close()."""
        self._call.cancel(cut_off_status(fault), text)

    def end(self, text: str) -> None:
        """End the stream with UNAVAILABLE, even if its client has more requests to send."""
        self._call.cancel(GrpcStatus.UNAVAILABLE, text)

    def _end_if_done(self) -> None:
        if self._read_all and not self._tickets:
            self._out.put_last(None)

    def _put_out(self, item: bytes | Ticket | ServerError | None) -> bool:
        """Send one item. Returns False if it ended the call."""
        if isinstance(item, Ticket):
            item.sent()
            self._room.release()
        elif isinstance(item, bytes):
            self._service.clients.reading(self, len(item))
            try:
                self._call.send(item)
            finally:
                self._service.clients.forget(self)
                self._left(len(item) + _ANSWER_BYTES)
        else:
            self._call.finish(*(ending(item, self.client) if item is not None else ()))
            return False
        return True

    def close(self) -> None:
        """Release everything that the call holds. Called once the call has ended."""
        self._service.streams.discard(self)
        with self._unread_lock:
            self.open = False
            self._service.admission.shrink(self._unread_bytes, self.client)
            self._unread_bytes = 0
        with self._lock:
            left = list(self._tickets)
            self._tickets.clear()
            self._order.clear()
        for ticket in left:
            ticket.give_up()
            ticket.sent()
        self._forget_unsent()
        self._room.release()
        self._call.stop_reading()

    def _forget_unsent(self) -> None:
        """Drop the answers that are still queued, and release the bytes of their requests."""
        for item in self._out.drain():
            if isinstance(item, Ticket):
                item.sent()


def open_stream(servicer: Servicer, service: InferenceService, call: StreamCall) -> None:
    """Serve one ModelStreamInfer call: serialized ModelInferRequests in, serialized ModelStreamInferResponses out.

    Returns at once.
    """
    stream = Stream(servicer, service, call)
    service.streams.add(stream)
    if not call.add_callback(stream.close):
        stream.close()
        return
    stream.read()
