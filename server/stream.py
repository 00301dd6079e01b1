# SPDX-License-Identifier: Apache-2.0
"""ModelStreamInfer: requests in, answers out, on one stream; an error ends its request and not the stream.

    client --> reader thread --> models (they answer on threads of their own) --> queue --> handler's thread --> client

Answers of ordinary models leave in the order of their requests, as they do from Triton; those of decoupled models when they
come. A request's bytes are held (see Admission) until its last answer has been handed to gRPC, which waits for the client.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from tritonclient.grpc.service_pb2 import ModelInferResponse

from hypersonic.server.answer import Answer
from hypersonic.server.contents import to_infer_request
from hypersonic.server.errors import BudgetError, ServerError
from hypersonic.server.grpc_call import Context, GrpcCall, Held, abort, printable
from hypersonic.server.model import Model
from hypersonic.server.parameters import EMPTY_FINAL_RESPONSE
from hypersonic.server.pending import FINAL_RESPONSE
from hypersonic.server.request import CheckedRequest
from hypersonic.server.service import InferenceService
from hypersonic.server.servicer import Servicer
from hypersonic.server.wire import split, stream_error

#: requests of one stream that are not answered yet; the next one is read when one of them is
_MOST_REQUESTS = 1024
#: answers of one stream that its client has not read
_MOST_UNREAD_BYTES = 256 * 2**20
#: the client's metadata by which errors end the stream with a gRPC status
_GRPC_ERRORS = "triton_grpc_error"


class Ticket:
    """One request of a stream: where its answers go (Sink), and the call it came by (Call)."""

    def __init__(self, stream: Stream, held: Held) -> None:
        self.client = stream.client
        self.traceparent = stream.traceparent
        self.ended = False
        self.frames: list[bytes] = []
        #: in the order of requests; a decoupled model's answers leave at once
        self.ordered = True
        self.empty_final: bytes | None = None
        self.error_head = b""
        self._stream = stream
        self._held = held
        self._final = False
        self._callbacks: list[Callable[[], None]] = []

    def is_active(self) -> bool:
        return self._stream.open

    def add_callback(self, callback: Callable[[], None]) -> bool:
        self._callbacks.append(callback)
        return self._stream.open

    def give_up(self) -> None:
        """The stream is over: whatever still works for this request may stop."""
        for callback in self._callbacks:
            callback()

    def respond(self, framed: bytes) -> None:
        self.frames.append(framed)
        self._stream.moved(self)

    def mark_final(self) -> None:
        """The last answer says itself that it is the last."""
        self._final = True

    def end(self, error: ServerError | None) -> None:
        if error is not None:
            self._stream.failed(error)
            self.frames.append(stream_error(printable(error), self.error_head))
        elif self.empty_final is not None and not self._final:
            self.frames.append(self.empty_final)
        self.ended = True
        self._stream.moved(self)

    def sent(self) -> None:
        """Its last answer is gRPC's."""
        self._held.leave()


class Stream:
    """One ModelStreamInfer call."""

    def __init__(self, servicer: Servicer, service: InferenceService, context: Context) -> None:
        call = GrpcCall(context)
        self.client, self.traceparent = call.client, call.traceparent
        self.open = True
        self._servicer = servicer
        self._service = service
        self._status = any(key == _GRPC_ERRORS and value == "true" for key, value in context.invocation_metadata() or ())
        self._lock = threading.Lock()
        self._tickets: set[Ticket] = set()
        self._order: deque[Ticket] = deque()
        self._out: queue.SimpleQueue[bytes | Ticket | ServerError | None] = queue.SimpleQueue()
        self._unread_bytes = 0
        self._overflow: ServerError | None = None
        self._room = threading.Semaphore(_MOST_REQUESTS)
        self._read_all = False

    def read(self, requests: Iterator[bytes]) -> None:
        """The reader thread: until the client has no more requests, or is gone."""
        try:
            for data in requests:
                self._room.acquire()
                if not self.open:
                    return
                self._take(data)
        except Exception:  # noqa: BLE001 - gRPC's iterator raises a bare Exception when the call is cancelled
            self.close()
        finally:
            with self._lock:
                self._read_all = True
                self._end_if_done()

    def _take(self, data: bytes) -> None:
        arrived_ns = time.monotonic_ns()
        request_id = ""
        ticket: Ticket | None = None
        try:
            held = Held(self._service.admission, self.client, len(data))
            ticket = self._add(Ticket(self, held))
            message, raw = split(data)
            request_id = message.id
            model = self._service.repository.model(message.model_name, message.model_version)
            request = to_infer_request(message, raw, self._servicer.regions)
            wants_final = EMPTY_FINAL_RESPONSE in message.parameters and message.parameters[EMPTY_FINAL_RESPONSE].bool_param
            self._describe(ticket, model, request_id, empty_final=wants_final)
            frames = partial(self._frame, ticket)
            self._service.stream(model, message.model_version, request, frames, ticket, arrived_ns, ticket)
        except ServerError as error:
            error.request_id = request_id
            self._refuse(ticket, stream_error(printable(error), ModelInferResponse(id=request_id).SerializeToString()))

    def _add(self, ticket: Ticket) -> Ticket:
        with self._lock:
            self._tickets.add(ticket)
            self._order.append(ticket)
        return ticket

    def _describe(self, ticket: Ticket, model: Model, request_id: str, *, empty_final: bool) -> None:
        """What the ticket has to know before the first answer may come."""
        head = ModelInferResponse(model_name=model.name, id=request_id)
        head.parameters[FINAL_RESPONSE].bool_param = True
        ticket.error_head = head.SerializeToString()
        if not model.config.decoupled:
            return
        if empty_final:
            ticket.empty_final = stream_error("", ticket.error_head)
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
        """A request that did not get as far as its model."""
        if ticket is None:  # not even let in
            self._room.release()
            self._put(framed)
            return
        ticket.frames.append(framed)
        ticket.ended = True
        self.moved(ticket)

    def failed(self, error: ServerError) -> None:
        """A model failed a request: the end of the stream, if the client asked for that."""
        if self._status:
            self._out.put(error)

    def moved(self, ticket: Ticket) -> None:
        """A ticket has an answer, or has ended: send what may be sent."""
        with self._lock:
            if not ticket.ordered:
                self._send(ticket)
            while self._order and self._order[0].ended:
                self._send(self._order.popleft())
            self._end_if_done()

    def _send(self, ticket: Ticket) -> None:
        for framed in ticket.frames:
            self._put(framed)
        ticket.frames = []
        if ticket.ended and ticket in self._tickets:
            self._tickets.remove(ticket)
            self._out.put(ticket)

    def _put(self, framed: bytes) -> None:
        self._unread_bytes += len(framed)
        if self._unread_bytes > max(_MOST_UNREAD_BYTES, len(framed)):
            self._overflow = BudgetError(
                f"the client has not read {self._unread_bytes} bytes of answers: read faster, or ask for less"
            )
        else:
            self._out.put(framed)

    def _end_if_done(self) -> None:
        if self._read_all and not self._tickets:
            self._out.put(None)

    def answers(self, context: Context) -> Iterator[bytes]:
        """The handler's thread: answers as they come, until all are sent."""
        while (item := self._out.get()) is not None:
            if isinstance(item, Ticket):
                item.sent()
                self._room.release()
            elif self._overflow is not None:
                abort(context, self._overflow)
            elif isinstance(item, ServerError):
                abort(context, item)
            else:
                self._unread_bytes -= len(item)
                yield item

    def close(self) -> None:
        """The call has ended: let go of what is under way."""
        with self._lock:
            self.open = False
            left = list(self._tickets)
            self._tickets.clear()
            self._order.clear()
        for ticket in left:
            ticket.give_up()
            ticket.sent()
        self._forget_unsent()
        self._room.release()
        self._out.put(None)

    def _forget_unsent(self) -> None:
        """Answers that nobody will take any more."""
        with suppress(queue.Empty):
            while True:
                item = self._out.get_nowait()
                if isinstance(item, Ticket):
                    item.sent()


def stream_infer(servicer: Servicer, service: InferenceService, requests: Iterator[bytes], context: Context) -> Iterator[bytes]:
    """The RPC: serialized ModelInferRequest in, serialized ModelStreamInferResponse out."""
    stream = Stream(servicer, service, context)
    if not context.add_callback(stream.close):
        return
    threading.Thread(target=stream.read, args=(requests,), name="grpc-stream-reader", daemon=True).start()
    yield from stream.answers(context)
