# SPDX-License-Identifier: Apache-2.0
"""InferenceService: the server without its front ends. gRPC and HTTP ask it; it asks the repository."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from hypersonic.server.errors import (
    BackendError,
    CancelledError,
    InvalidRequestError,
    ReplacedError,
    ReplacingError,
    ServerError,
)
from hypersonic.server.inference.check import check, check_unary
from hypersonic.server.inference.model import Call, Model, Sink
from hypersonic.server.inference.repository import REPLACEMENT_WAIT_S, Repository
from hypersonic.server.inference.request import Frame, InferRequest
from hypersonic.server.inference.trace import find_trace
from hypersonic.server.inference.unary import Unary
from hypersonic.server.limits.admission import Admission
from hypersonic.server.limits.peers import Peers
from hypersonic.server.limits.saturation import Saturation
from hypersonic.server.limits.slow_clients import SlowClients
from hypersonic.server.limits.threads import Shares
from hypersonic.server.service.refusals import Refusals
from hypersonic.server.tracing.settings import TraceConfig, TraceControl
from hypersonic.server.tracing.trace import Tracing

_LOG = logging.getLogger(__name__)
#: how often one request may meet a version that is unloaded at that moment
_MOST_REPLACEMENTS = 8
#: a front end's frame for one model
Frames = Callable[[Model], Frame]


def _noting(frames: Frames, call: Call, request: InferRequest) -> Frames:
    """Frames whose outputs are traced, if the request's tensors are; its inputs are noted here."""
    trace = find_trace(call)
    if trace is None:
        return frames
    trace.received(request.inputs)
    return lambda model: trace.framing(frames(model), model.config)


class OpenStream(Protocol):
    """A ModelStreamInfer call."""

    def end(self, text: str) -> None:
        """End it now, telling its client why."""


class Asked(NamedTuple):
    """A request for one answer, as it has arrived. model: None while it is being replaced. version: as asked for."""

    name: str
    model: Model | None
    version: str
    request: InferRequest
    frames: Frames
    call: Call
    arrived_ns: int
    unary: Unary


class InferenceService:
    """Every thread may call it. strict_readiness: one model that is not READY makes the server not ready."""

    def __init__(
        self,
        repository: Repository,
        *,
        strict_readiness: bool = True,
        limit_bytes: int = 0,
        tracing: Tracing | None = None,
        client_timeout_s: float = 0.0,
        peers: Peers | None = None,
    ) -> None:
        """limit_bytes: of requests held at once, 0 = none. tracing: None = nothing is traced.

        client_timeout_s: how long a client may neither send the rest of its request nor read its answer, 0 = for ever.
        peers: which clients count as one when something is shared.
        """
        self.repository = repository
        self.tracing = tracing or Tracing(TraceControl(TraceConfig()), None)
        self.peers = peers or Peers()
        self.admission = Admission(limit_bytes, self.peers)
        self.saturation = Saturation()
        self.saturation.add("bytes", self.admission.budget)
        self.saturation.add("requests", self.admission.places)
        self.clients = SlowClients(client_timeout_s)
        self.clients.watchers.append(self._look_at_budgets)
        #: front end -> the port it listens on
        self.ports: dict[str, int] = {}
        #: calls refused before a model saw them, and the streams that are open
        self.refusals = Refusals()
        self.streams: set[OpenStream] = set()
        self.started_ns = time.monotonic_ns()
        self._strict_readiness = strict_readiness
        self._serving = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def ready(self) -> bool:
        """Whether requests may come: loaded, not draining, with room for new clients, and every model READY where asked for."""
        if not self._serving or self.admission.closed or self.saturation.refuses_all:
            return False
        return not self._strict_readiness or self.repository.all_ready

    def model_ready(self, name: str, version: str) -> bool:
        """Raises InvalidRequestError for a version that is no number; what is unknown is merely not ready."""
        try:
            self.repository.model(name, version, wait_s=0.0)
        except InvalidRequestError:
            raise
        except ServerError:
            return False
        return not self.admission.closed

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever readiness may have changed, on whichever thread noticed."""
        self._listeners.append(listener)

    def changed(self) -> None:
        """Readiness may have changed."""
        for listener in self._listeners:
            listener()

    def _look_at_budgets(self) -> None:
        if self.saturation.look():
            self.changed()

    def open(self) -> None:
        """The doors are open; clients are looked after."""
        self.clients.start()

    def start(self) -> None:
        """Everything is loaded; readiness may show."""
        self._serving = True
        self.changed()

    @contextmanager
    def admitted(self, size_bytes: int, client: str = "") -> Iterator[None]:
        """For as long as a request of `size_bytes` is in the server. Raises ShuttingDownError, BudgetError."""
        self.admission.enter(size_bytes, client)
        try:
            yield
        finally:
            self.admission.leave(size_bytes, client)

    def infer(self, model: Model, version: str, request: InferRequest, frames: Frames, call: Call, arrived_ns: int) -> Any:
        """One request, one answer, framed; blocks. version: as asked for. Raises ServerError."""
        if self.tracing.active:
            with self.tracing.following(call, model.name, model.version, request.id, arrived_ns) as traced:
                return self._infer(model, version, request, _noting(frames, traced, request), traced, arrived_ns)
        return self._infer(model, version, request, frames, call, arrived_ns)

    def _infer(self, model: Model, version: str, request: InferRequest, frames: Frames, call: Call, arrived_ns: int) -> Any:
        def send(model: Model) -> Any:
            check_unary(model.config)  # whatever is wrong with the request besides
            checked, frame = check(request, model.config), frames(model)
            try:
                return model.infer(checked, frame, call, arrived_ns)
            except ServerError as error:
                error.of_model = True
                raise

        return self._through(send, model, version)

    def begin(self, asked: Asked, shares: Shares) -> None:
        """infer() without a thread that waits: returns when the request is on its way, and perhaps answered already.

        Its answer goes to `asked.unary`. Where a thread has to wait (an ensemble, a model that is being replaced), it is one of
        `shares`, perhaps this one. Raises ServerError for what is refused at once.
        """
        model = asked.model
        if model is None or model.waits:
            self._begin_waiting(asked, shares)
            return
        here = shares.enter(asked.name)
        try:
            self._stream_traced(model, *asked[2:-1], asked.unary, here=here, unary=True)
            replacing = False
        except ReplacingError:
            replacing = True
        finally:
            if here:
                shares.leave(asked.name)
        if replacing:
            self._begin_waiting(asked, shares)

    def _begin_waiting(self, asked: Asked, shares: Shares) -> None:
        def work() -> None:
            asked.unary.end(self._answer(asked))

        def give_up() -> None:
            if shares.withdraw(asked.name, work):
                asked.unary.end(CancelledError())

        asked.call.add_callback(give_up)
        shares.run(asked.name, work)

    def _answer(self, asked: Asked) -> ServerError | None:
        """Wait for the answer on this thread; why there is none."""
        if not asked.call.is_active():
            return CancelledError()
        try:
            model = asked.model or self.repository.model(asked.name, asked.version)
            asked.unary.respond(self.infer(model, *asked[2:-1]))
        except ServerError as error:
            return error
        except Exception as error:  # noqa: BLE001 - the last line of defence: the client must not wait for ever
            _LOG.exception("a request to '%s' failed", asked.name)
            return BackendError(f"the request failed: {type(error).__name__}")
        return None

    def stream(
        self, model: Model, version: str, request: InferRequest, frames: Frames, call: Call, arrived_ns: int, sink: Sink
    ) -> None:
        """Returns at once, the answers go to the sink. Raises ServerError for what is refused at once."""
        self._stream_traced(model, version, request, frames, call, arrived_ns, sink)

    def _stream_traced(
        self,
        model: Model,
        version: str,
        request: InferRequest,
        frames: Frames,
        call: Call,
        arrived_ns: int,
        sink: Sink,
        *,
        here: bool = False,
        unary: bool = False,
    ) -> None:
        if self.tracing.active:
            with self.tracing.following(call, model.name, model.version, request.id, arrived_ns) as traced:
                noting = _noting(frames, traced, request)
                self._stream(model, version, request, noting, traced, arrived_ns, sink, here=here, unary=unary)
        else:
            self._stream(model, version, request, frames, call, arrived_ns, sink, here=here, unary=unary)

    def _stream(
        self,
        model: Model,
        version: str,
        request: InferRequest,
        frames: Frames,
        call: Call,
        arrived_ns: int,
        sink: Sink,
        *,
        here: bool,
        unary: bool,
    ) -> None:
        """unary: of one answer; a model that is being replaced is not waited for (ReplacingError)."""

        def send(model: Model) -> None:
            if unary:
                check_unary(model.config)  # whatever is wrong with the request besides
            checked, frame = check(request, model.config), frames(model)
            try:
                model.stream(checked, frame, call, arrived_ns, sink, here=here)
            except ServerError as error:
                error.of_model = True
                raise

        self._through(send, model, version, wait_s=0.0 if unary else REPLACEMENT_WAIT_S)

    def _through(self, send: Callable[[Model], Any], model: Model, version: str, wait_s: float = REPLACEMENT_WAIT_S) -> Any:
        """Send a request to a model; when it was replaced meanwhile, to what is in its place."""
        for _ in range(_MOST_REPLACEMENTS):
            try:
                return send(model)
            except ReplacedError:
                model = self.repository.model(model.name, version, wait_s=wait_s)
        return send(model)

    def drain(self, timeout_s: float, patience: Callable[[float], bool]) -> bool:
        """Not ready, no new requests; whether those in flight ended within `timeout_s`.

        patience(seconds) waits at most that long and says whether to go on waiting at all. What clients have begun to send is
        waited for as long as SlowClients.hurry() says.
        """
        self.stop_taking()
        deadline = time.monotonic() + timeout_s
        _LOG.info("Waiting for in-flight requests to complete.")
        while (left_s := deadline - time.monotonic()) > 0:
            _LOG.info("Timeout %.0f: Found %d in-flight requests%s", left_s, self.admission.requests, self._where())
            if self._empty_within(min(1.0, left_s), patience):
                return True
            if not patience(0.0):
                return False
        return self.admission.requests == 0

    def stop_taking(self) -> None:
        """Not ready, no new requests."""
        self.admission.close()
        self.changed()

    def _where(self) -> str:
        """Which models have requests: those among them whose client has left are not in flight any more."""
        working = self.repository.working()
        return f"; at work: {', '.join(working)}" if working else ""

    def end_streams(self) -> None:
        """End the streams that are still open: all their requests are answered."""
        streams = list(self.streams)
        for stream in streams:
            stream.end("the server is shutting down")
        if streams:
            _LOG.info("%d open streams were ended.", len(streams))

    def _empty_within(self, seconds: float, patience: Callable[[float], bool]) -> bool:
        """Look every 50 ms, so that an impatient operator is heard."""
        deadline = time.monotonic() + seconds
        while not self.admission.wait_empty(0.05) or self.clients.owed:
            if time.monotonic() >= deadline or not patience(0.0):
                return False
        return True
