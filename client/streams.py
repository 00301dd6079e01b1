# SPDX-License-Identifier: Apache-2.0
"""Streams (ModelStreamInfer): every answer of a decoupled model to one request, and sequences of requests that share state.

Nothing here is tried again, and no fallback is used: the server may have kept state, or have sent answers that are in use.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

from hypersonic.client.attempts.context import Context
from hypersonic.client.attempts.plan import blames
from hypersonic.client.attempts.request import CallTime, Result
from hypersonic.client.attempts.version import VersionPin
from hypersonic.client.codes import Code
from hypersonic.client.errors import (
    AnswerError,
    CallError,
    ClosedError,
    InputError,
    StreamError,
    UnavailableError,
    UnknownModelError,
    WrongAnswerError,
)
from hypersonic.client.fit import check_id, fitted, fitted_in_stream
from hypersonic.client.messages.request import Parameter, sequence_headers
from hypersonic.client.messages.response import Answer, fields, read_answer
from hypersonic.client.pool.member import Member, Wanted
from hypersonic.client.specs import ModelSpec
from hypersonic.client.tracing import trace_headers
from hypersonic.client.transport.call import Headers, Stream

_WANT_FINAL: dict[str, Parameter] = {"triton_enable_empty_final_response": True}
_FINAL = "triton_final_response"


class Prepares(Protocol):
    """Makes messages for one model."""

    wanted: Wanted

    @property
    def context(self) -> Context:
        """The servers, the timer and the settings of the client."""

    @property
    def spec(self) -> ModelSpec:
        """The model as a server describes it."""

    def message(
        self, inputs: Any, parameters: Mapping[str, Parameter], request_id: str, call_time: CallTime | None = None
    ) -> tuple[bytes, int]:
        """Return one serialized request and the bytes of its inputs. Raises InputError."""


class _Call:
    """A call of ModelStreamInfer to one server, whose requests the pool counts."""

    def __init__(self, prepared: Prepares, timeout_s: float | None, headers: Headers = ()) -> None:
        """Start the call on the server that the pool chooses. Raises UnavailableError, UnknownModelError, ClosedError."""
        self._context = prepared.context
        self._pool, self._wanted = self._context.pool, prepared.wanted
        self.member = self._choose()
        try:
            self.stream: Stream = self.member.transport.stream(timeout_s, self.member.headers() + trace_headers() + headers)
        except CallError as error:
            raise ClosedError("the client is closed") from error
        self._answers: Iterator[bytes] = iter(self.stream)
        self._lock = threading.Lock()
        self._begun: tuple[int, int] | None = None

    def send(self, message: bytes, size: int) -> None:
        """Send a request whose inputs have `size` bytes."""
        self._pool.begin(self.member, size, retry=False)
        self._begun = size, time.perf_counter_ns()
        self.stream.send(message)

    def receive(self, request_id: str, check: Callable[[Answer], Answer]) -> Answer:
        """Wait for the next answer. Raises StreamError, AnswerError.

        Args:
            request_id: of the request that it answers.
            check: raises AnswerError for an answer that does not fit the model.
        """
        try:
            message = next(self._answers, None)
        except CallError as error:
            raise self._failed(error) from None
        if message is None:
            raise self._failed(CallError(Code.UNAVAILABLE, "the server ended the stream before the last answer"))
        error_text, response = split_answer(message)
        if error_text:  # without a code; the header triton_grpc_error would give it one, but tritonserver 2.51 crashes on it
            raise self._failed(CallError(Code.UNKNOWN, error_text))
        try:
            answer = check(read_answer(response))
            check_id(answer, request_id)
        except AnswerError as error:
            wrong = WrongAnswerError(str(error))
            self._failed(wrong)
            self._context.descriptions.refute(self.member, self._wanted[0], wrong.text)
            raise AnswerError(f"{self.member.name}: {wrong.text}") from error
        return answer

    def succeed(self) -> int:
        """Count the request as answered. Returns its latency in ns."""
        begun = self._take()
        latency_ns = time.perf_counter_ns() - begun[1] if begun else 0
        if begun:
            self._pool.succeed(self.member, begun[0], latency_ns, self._wanted[0])
        return latency_ns

    def latency_ns(self) -> int:
        """Return the time since the request was sent, in ns."""
        begun = self._begun
        return time.perf_counter_ns() - begun[1] if begun else 0

    def close(self) -> None:
        """Cancel the call, if it has not ended. Any thread may do so."""
        begun = self._take()  # before the cancellation, which would count as the server's failure
        if begun:
            self._pool.drop(self.member, begun[0])
        self.stream.cancel()

    def _failed(self, error: CallError) -> StreamError:
        begun = self._take()
        if begun:
            self._pool.fail(self.member, begun[0], error, self._wanted, blame=blames(error))
        return StreamError(self.member.name, error.code, error.text)

    def _take(self) -> tuple[int, int] | None:
        """Return the request that is counted as in flight, once."""
        with self._lock:
            begun, self._begun = self._begun, None
        return begun

    def _choose(self) -> Member:
        member = self._pool.pick(self._wanted)
        if member is None:
            known, why = self._pool.has_it(self._wanted), self._pool.why_not(self._wanted)
            if known:
                raise UnavailableError("no server", Code.UNAVAILABLE, why)
            raise UnknownModelError("no server", Code.NOT_FOUND, why)
        return member


class Answers(Iterator[Result]):
    """The answers to one request, in their order; `index` counts them. Made by Model.stream().

    The call starts with the first next(). close() cancels it, and so does dropping the last reference to the iterator. One
    thread iterates; any thread may close.
    """

    def __init__(self, prepared: Prepares, inputs: Any, parameters: Mapping[str, Parameter], timeout_s: float | None) -> None:
        self._prepared, self._timeout_s = prepared, timeout_s
        self._id = os.urandom(8).hex()
        self._pin = VersionPin(prepared.wanted[1])
        described = None if timeout_s is None else CallTime(timeout_s, timeout_s, time.monotonic() + timeout_s)
        self._message, self._size = prepared.message(inputs, {**parameters, **_WANT_FINAL}, self._id, described)
        self._call: _Call | None = None
        self._index = 0
        self._lock = threading.Lock()
        self._over = False

    def __next__(self) -> Result:
        call = self._started()
        if call is None:
            raise StopIteration
        try:
            answer = call.receive(self._id, self._check)
        except BaseException:
            over = self._over
            self.close()
            if over:  # closed by another thread
                raise StopIteration from None
            raise
        latency_ns = call.latency_ns()
        if answer.parameters.get(_FINAL) is True:
            call.succeed()
            self.close()
            if not answer.outputs:
                raise StopIteration
        result = Result(answer.outputs, self._prepared.wanted[0], answer.version, call.member.name, 1, latency_ns, self._index)
        self._index += 1
        return result

    def _check(self, answer: Answer) -> Answer:
        """Raise AnswerError for an answer that does not fit the model, and for one of another version than asked or before."""
        if not self._pin.accept(answer.version):
            raise AnswerError(f"it is of version {answer.version}, expected {self._pin.version}")
        return fitted_in_stream(self._prepared.spec, answer)

    def close(self) -> None:
        """Cancel the call, if it has not ended. The iteration ends."""
        with self._lock:
            self._over = True
            call = self._call
        if call is not None:
            call.close()

    def _started(self) -> _Call | None:
        """Return the call, which the first next() starts; None once it is over."""
        with self._lock:
            if self._over:
                return None
            if self._call is not None:
                return self._call
            call = self._call = _Call(self._prepared, self._timeout_s)
        call.send(self._message, self._size)
        call.stream.half_close()
        self._message = b""
        return call

    def __del__(self) -> None:
        with suppress(AttributeError):  # the constructor has failed
            self.close()


class Sequence:
    """Requests that share state at the model, one after another, on one server. Made by Model.sequence().

    ::

        with model.sequence() as sequence:
            for rows in windows[:-1]:
                sequence.infer(rows)
            sequence.infer(windows[-1], last=True)

    The server frees the state with `last`; if no request is the last one, only after max_sequence_idle_microseconds. Threads
    take turns. After an error the sequence is over, because the model's state is not known: start another one.
    """

    def __init__(self, prepared: Prepares, sequence_id: int | str | None) -> None:
        self._prepared = prepared
        self.id: int | str = (int.from_bytes(os.urandom(8)) >> 1 or 1) if sequence_id is None else sequence_id
        if self.id in {0, ""}:
            raise InputError(f"the sequence's id is {self.id!r}, expected a number above 0 or a text; None: a random number")
        self._pin = VersionPin(prepared.wanted[1])
        self._lock = threading.Lock()
        self._call: _Call | None = None
        self._sent = 0
        self._why_over = ""
        self._watch_lock = threading.Lock()
        self._watched, self._due = False, math.inf

    def infer(self, inputs: Any, *, last: bool = False, parameters: Mapping[str, Parameter] | None = None) -> Any:
        """Return the outputs for the next inputs: an array for a model with one output, else a dict by name.

        Raises StreamError, which is never followed by another attempt; InputError, UnavailableError, UnknownModelError,
        ClosedError.

        Args:
            inputs: as of Model.infer(); a model with batches takes one row, of shape (1, ..).
            last: end the sequence.
        """
        outputs = dict(self.result(inputs, last=last, parameters=parameters).outputs)
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def result(self, inputs: Any, *, last: bool = False, parameters: Mapping[str, Parameter] | None = None) -> Result:
        """Return the outputs like infer(), with the server and the latency."""
        with self._lock:
            if self._why_over:
                raise ClosedError(f"sequence {self.id!r} is over: {self._why_over}; start another one")
            marks: dict[str, Parameter] = {"sequence_id": self.id}
            if self._call is None:
                marks["sequence_start"] = True
            if last:
                marks["sequence_end"] = True
            self._sent += 1
            message, size = self._prepared.message(inputs, {**(parameters or {}), **marks}, self._request_id)
            return self._send(message, size, last=last)

    def close(self) -> None:
        """End the call. Any thread may do so; a request in flight ends with StreamError."""
        self._end("it was closed")

    @property
    def _request_id(self) -> str:
        """The id of the request in flight, by which the answer to an earlier one is noticed."""
        return f"{self.id}/{self._sent}"

    def _send(self, message: bytes, size: int, *, last: bool) -> Result:
        call, spec = self._call, self._prepared.spec
        if call is None:
            if spec.decoupled:
                raise InputError(f"model {self._prepared.wanted[0]!r} is decoupled; its sequences are not supported")
            headers = sequence_headers(self._prepared.wanted[0], {"sequence_id": self.id})
            call = self._call = _Call(self._prepared, None, headers)
        try:
            self._watch()
            call.send(message, size)
            answer = call.receive(self._request_id, partial(fitted, spec, (), 1 if spec.max_batch_size else 0))
            self._check_version(call.member, answer.version)
        except BaseException as error:
            self._end(str(error) or type(error).__name__)
            raise
        self._due = math.inf
        latency_ns = call.succeed()
        if last:
            self._end("its last request was answered")
        return Result(answer.outputs, self._prepared.wanted[0], answer.version, call.member.name, 1, latency_ns)

    def _check_version(self, member: Member, version: str) -> None:
        """Raise StreamError if another version of the model answers than before."""
        if not self._pin.accept(version):
            text = f"version {version} has answered, and version {self._pin.version} has the state of the sequence"
            raise StreamError(member.name, Code.FAILED_PRECONDITION, text)

    def _watch(self) -> None:
        """Cancel the call if the request is not answered in Timeout.total_s. One timer serves all requests of the sequence."""
        context = self._prepared.context
        with self._watch_lock:
            self._due = time.monotonic() + context.settings.timeout.total_s
            start, self._watched = not self._watched, True
        if start:
            context.timer.after(context.settings.timeout.total_s, self._check)

    def _check(self) -> None:
        """Called by the timer."""
        with self._watch_lock:
            left_s = self._due - time.monotonic()
            self._watched = 0 < left_s < math.inf and not self._why_over
        if self._watched:
            self._prepared.context.timer.after(left_s, self._check)
        elif left_s <= 0:
            self._end(f"a request had no answer after {self._prepared.context.settings.timeout.total_s:g} s")

    def _end(self, why: str) -> None:
        self._why_over = self._why_over or why
        call = self._call
        if call is not None:
            call.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def split_answer(message: bytes) -> tuple[str, bytes]:
    """Return error_message and the bytes of infer_response of a ModelStreamInferResponse. Raises AnswerError."""
    error, response = 0x0A, 0x12  # the tags of both fields
    found = {error: b"", response: b""}
    for number, field, payload in fields(memoryview(message), "ModelStreamInferResponse"):
        if field[0] not in found:
            raise AnswerError(f"the answer is not a ModelStreamInferResponse: field {number} is unknown or malformed")
        found[field[0]] = bytes(payload)
    return found[error].decode(errors="replace"), found[response]
