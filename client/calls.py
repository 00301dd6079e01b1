# SPDX-License-Identifier: Apache-2.0
"""The calls of one model, for Model and AsyncModel: their arguments, the requests that they make, and the joint result."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from hypersonic.client import batches
from hypersonic.client.attempts.context import Context
from hypersonic.client.attempts.request import CallTime, Request, Result, Sending
from hypersonic.client.attempts.version import VersionPin, Versions
from hypersonic.client.engine import Engine
from hypersonic.client.errors import AnswerError, InputError, VersionGoneError
from hypersonic.client.fit import check_id, fitted, rows_of
from hypersonic.client.joining import JoinedFuture
from hypersonic.client.messages.elements import to_buffer
from hypersonic.client.messages.request import (
    HeadKey,
    Parameter,
    kept,
    make_head,
    make_request,
    parameter_items,
    sequence_headers,
)
from hypersonic.client.messages.response import Answer, read_answer
from hypersonic.client.pool.member import Member, Wanted
from hypersonic.client.settings import Arrays, Fallback
from hypersonic.client.specs import ModelSpec
from hypersonic.client.tracing import trace_headers
from hypersonic.client.transport.call import Headers

#: how often a call is made again because the version of its first answers is gone
RESTARTS = 3
Made = TypeVar("Made")


class Owner(Protocol):
    """The client that a model belongs to."""

    @property
    def engine(self) -> Engine:
        """The client's connections in this process."""


@dataclass(frozen=True)
class Asked:
    """The arguments of a call, apart from the inputs.

    Attributes:
        outputs: the names of those to return; () is all.
        parameters: of the request.
        timeout: of the call, in seconds; None: that of the settings.
        request_id: the id of the request, which servers have in their logs and traces; "": none.
        version: of the model; "": the server's choice.
        versions: whether the parts of a call may be of different versions.
    """

    outputs: tuple[str, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    timeout: float | None = None
    request_id: str = ""
    version: str = ""
    versions: Versions = "one"

    @classmethod
    def of(
        cls,
        outputs: str | Iterable[str] = (),
        parameters: Mapping[str, Parameter] | None = None,
        timeout: float | None = None,
        request_id: str = "",
        version: str | int = "",
        versions: Versions = "one",
    ) -> Asked:
        """Return the arguments of a call as they are given. Raises ValueError for an unknown `versions`."""
        if versions not in get_args(Versions):
            raise ValueError(f"versions is {versions!r}, expected {' or '.join(map(repr, get_args(Versions)))}")
        names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
        return cls(names, parameters or {}, timeout, request_id, str(version), versions)

    def pin(self, version: str) -> VersionPin:
        """Return the pin of a new call.

        Args:
            version: of the model, if the call names none.
        """
        return VersionPin(self.version or version, mixed=self.versions == "mixed")


@dataclass(frozen=True)
class Call:
    """A call and the description of the model that its requests are made from."""

    spec: ModelSpec
    asked: Asked
    pin: VersionPin
    time: CallTime
    headers: Headers


class Prepared:
    """Makes the calls of one model."""

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
        return self.described()

    def described(self, call_time: CallTime | None = None) -> ModelSpec:
        """Return the model as a server describes it, in the time of a call. Raises AllServersFailedError, UnknownModelError."""
        spec = self.engine.spec(self.wanted, call_time)
        if isinstance(spec, Fallback):
            raise AnswerError(f"no server describes model {self.wanted[0]!r}; its requests go to the fallback")
        return spec

    def of_version(self, version: str | int) -> Prepared:
        """Return the calls of a version of this model; "" is the version of this object."""
        return Prepared(self.client, (self.wanted[0], str(version))) if str(version) not in {"", self.wanted[1]} else self

    def call(self, inputs: Any, asked: Asked, call_time: CallTime | None = None) -> Result:
        """Make a call and wait for its result.

        Args:
            call_time: None: it begins now.
        """
        call_time = call_time or self.engine.call_time(asked.timeout)
        requests = self.requests(inputs, asked, asked.pin(self.wanted[1]), call_time)
        if len(requests) == 1:
            return self.engine.infer(requests[0])
        return self._joined(requests, inputs, asked, None, call_time, block=True).result()

    def submit(
        self,
        inputs: Any,
        asked: Asked,
        pin: VersionPin | None = None,
        call_time: CallTime | None = None,
        *,
        block: bool = True,
    ) -> Future[Result]:
        """Start a call and return its future.

        Args:
            pin: that this call shares with others; None: one of its own. If the version of its first answers is gone, the whole
                call is made again.
            call_time: None: it begins now.
            block: False raises QueueFullError instead of waiting for room.
        """
        call_time = call_time or self.engine.call_time(asked.timeout)
        requests = self.requests(inputs, asked, pin or asked.pin(self.wanted[1]), call_time)
        if len(requests) == 1:
            return self.engine.submit(requests[0], block=block)
        return self._joined(requests, inputs, asked, pin, call_time, block=block)

    def requests(self, inputs: Any, asked: Asked, pin: VersionPin, call_time: CallTime) -> list[Request]:
        """Return the requests for the inputs: none for zero rows, several above max_batch_size. Raises InputError."""
        headers = trace_headers() + sequence_headers(self.wanted[0], asked.parameters)
        spec = self.engine.spec((self.wanted[0], asked.version or self.wanted[1]), call_time)
        if isinstance(spec, Fallback):
            return [self._undescribed(inputs, call_time, pin, spec)]
        if spec.decoupled or spec.stateful:  # a failed request of such a model must not be tried again
            use = "decoupled; use stream()" if spec.decoupled else "for sequences; use sequence()"
            raise InputError(f"model {spec.name!r} is {use}, which tries nothing again")
        if unknown := set(asked.outputs) - {tensor.name for tensor in spec.outputs}:
            names = ", ".join(tensor.name for tensor in spec.outputs)
            raise InputError(f"model {spec.name!r} has no output {min(unknown)!r}, only {names}")
        arrays = batches.as_inputs(spec, inputs)
        parts = list(batches.parts_of(spec, arrays, self.engine.settings.limits))
        call = Call(spec, asked, pin, call_time, headers)
        return [self._request(call, part, (number, len(parts))) for number, part in enumerate(parts, 1)]

    def message(
        self, inputs: Any, parameters: Mapping[str, Parameter], request_id: str, call_time: CallTime | None = None
    ) -> tuple[bytes, int]:
        """Return one serialized request, for a stream, and the bytes of its inputs. Raises InputError if several are needed.

        Args:
            call_time: of the description, if it has to be requested.
        """
        spec = self.described(call_time)
        parts = list(batches.parts_of(spec, batches.as_inputs(spec, inputs), self.engine.settings.limits))
        if len(parts) != 1:
            most = f"1 to {spec.max_batch_size} rows" if spec.max_batch_size else "one request"
            raise InputError(f"the inputs for model {spec.name!r} make {len(parts)} requests, expected {most} in a stream")
        key, buffers, size = self._buffers(spec, parts[0], Asked(parameters=parameters, request_id=request_id))
        return make_request(self._head(replace(key, version=self.wanted[1])), buffers), size

    def result(self, asked: Asked, results: list[Result]) -> Result:
        """Return the result of the requests that a call was split into."""
        if len(results) == 1:
            return results[0]
        if not results:
            chosen = self.of_version(asked.version)
            return Result(batches.no_rows(chosen.spec, asked.outputs), *chosen.wanted, "", 0, 0)
        outputs = batches.join([result.outputs for result in results])
        return replace(
            results[0],
            outputs=outputs,
            version=", ".join(dict.fromkeys(result.version for result in results if result.version)),
            server=", ".join(dict.fromkeys(result.server for result in results)),
            attempts=max(result.attempts for result in results),
            latency_ns=max(result.latency_ns for result in results),
        )

    def _joined(
        self, requests: list[Request], inputs: Any, asked: Asked, pin: VersionPin | None, call_time: CallTime, *, block: bool
    ) -> JoinedFuture:
        def make() -> list[Request]:
            return self.requests(inputs, asked, asked.pin(self.wanted[1]), call_time)

        joined = JoinedFuture(len(requests), partial(self.result, asked), None if pin else _again(self.engine, make))
        start_parts(self.engine, joined, requests, block=block)
        return joined

    def _request(self, call: Call, part: Arrays, number: tuple[int, int]) -> Request:
        """Return the request for one part. Its message is made when the limits have room for it."""
        spec, asked = call.spec, call.asked
        key, buffers, size = self._buffers(spec, part, asked)
        rows = rows_of(spec, part)

        made = ("", b"")  # the last version that was asked for, and its message

        def message(version: str) -> bytes:
            nonlocal made
            if not made[1] or made[0] != version:
                made = version, make_request(self._head(replace(key, version=version) if version else key), buffers)
            return made[1]

        def check(answer: Answer, version: str) -> Answer:
            if version and answer.version not in {"", version}:
                raise AnswerError(f"it is of version {answer.version}, expected {version}")
            check_id(answer, asked.request_id)
            return fitted(spec, asked.outputs, rows, answer)

        def plain(_member: Member, version: str) -> Sending:
            return Sending(message(version), lambda answer: check(read_answer(answer), version))

        sharing = self.engine.sharing
        sending = plain if sharing is None else sharing.sendings(spec, key, buffers, message, check)
        return Request(self.wanted[0], call.pin, size, part, sending, call.time, number, call.headers, asked.outputs, spec)

    def _buffers(self, spec: ModelSpec, part: Arrays, asked: Asked) -> tuple[HeadKey, list[bytes | NDArray[Any]], int]:
        """Return the head's key, the inputs' buffers and their bytes."""
        tensors = [tensor for tensor in spec.inputs if tensor.name in part]
        buffers = [to_buffer(tensor.name, tensor.datatype, part[tensor.name]) for tensor in tensors]
        shapes = tuple((tensor.name, tensor.datatype, part[tensor.name].shape) for tensor in tensors)
        size = sum(len(buffer) if isinstance(buffer, bytes) else buffer.nbytes for buffer in buffers)
        parameters = parameter_items(asked.parameters)
        return HeadKey(self.wanted[0], "", shapes, asked.outputs, parameters, asked.request_id), buffers, size

    def _undescribed(self, inputs: Any, call_time: CallTime, pin: VersionPin, fallback: Fallback) -> Request:
        """Return a request for the fallback, while no server describes the model. Names and shapes are the caller's."""
        if not isinstance(inputs, Mapping):
            raise InputError(
                f"no server describes model {self.wanted[0]!r}, so the name of its input is not known; "
                "give a dict of arrays by name, which the fallback takes as it is"
            )
        arrays = {name: np.asarray(array) for name, array in inputs.items()}
        size = sum(array.nbytes for array in arrays.values())
        return Request(self.wanted[0], pin, size, arrays, lambda _member, _version: Sending(b""), call_time, fallback=fallback)


def of_one_version(call: Callable[[], Made]) -> Made:
    """Return what `call` returns; it is made again, at most RESTARTS times, if the version of its first answers is gone."""
    for _ in range(RESTARTS):
        with suppress(VersionGoneError):
            return call()
    return call()


async def of_one_version_async(call: Callable[[], Awaitable[Made]]) -> Made:
    """Return what `call` returns, as of_one_version() does."""
    for _ in range(RESTARTS):
        with suppress(VersionGoneError):
            return await call()
    return await call()


def start_parts(engine: Engine, joined: JoinedFuture, requests: list[Request], *, block: bool = True) -> None:
    """Start the requests that a call was split into."""
    turn = joined.turn
    for place, request in enumerate(requests):
        if joined.done() or joined.turn != turn:
            break
        try:
            joined.add(place, engine.submit(request, block=block), turn)
        except BaseException as error:
            joined.fail(error)
            raise


def _again(engine: Engine, make: Callable[[], list[Request]]) -> Callable[[JoinedFuture, BaseException], bool]:
    """Return the function that makes a call again after the failure of a part, on a thread of its own; it may be called again.

    It returns False if the failure is the call's: any but VersionGoneError, and that one after RESTARTS.
    """
    left = RESTARTS

    def restart(joined: JoinedFuture, error: BaseException) -> bool:
        nonlocal left
        if not isinstance(error, VersionGoneError) or not left:
            return False
        left -= 1

        def run() -> None:
            try:
                requests = make()
                joined.restart(len(requests))
                start_parts(engine, joined, requests)
            except BaseException as failure:  # noqa: BLE001 - the future raises it, whatever it is
                joined.fail(failure)

        threading.Thread(target=run, name="hypersonic-client-again", daemon=True).start()
        return True

    return restart
