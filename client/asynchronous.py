# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio: AsyncClient."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from hypersonic.client.attempts.request import Result
from hypersonic.client.messages.request import Parameter
from hypersonic.client.model import Model, Prepared
from hypersonic.client.pool.member import Wanted
from hypersonic.client.servers import environment_servers
from hypersonic.client.settings import Settings
from hypersonic.client.specs import ModelSpec
from hypersonic.client.statistics import Statistics, collect
from hypersonic.client.streams import Sequence
from hypersonic.client.sync import Client


class AsyncClient:
    """Sends events to one or several servers, from an event loop. Its arguments are those of Client.

    async with AsyncClient("localhost:8001") as client::

        result = await client.model("facile").infer(rows)
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._client = Client(*args, **settings)

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


class AsyncModel:
    """A model on the servers of an AsyncClient."""

    def __init__(self, client: Client, wanted: Wanted) -> None:
        self._prepared = Prepared(client, wanted)
        self._described = False

    async def spec(self) -> ModelSpec:
        """Return the model as a server describes it."""
        return await asyncio.to_thread(lambda: self._prepared.spec)

    async def infer(self, inputs: Any, *, parameters: Mapping[str, Parameter] | None = None) -> Result:
        """Return the result for the inputs, an array or a dict of them. Raises what Model.infer() raises.

        Waits while the client's limits are reached. A cancelled task cancels its calls.
        """
        await self._describe()
        requests = self._prepared.requests(inputs, parameters or {})
        futures = []
        try:
            for request in requests:
                futures.append(asyncio.wrap_future(await self._prepared.engine.submit_async(request)))  # noqa: PERF401 - it waits
            return self._prepared.result(list(await asyncio.gather(*futures)))
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    async def map(
        self,
        events: Iterable[Any] | AsyncIterable[Any],
        *,
        ordered: bool = True,
        parameters: Mapping[str, Parameter] | None = None,
    ) -> AsyncIterator[Result]:
        """Yield the result of each event, as Model.map() does.

        Args:
            events: any iterable, asynchronous or not.
        """
        window = 2 * self._prepared.engine.settings.limits.in_flight
        running: deque[asyncio.Task[Result]] = deque()
        index = 0
        try:
            async for event in _as_async(events):
                running.append(asyncio.create_task(self._numbered(index, event, parameters)))
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

    async def stream(
        self, inputs: Any, *, parameters: Mapping[str, Parameter] | None = None, timeout_s: float | None = None
    ) -> AsyncIterator[Result]:
        """Yield every answer of a decoupled model to one request, as Model.stream() does. Each next() waits on a thread."""
        answers = await asyncio.to_thread(
            Model(self._prepared.client, self._prepared.wanted).stream, inputs, parameters=parameters, timeout_s=timeout_s
        )
        try:
            while (result := await asyncio.to_thread(next, answers, None)) is not None:
                yield result
        finally:
            answers.close()

    def sequence(self, sequence_id: int | str | None = None) -> AsyncSequence:
        """Return a new sequence of requests that share state at the model, as Model.sequence() does."""
        return AsyncSequence(Sequence(self._prepared, sequence_id))

    async def _numbered(self, index: int, event: Any, parameters: Mapping[str, Parameter] | None) -> Result:
        return replace(await self.infer(event, parameters=parameters), index=index)

    async def _describe(self) -> None:
        """Request the model's description on another thread, once."""
        if not self._described:
            await asyncio.to_thread(self._prepared.engine.spec, self._prepared.wanted)
            self._described = True


class AsyncSequence:
    """Requests that share state at the model, one after another. Each waits on a thread; a cancelled one ends the sequence."""

    def __init__(self, sequence: Sequence) -> None:
        self._sequence = sequence
        self.id = sequence.id

    async def infer(self, inputs: Any, *, last: bool = False, parameters: Mapping[str, Parameter] | None = None) -> Result:
        """Return the result for the next inputs. Raises what Sequence.infer() raises."""
        try:
            return await asyncio.to_thread(self._sequence.result, inputs, last=last, parameters=parameters)
        except asyncio.CancelledError:
            self._sequence.close()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sequence.close()


def _next_done(running: deque[asyncio.Task[Result]], *, ordered: bool) -> bool:
    return running[0].done() if ordered else any(task.done() for task in running)


async def _take(running: deque[asyncio.Task[Result]], *, ordered: bool) -> Result:
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
