# SPDX-License-Identifier: Apache-2.0
"""A model on the servers of a client: arrays in, arrays out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hypersonic.client import batches
from hypersonic.client.attempts.context import Context
from hypersonic.client.attempts.request import Request, Result, Sending
from hypersonic.client.batches import Ragged, Rectangular
from hypersonic.client.engine import Engine
from hypersonic.client.errors import AnswerError, InputError
from hypersonic.client.joining import JoinedFuture
from hypersonic.client.mapping import map_ordered, map_unordered
from hypersonic.client.messages.elements import to_buffer
from hypersonic.client.messages.request import HeadKey, Parameter, kept, make_head, make_request, parameter_items
from hypersonic.client.messages.response import Answer, read_answer
from hypersonic.client.pool.member import Wanted
from hypersonic.client.settings import Arrays, Fallback
from hypersonic.client.specs import ModelSpec, TensorSpec
from hypersonic.client.streams import Answers, Sequence
from hypersonic.client.tracing import trace_headers
from hypersonic.client.transport.call import Headers

#: an array if the model has one output, a dict of arrays if it has several
Outputs = NDArray[Any] | dict[str, NDArray[Any]]


class Owner(Protocol):
    """The client that a model belongs to."""

    @property
    def engine(self) -> Engine:
        """The client's connections in this process."""


class Prepared:
    """Makes the requests of one model, for Model and AsyncModel."""

    def __init__(self, client: Owner, wanted: Wanted) -> None:
        self.client, self.wanted = client, wanted
        self._head = kept(make_head)

    @property
    def engine(self) -> Engine:
        """The client's connections in this process: new ones after a fork."""
        return self.client.engine

    def __reduce__(self) -> str | tuple[Any, ...]:
        return type(self), (self.client, self.wanted)

    @property
    def context(self) -> Context:
        """The servers, the timer and the settings of the client."""
        return self.engine.context

    @property
    def spec(self) -> ModelSpec:
        """The model as a server describes it. Raises AllServersFailedError, UnknownModelError."""
        spec = self.engine.spec(self.wanted)
        if isinstance(spec, Fallback):
            raise AnswerError(f"no server describes model {self.wanted[0]!r}; its requests go to the fallback")
        return spec

    def requests(self, inputs: Any, parameters: Mapping[str, Parameter], outputs: Iterable[str] = ()) -> list[Request]:
        """Return the requests for the inputs: none for zero rows, several above max_batch_size. Raises InputError."""
        deadline, headers = self.engine.deadline(), trace_headers()
        spec = self.engine.spec(self.wanted)
        if isinstance(spec, Fallback):
            return [self._undescribed(inputs, deadline, spec)]
        if spec.decoupled or spec.stateful:  # a failed request of such a model must not be tried again
            use = "decoupled; use stream()" if spec.decoupled else "for sequences; use sequence()"
            raise InputError(f"model {spec.name!r} is {use}, which tries nothing again")
        arrays = batches.as_inputs(spec, inputs)
        return [
            self._request(spec, part, parameters, tuple(outputs), deadline, headers)
            for part in batches.parts_of(spec, arrays, self.engine.settings.limits)
        ]

    def message(self, inputs: Any, parameters: Mapping[str, Parameter]) -> tuple[bytes, int]:
        """Return one serialized request, for a stream, and the bytes of its inputs. Raises InputError if several are needed."""
        spec = self.spec
        parts = list(batches.parts_of(spec, batches.as_inputs(spec, inputs), self.engine.settings.limits))
        if len(parts) != 1:
            most = f"1 to {spec.max_batch_size} rows" if spec.max_batch_size else "one request"
            raise InputError(f"the inputs for model {spec.name!r} make {len(parts)} requests, expected {most} in a stream")
        key, buffers, size = self._buffers(spec, parts[0], parameters)
        return make_request(self._head(key), buffers), size

    def result(self, results: list[Result]) -> Result:
        """Return the result of the requests that a call was split into."""
        if len(results) == 1:
            return results[0]
        if not results:
            return Result(batches.no_rows(self.spec), *self.wanted, "", 0, 0)
        servers = ", ".join(dict.fromkeys(result.server for result in results))
        outputs = batches.join([result.outputs for result in results])
        attempts = max(result.attempts for result in results)
        return replace(
            results[0], outputs=outputs, server=servers, attempts=attempts, latency_ns=max(r.latency_ns for r in results)
        )

    def _request(
        self,
        spec: ModelSpec,
        part: Arrays,
        parameters: Mapping[str, Parameter],
        outputs: tuple[str, ...],
        deadline: float,
        headers: Headers,
    ) -> Request:
        key, buffers, size = self._buffers(spec, part, parameters, outputs)
        sharing = self.engine.sharing
        if sharing is not None:
            plain = cache(lambda: make_request(self._head(key), buffers))
            share = sharing.sendings(spec, key, buffers, plain, lambda answer: _checked(spec.name, outputs, answer))
            return Request(self.wanted, size, part, share, deadline, headers, outputs, spec)
        sending = Sending(
            make_request(self._head(key), buffers), lambda message: _checked(spec.name, outputs, read_answer(message))
        )
        return Request(self.wanted, size, part, lambda _member: sending, deadline, headers, outputs, spec)

    def _buffers(
        self, spec: ModelSpec, part: Arrays, parameters: Mapping[str, Parameter], outputs: tuple[str, ...] = ()
    ) -> tuple[HeadKey, list[bytes | NDArray[Any]], int]:
        """Return the head's key, the inputs' buffers and their bytes."""
        tensors = [tensor for tensor in spec.inputs if tensor.name in part]
        buffers = [to_buffer(tensor.name, tensor.datatype, part[tensor.name]) for tensor in tensors]
        shapes = tuple((tensor.name, tensor.datatype, part[tensor.name].shape) for tensor in tensors)
        size = sum(len(buffer) if isinstance(buffer, bytes) else buffer.nbytes for buffer in buffers)
        return HeadKey(*self.wanted, shapes, outputs, parameter_items(parameters)), buffers, size

    def _undescribed(self, inputs: Any, deadline: float, fallback: Fallback) -> Request:
        """Return a request for the fallback, while no server describes the model. Names and shapes are the caller's."""
        if not isinstance(inputs, Mapping):
            raise InputError(
                f"no server describes model {self.wanted[0]!r}, so the name of its input is not known; "
                "give a dict of arrays by name, which the fallback takes as it is"
            )
        arrays = {name: np.asarray(array) for name, array in inputs.items()}
        size = sum(array.nbytes for array in arrays.values())
        return Request(self.wanted, size, arrays, lambda _member: Sending(b""), deadline, fallback=fallback)


class Model:
    """A model on the servers of a client. Made by Client.model(). It can be pickled, and used after a fork, like its client."""

    def __init__(self, client: Owner, wanted: Wanted) -> None:
        self._prepared = Prepared(client, wanted)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._prepared.wanted[0]

    @property
    def spec(self) -> ModelSpec:
        """The model as a server describes it: versions, inputs, outputs, max_batch_size."""
        return self._prepared.spec

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in its order."""
        return self.spec.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in its order."""
        return self.spec.outputs

    @property
    def max_batch_size(self) -> int:
        """The most rows of one request to a server; larger inputs are split. 0: the model does not take batches."""
        return self.spec.max_batch_size

    def infer(self, inputs: Any, *, outputs: Iterable[str] = (), parameters: Mapping[str, Parameter] | None = None) -> Any:
        """Return the outputs for the inputs: CMSSW's mode Sync.

        Raises InputError, ServerError, AllServersFailedError, DeadlineError, AnswerError, ClosedError. Returns an array for a
        model with one output, else a dict.

        Args:
            inputs: an array `(rows, *shape)` of the input's dtype, or a dict of them by name; or Rectangular or Ragged, which
                give a list of outputs.
            outputs: the names of those to return; () is all.
            parameters: of the request, such as {"priority": 1}.
        """
        if isinstance(inputs, Rectangular | Ragged):
            return self._infer_entries(inputs, tuple(outputs), parameters or {})
        return _simple(self.result(inputs, outputs=outputs, parameters=parameters))

    def result(self, inputs: Any, *, outputs: Iterable[str] = (), parameters: Mapping[str, Parameter] | None = None) -> Result:
        """Return the outputs like infer(), with the server, the number of attempts and the latency."""
        requests = self._prepared.requests(inputs, parameters or {}, outputs)
        if len(requests) == 1:
            return self._prepared.engine.infer(requests[0])
        return self.submit_all(requests).result()

    def submit(
        self,
        inputs: Any,
        *,
        outputs: Iterable[str] = (),
        parameters: Mapping[str, Parameter] | None = None,
        block: bool = True,
    ) -> Future[Result]:
        """Start a request and return its future: CMSSW's mode Async. Waits while the client's limits are reached.

        Callbacks of the future run on a thread of the client and must not wait for other requests.

        Args:
            block: False raises QueueFullError instead of waiting.
        """
        requests = self._prepared.requests(inputs, parameters or {}, outputs)
        if len(requests) == 1:
            return self._prepared.engine.submit(requests[0], block=block)
        return self.submit_all(requests, block=block)

    def submit_all(self, requests: list[Request], *, block: bool = True) -> Future[Result]:
        """Start the requests that a call was split into, and return one future."""
        joined = JoinedFuture(len(requests), self._prepared.result)
        for place, request in enumerate(requests):
            if joined.done():
                break
            try:
                joined.add(place, self._prepared.engine.submit(request, block=block))
            except BaseException:
                joined.cancel()
                raise
        return joined

    def map(
        self,
        events: Iterable[Any],
        *,
        ordered: bool = True,
        outputs: Iterable[str] = (),
        parameters: Mapping[str, Parameter] | None = None,
    ) -> Iterator[Result]:
        """Yield the result of each event, with as many in flight as the limits allow.

        The first failure ends the iteration and cancels the requests in flight.

        Args:
            events: any iterable of what infer() takes; it is read as requests are answered.
            ordered: False yields results as they arrive; `index` is the event's position.
        """

        names = tuple(outputs)

        def submit(event: Any) -> Future[Result]:
            return self.submit(event, outputs=names, parameters=parameters)

        window = 2 * self._prepared.engine.settings.limits.in_flight
        return map_ordered(submit, events, window) if ordered else map_unordered(submit, events, window)

    def stream(
        self, inputs: Any, *, parameters: Mapping[str, Parameter] | None = None, timeout_s: float | None = None
    ) -> Answers:
        """Return an iterator of every answer of a decoupled model to one request, as Results.

        Raises InputError, and what `spec` raises. Nothing is tried again. Iterating raises StreamError, AnswerError,
        UnavailableError, ClosedError. Closing the iterator cancels the request. Streams do not count in Limits.in_flight.

        Args:
            inputs: as of infer(), at most max_batch_size rows.
            timeout_s: until the last answer; None: Timeout.total_s; math.inf: no limit.
        """
        total_s = self._prepared.engine.settings.timeout.total_s if timeout_s is None else timeout_s
        return Answers(self._prepared, inputs, parameters or {}, None if total_s == math.inf else total_s)

    def sequence(self, sequence_id: int | str | None = None) -> Sequence:
        """Return a new sequence of requests that share state at the model.

        Args:
            sequence_id: None is a random number of 63 bits; give one if the model's CORRID control is narrower.
        """
        return Sequence(self._prepared, sequence_id)

    def _infer_entries(
        self, inputs: Rectangular | Ragged, outputs: tuple[str, ...], parameters: Mapping[str, Parameter]
    ) -> list[Outputs]:
        if isinstance(inputs, Ragged):
            return [_simple(result) for result in self.map(inputs.entries, outputs=outputs, parameters=parameters)]
        rows, counts = batches.together(self.spec, inputs.entries)
        if not counts:
            return []
        arrays = self.result(rows, outputs=outputs, parameters=parameters).outputs
        return [_only(entry) for entry in batches.apart(arrays, counts)]


def _simple(result: Result) -> Outputs:
    return _only(dict(result.outputs))


def _only(outputs: dict[str, NDArray[Any]]) -> Outputs:
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs


def _checked(model: str, outputs: tuple[str, ...], answer: Answer) -> Answer:
    """Return the answer if it has all outputs that were asked for, and at least one. Raises AnswerError."""
    for name in outputs or ("any",) * (not answer.outputs):
        if name not in answer.outputs:
            raise AnswerError(
                f"the answer of model {model!r} has no output {name!r}, only {', '.join(answer.outputs) or 'none'}"
            )
    return answer
