# SPDX-License-Identifier: Apache-2.0
"""POST /v2/models/M[/versions/V]/infer.

::

    event loop:  path, headers -> body, admitted piece by piece   disconnect? -> answer sent -> bytes released
    threads:                             decompress -> parse -> infer      (-> compress, on a thread again)

A request that waits holds no thread. If the model can run a request at once, the thread that parsed the request runs it.
Inference therefore has its own pool of threads, shared fairly among models (limits/threads.py), and health and metadata calls
never wait for one of them.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hypersonic.server.core.inference.headers import check_sequence_header, forward_headers
from hypersonic.server.core.inference.model import Model, OpenCall
from hypersonic.server.core.inference.shm import HeldRegions, SharedMemory
from hypersonic.server.core.inference.unary import Unary
from hypersonic.server.errors import CancelledError, ReplacingError, ServerError, UnsupportedError
from hypersonic.server.limits.admission import Held
from hypersonic.server.limits.threads import FairPool, settle
from hypersonic.server.wire.http import body as bodies
from hypersonic.server.wire.http.codec import ParsedRequest, header_bytes, parse_request
from hypersonic.server.wire.http.frame import FramedAnswer, HttpFrame
from hypersonic.server.wire.service.inference import ArrivedRequest, InferenceService

#: memory of a parsed JSON request in multiples of its text: the tensors take up to four (`1,` as INT64), a copy of the text one
_JSON_GROWTH = 5
#: the most bodies that are decompressed at one time, at most one of them from one address: 65 kB can expand to 64 MiB, which
#: takes a tenth of a second
_INFLATING = 2
Result = TypeVar("Result")


@dataclass(frozen=True)
class HttpLimits:
    """Limits and settings of HTTP inference.

    Attributes:
        max_input_bytes: of a body, both as sent and decompressed.
        infer_threads: the most requests that run or wait for a model at one time.
        header_pattern: a regular expression for the request headers that become request parameters, "" = none.
        sequence_header: needed by a request of a sequence, in lower case; "" = none.
    """

    max_input_bytes: int = 1 << 26
    infer_threads: int = 256
    header_pattern: str = ""
    sequence_header: str = ""


class HeldResponse(Response):
    """Releases the request's bytes when the client has read the answer or has disconnected."""

    def __init__(self, held: Held, content: bytes, headers: Mapping[str, str]) -> None:
        """Create a HeldResponse.

        Args:
            held: the bytes of the request and its answer.
            content: the body.
        """
        super().__init__(content, headers=dict(headers))
        self._held = held

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the answer, then release the bytes."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": self.body, "more_body": True})
            await send({"type": "http.response.body", "body": b""})  # returns once the body before it has been sent
        finally:
            self._held.leave()


class _Work(NamedTuple):
    """A request that has arrived completely.

    Attributes:
        version: as in the path, "" = none.
    """

    model: Model
    version: str
    body: memoryview
    headers: Mapping[str, str]
    held: Held
    call: OpenCall
    arrived_ns: int


class InferEndpoint:
    """The endpoint of the inference routes."""

    def __init__(self, service: InferenceService, regions: SharedMemory | None, limits: HttpLimits) -> None:
        """Create an InferEndpoint.

        Args:
            regions: the registered shared memory, None = requests cannot use any.
        """
        self._service = service
        self._regions = regions
        self._limits = limits
        self._pattern = re.compile(limits.header_pattern, re.IGNORECASE) if limits.header_pattern else None
        self._pool = FairPool(max(1, limits.infer_threads), "http-infer")
        self._inflating = FairPool(_INFLATING, "http-inflate")

    async def __call__(self, request: Request, name: str, version: str) -> Response:
        """Serve one request. Raises ServerError, whose kind decides the HTTP status (server/wire/status_codes.py)."""
        arrived_ns = time.monotonic_ns()
        client = client_of(request)
        model = await self._model(name, version, client)
        if model.config.decoupled:
            raise UnsupportedError("HTTP end point doesn't support models with decoupled transaction policy")
        call = OpenCall(client, request.headers.get("traceparent", ""))
        limit_bytes = self._limits.max_input_bytes
        size_bytes = bodies.declared_bytes(request.headers, limit_bytes)
        held = Held(self._service.admission, call.client, 0)
        try:
            body = await bodies.read_body(request.receive, size_bytes, limit_bytes, held, self._service.clients)
            work = _Work(model, version, body, request.headers, held, call, arrived_ns)
            del body
            content, headers = await self._attended(work, request)
        except BaseException:
            held.leave()
            raise
        return HeldResponse(held, content, headers)

    async def _model(self, name: str, version: str, client: str) -> Model:
        """Return the model. If it is being replaced, a thread waits for it."""
        repository = self._service.repository
        try:
            return repository.model(name, version, wait_s=0.0)
        except ReplacingError:
            return await asyncio.wrap_future(self._pool.submit(name, partial(repository.model, name, version), client))

    async def _attended(self, work: _Work, request: Request) -> tuple[bytes, dict[str, str]]:
        """Run a request on a thread, and give it up if the client disconnects. Returns the answer's body and headers."""
        outcome: Future[tuple[bytes, dict[str, str]]] = Future()
        if work.headers.get("content-encoding", "") in ("", "identity"):
            begun: Future[None] = self._pool.executor.submit(self._begin, work, outcome)
        else:
            address = self._service.peers.address_of(work.call.client)
            begun = self._inflating.submit(address, partial(self._inflate, work, outcome))
        answer = asyncio.wrap_future(outcome)
        gone = asyncio.ensure_future(_disconnected(request.receive))
        try:
            await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                work.call.end()
                if begun.cancel():  # it was still waiting for a thread
                    raise CancelledError
            return await answer
        finally:
            gone.cancel()
            work.call.end()

    def _inflate(self, work: _Work, outcome: Future[tuple[bytes, dict[str, str]]]) -> None:
        """Decompress the body, then begin the request. One body of an address is decompressed at a time."""
        if not work.call.is_active():
            _fail(outcome, CancelledError())
            return
        try:
            encoding = work.headers.get("content-encoding", "")
            body = bodies.decompress(work.body, encoding, self._limits.max_input_bytes, work.held)
        except BaseException as error:  # noqa: BLE001 - the coroutine that waits for the outcome raises it again
            _fail(outcome, error)
            return
        self._pool.executor.submit(self._begin, work._replace(body=body), outcome)

    def _begin(self, work: _Work, outcome: Future[tuple[bytes, dict[str, str]]]) -> None:
        """Send the request to its model. Its answer becomes the outcome, on any thread."""
        encoding = bodies.wanted_encoding(work.headers.get("accept-encoding", ""))

        def finish(framed: FramedAnswer) -> tuple[bytes, dict[str, str]]:
            work.held.add(len(framed.body))
            return _encoded(framed, encoding)

        unary = Unary(finish)
        try:
            self._ask(work, unary)
        except BaseException as error:  # noqa: BLE001 - the coroutine that waits for the outcome raises it again
            _fail(outcome, error)
            return
        answer = partial(settle, outcome, unary.take)
        # compressing takes long, and the thread that delivers the answer has other requests to answer
        if not unary.later(partial(self._pool.executor.submit, answer) if encoding else answer):
            answer()

    def _ask(self, work: _Work, unary: Unary) -> None:
        if not work.call.is_active():
            raise CancelledError
        parsed = self._parse(work)
        unary.request_id, unary.model_name = parsed.request.id, work.model.name
        check_sequence_header(parsed.request, work.headers.items(), self._limits.sequence_header)

        def frames(model: Model) -> HttpFrame:
            return HttpFrame(model, parsed.binary)

        arrived = ArrivedRequest(work.model.name, work.version, parsed.request, frames, work.call, work.arrived_ns)
        try:
            self._service.begin(arrived, work.model, unary, self._pool.quota)
        except ServerError as error:
            raise unary.named(error)  # noqa: B904 - it is the same error

    def _parse(self, work: _Work) -> ParsedRequest:
        headers, body = work.headers, work.body
        json_bytes = header_bytes(headers.get("inference-header-content-length"), len(body))
        regions = HeldRegions(self._regions, work.held) if self._regions is not None else None
        parameters = forward_headers(headers.items(), self._pattern)
        work.held.take(_JSON_GROWTH * json_bytes)
        try:
            return parse_request(body, json_bytes, work.model.config, regions, parameters)
        except ServerError as error:
            error.request_id = ""
            raise


def _fail(outcome: Future[Result], error: BaseException) -> None:
    """Set the error as the outcome, unless nothing waits for it any more."""
    if outcome.set_running_or_notify_cancel():
        outcome.set_exception(error)


def _encoded(framed: FramedAnswer, encoding: str) -> tuple[bytes, dict[str, str]]:
    """Return the answer's body, compressed if `encoding` is not "", and its headers."""
    headers = {"content-type": "application/json" if framed.json_bytes is None else "application/octet-stream"}
    if framed.json_bytes is not None:
        headers["inference-header-content-length"] = str(framed.json_bytes)
    if not encoding:
        return framed.body, headers
    return bodies.compress(framed.body, encoding), {**headers, "content-encoding": encoding}


def client_of(request: Request) -> str:
    """Return the address and port of a request's connection, by which its bytes are counted; "" = unknown."""
    return f"{request.client.host}:{request.client.port}" if request.client is not None else ""


async def _disconnected(receive: Callable[[], Any]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
