# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio: AsyncClient."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self, overload

from hypersonic.client import batches
from hypersonic.client.attempts.request import CallTime, Result
from hypersonic.client.attempts.version import VersionPin, Versions
from hypersonic.client.batches import Ragged, Rectangular
from hypersonic.client.calls import Asked, Prepared, of_one_version_async
from hypersonic.client.errors import ClientError, ClosedError
from hypersonic.client.mapping import with_index
from hypersonic.client.messages.request import Parameter
from hypersonic.client.model import Model, Outputs, only, simple
from hypersonic.client.pool.member import Wanted
from hypersonic.client.servers import Server, environment_servers
from hypersonic.client.settings import Health, Hedge, Limits, Policy, Retry, Settings, Timeout
from hypersonic.client.specs import ModelSpec, TensorSpec
from hypersonic.client.statistics import Statistics, collect
from hypersonic.client.streams import Sequence as BlockingSequence
from hypersonic.client.sync import Client
from hypersonic.client.transport.call import Connect
from hypersonic.client.transport.grpcio import GrpcioTransport


class AsyncClient:
    """Sends events to one or several servers, from an event loop. Its methods are those of Client.

    ::

        async with AsyncClient("localhost:8001") as client:
            energy = await client.model("facile").infer(rows)
    """

    def __init__(
        self,
        servers: str | Server | Iterable[str | Server] = "localhost:8001",
        settings: Settings | None = None,
        *,
        timeout: Timeout | float | None = None,
        limits: Limits | None = None,
        retry: Retry | Policy | Sequence[Policy] | None = None,
        health: Health | None = None,
        hedge: Hedge | None = None,
        connect: Connect = GrpcioTransport,
    ) -> None:
        """See Client. Raises AddressError."""
        self._client = Client(
            servers, settings, timeout=timeout, limits=limits, retry=retry, health=health, hedge=hedge, connect=connect
        )

    @classmethod
    def from_environment(cls, settings: Settings | None = None) -> Self:
        """Return a client of the servers that the environment names. Raises AddressError."""
        return cls(environment_servers(), settings)

    def model(self, name: str, version: str | int = "") -> AsyncModel:
        """Return a model.

        Args:
            version: "" is the server's choice.
        """
        return AsyncModel(self._client, (name, str(version)))

    async def models(self) -> dict[str, tuple[str, ...]]:
        """Return the models that are ready, with the addresses of the servers that list them. See Client.models()."""
        return await asyncio.to_thread(self._client.models)

    async def ready(self, model: str = "", *, timeout: float = 0.0) -> bool:
        """Return whether a server is ready, and has the model. See Client.ready()."""
        return await asyncio.to_thread(lambda: self._client.ready(model, timeout=timeout))

    async def statistics(self) -> Statistics:
        """Return what was sent to each server so far, and the servers' own times for it."""
        return await asyncio.to_thread(collect, self._client.engine)

    async def close(self) -> None:
        """End all requests and close the connections."""
        await asyncio.to_thread(self._client.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Async{self._client!r}"


class AsyncModel:
    """A model on the servers of an AsyncClient. Its methods have the arguments and the results of those of Model.

    What Model has as an attribute, such as `inputs`, is a coroutine here, because a server may have to be asked.
    """

    def __init__(self, client: Client, wanted: Wanted) -> None:
        self._prepared = Prepared(client, wanted)
        self._described: set[str] = set()

    @property
    def name(self) -> str:
        """The model's name."""
        return self._prepared.wanted[0]

    async def spec(self) -> ModelSpec:
        """Return the model as a server describes it."""
        return await asyncio.to_thread(lambda: self._prepared.spec)

    async def inputs(self) -> tuple[TensorSpec, ...]:
        """Return the model's inputs, in its order."""
        return (await self.spec()).inputs

    async def outputs(self) -> tuple[TensorSpec, ...]:
        """Return the model's outputs, in its order."""
        return (await self.spec()).outputs

    async def max_batch_size(self) -> int:
        """Return the most rows of one request to a server; larger inputs are split. 0: the model does not take batches."""
        return (await self.spec()).max_batch_size

    async def infer(
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
        """Return the outputs for the inputs, as Model.infer() does: an array for a model with one output, else a dict.

        Waits while the client's limits are reached. A cancelled task cancels its calls.
        """
        asked = Asked.of(outputs, parameters, timeout, request_id, version, versions)
        if isinstance(inputs, Ragged):
            return await self._infer_ragged(inputs, asked)
        if isinstance(inputs, Rectangular):
            call_time = self._prepared.engine.call_time(asked.timeout)
            spec = await asyncio.to_thread(self._prepared.of_version(asked.version).described, call_time)
            rows, counts = batches.together(spec, inputs.entries)
            arrays = (await self._result(rows, asked, None, call_time)).outputs if counts else {}
            return [only(entry) for entry in batches.apart(arrays, counts)] if counts else []
        return simple(await self._result(inputs, asked))

    async def result(
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
        return await self._result(inputs, Asked.of(outputs, parameters, timeout, request_id, version, versions))

    async def submit(
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
    ) -> asyncio.Future[Result]:
        """Start a request and return its future, as Model.submit() does: `result = await (await model.submit(rows))`.

        Args:
            block: False raises QueueFullError instead of waiting for room.
            copy: the inputs, so that the caller may change them at once. False: not before the future has its result.
        """
        asked = Asked.of(outputs, parameters, timeout, request_id, version, versions)
        inputs = batches.snapshot(inputs) if copy else inputs
        call_time = self._prepared.engine.call_time(asked.timeout)
        started = await self._start(inputs, asked, None, call_time, block=block)
        return asyncio.ensure_future(self._finish(inputs, asked, None, call_time, started))

    @overload
    def map(
        self,
        events: Iterable[Any] | AsyncIterable[Any],
        *,
        ordered: bool = True,
        outputs: str | Iterable[str] = (),
        parameters: Mapping[str, Parameter] | None = None,
        timeout: float | None = None,
        version: str | int = "",
        versions: Versions = "mixed",
        return_exceptions: Literal[False] = False,
        copy: bool = True,
    ) -> AsyncIterator[Result]: ...

    @overload
    def map(
        self,
        events: Iterable[Any] | AsyncIterable[Any],
        *,
        ordered: bool = True,
        outputs: str | Iterable[str] = (),
        parameters: Mapping[str, Parameter] | None = None,
        timeout: float | None = None,
        version: str | int = "",
        versions: Versions = "mixed",
        return_exceptions: bool,
        copy: bool = True,
    ) -> AsyncIterator[Result | ClientError]: ...

    def map(
        self,
        events: Iterable[Any] | AsyncIterable[Any],
        *,
        ordered: bool = True,
        outputs: str | Iterable[str] = (),
        parameters: Mapping[str, Parameter] | None = None,
        timeout: float | None = None,
        version: str | int = "",
        versions: Versions = "mixed",
        return_exceptions: bool = False,
        copy: bool = True,
    ) -> AsyncIterator[Result] | AsyncIterator[Result | ClientError]:
        """Yield the result of each event, as Model.map() does.

        Args:
            events: any iterable, asynchronous or not.
        """
        asked = Asked.of(outputs, parameters, timeout, "", version, versions)
        pin = asked.pin(self._prepared.wanted[1]) if versions == "one" else None
        asked = replace(asked, versions="one")  # of each event
        return self._map(events, asked, ordered=ordered, pin=pin, keep=return_exceptions, copy=copy)

    async def stream(
        self,
        inputs: Any,
        *,
        parameters: Mapping[str, Parameter] | None = None,
        timeout_s: float | None = None,
        version: str | int = "",
    ) -> AsyncIterator[Result]:
        """Yield every answer of a decoupled model to one request, as Model.stream() does. Each next() waits on a thread."""
        model = Model(self._prepared.client, self._prepared.wanted)
        answers = await asyncio.to_thread(
            lambda: model.stream(inputs, parameters=parameters, timeout_s=timeout_s, version=version)
        )
        try:
            while (result := await asyncio.to_thread(next, answers, None)) is not None:
                yield result
        finally:
            answers.close()

    def sequence(self, sequence_id: int | str | None = None, *, version: str | int = "") -> AsyncSequence:
        """Return a new sequence of requests that share state at the model, as Model.sequence() does."""
        return AsyncSequence(BlockingSequence(self._prepared.of_version(version), sequence_id))

    async def _infer_ragged(self, inputs: Ragged, asked: Asked) -> list[Outputs]:
        """Make a request for each entry, and all of them again if the version of the first answers is gone."""
        call_time = self._prepared.engine.call_time(asked.timeout)

        async def all_entries() -> list[Outputs]:
            pin = asked.pin(self._prepared.wanted[1])
            mapped = self._map(inputs.entries, asked, ordered=True, pin=pin, keep=False, call_time=call_time)
            return [simple(result) async for result in mapped if isinstance(result, Result)]

        return await of_one_version_async(all_entries)

    async def _result(
        self, inputs: Any, asked: Asked, pin: VersionPin | None = None, call_time: CallTime | None = None
    ) -> Result:
        call_time = call_time or self._prepared.engine.call_time(asked.timeout)
        return await self._finish(inputs, asked, pin, call_time, await self._start(inputs, asked, pin, call_time))

    async def _start(
        self, inputs: Any, asked: Asked, pin: VersionPin | None, call_time: CallTime, *, block: bool = True
    ) -> list[asyncio.Future[Result]]:
        """Start the requests of a call. Waits while the limits are reached.

        Args:
            pin: that this call shares with others; None: one of its own.
        """
        await self._describe(asked.version or self._prepared.wanted[1], call_time)
        engine = self._prepared.engine
        futures: list[asyncio.Future[Result]] = []
        try:
            for request in self._prepared.requests(inputs, asked, pin or asked.pin(self._prepared.wanted[1]), call_time):
                futures.append(asyncio.wrap_future(await engine.submit_async(request, block=block)))  # noqa: PERF401 - it waits
        except BaseException:
            _cancel(futures)
            raise
        return futures

    async def _finish(
        self,
        inputs: Any,
        asked: Asked,
        pin: VersionPin | None,
        call_time: CallTime,
        started: list[asyncio.Future[Result]],
    ) -> Result:
        """Return the result of a call. If the version of its first answers is gone, the whole call is made again."""
        first = [started]

        async def all_requests() -> Result:
            futures = first.pop() if first else await self._start(inputs, asked, None, call_time)
            try:
                return self._prepared.result(asked, list(await asyncio.gather(*futures)))
            except BaseException:
                _cancel(futures)
                raise

        return await (all_requests() if pin is not None else of_one_version_async(all_requests))

    async def _map(
        self,
        events: Iterable[Any] | AsyncIterable[Any],
        asked: Asked,
        *,
        ordered: bool,
        pin: VersionPin | None,
        keep: bool,
        call_time: CallTime | None = None,
        copy: bool = False,
    ) -> AsyncIterator[Result | ClientError]:
        window = 2 * self._prepared.engine.settings.limits.in_flight
        running: deque[asyncio.Task[Result | ClientError]] = deque()
        index = 0
        try:
            async for event in _as_async(events):
                inputs = batches.snapshot(event) if copy else event
                running.append(asyncio.create_task(self._numbered(index, inputs, asked, pin, call_time, keep=keep)))
                index += 1
                await asyncio.sleep(0)
                while running and (len(running) >= window or _next_done(running, ordered=ordered)):
                    yield await _take(running, ordered=ordered)
            while running:
                yield await _take(running, ordered=ordered)
        finally:
            for task in running:
                task.cancel()
            for task in running:
                with suppress(asyncio.CancelledError, Exception):
                    await task

    async def _numbered(
        self, index: int, event: Any, asked: Asked, pin: VersionPin | None, call_time: CallTime | None, *, keep: bool
    ) -> Result | ClientError:
        try:
            return replace(await self._result(event, asked, pin, call_time), index=index)
        except ClientError as error:
            numbered = with_index(error, index)
            if not keep or isinstance(error, ClosedError):
                raise
            return numbered

    async def _describe(self, version: str, call_time: CallTime) -> None:
        """Request the model's description on another thread, once."""
        if version not in self._described:
            await asyncio.to_thread(self._prepared.engine.spec, (self._prepared.wanted[0], version), call_time)
            self._described.add(version)

    def __repr__(self) -> str:
        return f"Async{Model(self._prepared.client, self._prepared.wanted)!r}"


class AsyncSequence:
    """Requests that share state at the model, one after another. Each waits on a thread; a cancelled one ends the sequence."""

    def __init__(self, sequence: BlockingSequence) -> None:
        self._sequence = sequence
        self.id = sequence.id

    async def infer(self, inputs: Any, *, last: bool = False, parameters: Mapping[str, Parameter] | None = None) -> Any:
        """Return the outputs for the next inputs, as Sequence.infer() does."""
        return simple(await self.result(inputs, last=last, parameters=parameters))

    async def result(self, inputs: Any, *, last: bool = False, parameters: Mapping[str, Parameter] | None = None) -> Result:
        """Return the outputs like infer(), with the server and the latency. Raises what Sequence.infer() raises."""
        try:
            return await asyncio.to_thread(self._sequence.result, inputs, last=last, parameters=parameters)
        except asyncio.CancelledError:
            self._sequence.close()
            raise

    async def close(self) -> None:
        """End the call. A request in flight ends with StreamError."""
        self._sequence.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sequence.close()


def _cancel(futures: Iterable[asyncio.Future[Result]]) -> None:
    for future in futures:
        future.cancel()


def _next_done(running: deque[asyncio.Task[Result | ClientError]], *, ordered: bool) -> bool:
    return running[0].done() if ordered else any(task.done() for task in running)


async def _take(running: deque[asyncio.Task[Result | ClientError]], *, ordered: bool) -> Result | ClientError:
    """Wait for the next result and remove its task."""
    if ordered:
        return await running.popleft()
    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    task = done.pop()
    running.remove(task)
    return task.result()


async def _as_async(events: Iterable[Any] | AsyncIterable[Any]) -> AsyncIterator[Any]:
    if isinstance(events, AsyncIterable):
        async for event in events:
            yield event
    else:
        for event in events:
            yield event
