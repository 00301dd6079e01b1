# SPDX-License-Identifier: Apache-2.0
"""A model on the servers of a client: arrays in, arrays out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Literal, overload

from numpy.typing import NDArray

from hypersonic.client import batches
from hypersonic.client.attempts.request import Result
from hypersonic.client.attempts.version import Versions
from hypersonic.client.batches import Ragged, Rectangular
from hypersonic.client.calls import Asked, Owner, Prepared, of_one_version
from hypersonic.client.errors import ClientError
from hypersonic.client.mapping import map_ordered, map_unordered
from hypersonic.client.messages.request import Parameter
from hypersonic.client.pool.member import Wanted
from hypersonic.client.specs import ModelSpec, TensorSpec
from hypersonic.client.streams import Answers, Sequence

#: an array if the model has one output, a dict of arrays if it has several
Outputs = NDArray[Any] | dict[str, NDArray[Any]]


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

    def infer(
        self,
        inputs: Any,
        *,
        outputs: str | Iterable[str] = (),
        parameters: Mapping[str, Parameter] | None = None,
        timeout: float | None = None,
        request_id: str = "",
        version: str | int = "",
        versions: Versions = "one",
    ) -> Any:
        """Return the outputs for the inputs: CMSSW's mode Sync.

        Raises InputError, ServerError, AllServersFailedError, DeadlineError, AnswerError, ClosedError. Returns an array for a
        model with one output, else a dict.

        Args:
            inputs: an array `(rows, *shape)` of the input's dtype, or a dict of them by name; or Rectangular or Ragged, which
                give a list of outputs.
            outputs: the name of the output to return, or the names of several; () is all.
            parameters: of the request, such as {"priority": 1}.
            timeout: of the call, in seconds; None: Settings.timeout.
            request_id: the request's id in the server's log and traces.
            version: of the model; "": that of this object.
            versions: "one": all rows come from one version of the model. "mixed": if the rows make several requests, each may
                be answered by another version.
        """
        asked = Asked.of(outputs, parameters, timeout, request_id, version, versions)
        if isinstance(inputs, Rectangular | Ragged):
            return self._infer_entries(inputs, asked)
        return simple(self._prepared.call(inputs, asked))

    def result(
        self,
        inputs: Any,
        *,
        outputs: str | Iterable[str] = (),
        parameters: Mapping[str, Parameter] | None = None,
        timeout: float | None = None,
        request_id: str = "",
        version: str | int = "",
        versions: Versions = "one",
    ) -> Result:
        """Return the outputs like infer(), with the version, the server, the number of attempts and the latency."""
        return self._prepared.call(inputs, Asked.of(outputs, parameters, timeout, request_id, version, versions))

    def submit(
        self,
        inputs: Any,
        *,
        outputs: str | Iterable[str] = (),
        parameters: Mapping[str, Parameter] | None = None,
        timeout: float | None = None,
        request_id: str = "",
        version: str | int = "",
        versions: Versions = "one",
        block: bool = True,
        copy: bool = True,
    ) -> Future[Result]:
        """Start a request and return its future: CMSSW's mode Async. Waits while the client's limits are reached.

        Callbacks of the future run on a thread of the client and must not wait for other requests. The other arguments are
        those of infer().

        Args:
            block: False raises QueueFullError instead of waiting.
            copy: the inputs, so that the caller may change them at once. False: not before the future has its result.
        """
        asked = Asked.of(outputs, parameters, timeout, request_id, version, versions)
        return self._prepared.submit(batches.snapshot(inputs) if copy else inputs, asked, block=block)

    @overload
    def map(
        self,
        events: Iterable[Any],
        *,
        ordered: bool = True,
        outputs: str | Iterable[str] = (),
        parameters: Mapping[str, Parameter] | None = None,
        timeout: float | None = None,
        version: str | int = "",
        versions: Versions = "mixed",
        return_exceptions: Literal[False] = False,
        copy: bool = True,
    ) -> Iterator[Result]: ...

    @overload
    def map(
        self,
        events: Iterable[Any],
        *,
        ordered: bool = True,
        outputs: str | Iterable[str] = (),
        parameters: Mapping[str, Parameter] | None = None,
        timeout: float | None = None,
        version: str | int = "",
        versions: Versions = "mixed",
        return_exceptions: bool,
        copy: bool = True,
    ) -> Iterator[Result | ClientError]: ...

    def map(
        self,
        events: Iterable[Any],
        *,
        ordered: bool = True,
        outputs: str | Iterable[str] = (),
        parameters: Mapping[str, Parameter] | None = None,
        timeout: float | None = None,
        version: str | int = "",
        versions: Versions = "mixed",
        return_exceptions: bool = False,
        copy: bool = True,
    ) -> Iterator[Result] | Iterator[Result | ClientError]:
        """Yield the result of each event, with as many in flight as the limits allow.

        The first failure ends the iteration and cancels the requests in flight. Its `index` is the event's position.

        Args:
            events: any iterable of what infer() takes; it is read as requests are answered.
            ordered: False yields results as they arrive; `index` is the event's position.
            outputs, parameters, version: as of infer().
            timeout: of each event, in seconds.
            versions: "mixed": each event is answered by one version of the model, and another event may be by another version.
                "one": all events by the version of the first answer; VersionGoneError if no server has it any more.
            return_exceptions: yield the ClientError of an event that fails, and go on.
            copy: each event when it is read, so that `events` may use an array again. False: it must not.
        """
        asked = Asked.of(outputs, parameters, timeout, "", version, versions)
        pin = asked.pin(self._prepared.wanted[1]) if versions == "one" else None
        asked = replace(asked, versions="one")  # of each event

        def submit(event: Any) -> Future[Result]:
            return self._prepared.submit(batches.snapshot(event) if copy else event, asked, pin)

        window = 2 * self._prepared.engine.settings.limits.in_flight
        mapped = map_ordered if ordered else map_unordered
        return mapped(submit, events, window, return_exceptions=return_exceptions)

    def stream(
        self,
        inputs: Any,
        *,
        parameters: Mapping[str, Parameter] | None = None,
        timeout_s: float | None = None,
        version: str | int = "",
    ) -> Answers:
        """Return an iterator of every answer of a decoupled model to one request, as Results.

        Raises InputError, and what `spec` raises. Nothing is tried again. Iterating raises StreamError, AnswerError,
        UnavailableError, ClosedError. Closing the iterator cancels the request. Streams do not count in Limits.in_flight.

        Args:
            inputs: as of infer(), at most max_batch_size rows.
            timeout_s: until the last answer; None: Timeout.total_s; math.inf: no limit.
            version: of the model; "": that of this object.
        """
        total_s = self._prepared.engine.settings.timeout.total_s if timeout_s is None else timeout_s
        prepared = self._prepared.of_version(version)
        return Answers(prepared, inputs, parameters or {}, None if total_s == math.inf else total_s)

    def sequence(self, sequence_id: int | str | None = None, *, version: str | int = "") -> Sequence:
        """Return a new sequence of requests that share state at the model. All are answered by one version of the model.

        Args:
            sequence_id: None is a random number of 63 bits; give one if the model's CORRID control is narrower.
            version: of the model; "": that of this object.
        """
        return Sequence(self._prepared.of_version(version), sequence_id)

    def _infer_entries(self, inputs: Rectangular | Ragged, asked: Asked) -> list[Outputs]:
        if isinstance(inputs, Ragged):
            return self._infer_ragged(inputs, asked)
        call_time = self._prepared.engine.call_time(asked.timeout)
        rows, counts = batches.together(self._prepared.of_version(asked.version).described(call_time), inputs.entries)
        if not counts:
            return []
        arrays = self._prepared.call(rows, asked, call_time).outputs
        return [only(entry) for entry in batches.apart(arrays, counts)]

    def _infer_ragged(self, inputs: Ragged, asked: Asked) -> list[Outputs]:
        window = 2 * self._prepared.engine.settings.limits.in_flight
        call_time = self._prepared.engine.call_time(asked.timeout)

        def call() -> list[Outputs]:
            submit = partial(self._prepared.submit, asked=asked, pin=asked.pin(self._prepared.wanted[1]), call_time=call_time)
            mapped = map_ordered(submit, inputs.entries, window)
            return [simple(result) for result in mapped if isinstance(result, Result)]

        return of_one_version(call)

    def __repr__(self) -> str:
        name, version = self._prepared.wanted
        return f"Model({name!r}{f', version={version!r}' if version else ''})"


def simple(result: Result) -> Outputs:
    """Return the array of the only output, or the arrays by name."""
    return only(dict(result.outputs))


def only(outputs: dict[str, NDArray[Any]]) -> Outputs:
    """Return the only array, or all of them by name."""
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs
