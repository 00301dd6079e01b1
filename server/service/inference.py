# SPDX-License-Identifier: Apache-2.0
"""InferenceService: the server without its front ends. gRPC and HTTP ask it; it asks the repository."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

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
from hypersonic.server.inference.request import CheckedRequest, Frame, InferRequest
from hypersonic.server.inference.trace import find_trace
from hypersonic.server.inference.unary import Unary
from hypersonic.server.limits.admission import Admission
from hypersonic.server.limits.peers import Peers
from hypersonic.server.limits.saturation import Saturation
from hypersonic.server.limits.slow_clients import SlowClients
from hypersonic.server.limits.threads import ThreadQuota
from hypersonic.server.service.interfaces import NoTracer, OpenStream, Tracer
from hypersonic.server.service.refusals import Refusals

_LOG = logging.getLogger(__name__)
#: how often one request may meet a version that is unloaded at that moment
_MOST_REPLACEMENTS = 8
#: a front end's frame for one model
Frames = Callable[[Model], Frame]


@dataclass(frozen=True, slots=True)
class ArrivedRequest:
    """A request as its front end hands it over. model_name, version: as asked for. frames: of the front end, by model."""

    model_name: str
    version: str
    request: InferRequest
    frames: Frames
    call: Call
    arrived_ns: int


class InferenceService:
    """Every thread may call it. strict_readiness: one model that is not READY makes the server not ready."""

    def __init__(
        self,
        repository: Repository,
        *,
        strict_readiness: bool = True,
        limit_bytes: int = 0,
        tracing: Tracer | None = None,
        client_timeout_s: float = 0.0,
        peers: Peers | None = None,
    ) -> None:
        """limit_bytes: of requests held at once, 0 = none. tracing: None = nothing is traced.

        client_timeout_s: how long a client may neither send the rest of its request nor read its answer, 0 = for ever.
        peers: which clients count as one when something is shared.
        """
        self.repository = repository
        self.tracing = tracing or NoTracer()
        self.peers = peers or Peers()
        self.admission = Admission(limit_bytes, self.peers)
        self.saturation = Saturation()
        self.saturation.add("bytes", self.admission.budget)
        self.saturation.add("requests", self.admission.places)
        self.clients = SlowClients(client_timeout_s)
        self.clients.watchers.append(self._update_saturation)
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

    def _update_saturation(self) -> None:
        if self.saturation.update():
            self.changed()

    def open(self) -> None:
        """Requests may come: clients that stop are cut off from now on."""
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

    def infer(self, arrived: ArrivedRequest, model: Model) -> Any:
        """One request, one answer, framed; blocks. Raises ServerError."""
        with self._traced(arrived, model) as traced:

            def send(model: Model) -> Any:
                checked, frame = _prepare(traced, model, unary=True)
                try:
                    return model.infer(checked, frame, traced.call, traced.arrived_ns)
                except ServerError as error:
                    error.of_model = True
                    raise

            return self._through(send, model, arrived.version)

    def begin(self, arrived: ArrivedRequest, model: Model | None, unary: Unary, threads: ThreadQuota) -> None:
        """infer() without a thread that waits: returns when the request is on its way, and perhaps answered already.

        model: None while it is being replaced. The answer goes to `unary`. Where a thread has to wait (an ensemble, a model
        that is being replaced), it is one of `threads`, perhaps this one. Raises ServerError for what is refused at once.
        """
        if model is None or model.waits:
            self._begin_waiting(arrived, model, unary, threads)
            return
        here = threads.enter(arrived.model_name)
        try:
            self._stream(arrived, model, unary, here=here, unary=True)
            replacing = False
        except ReplacingError:
            replacing = True
        finally:
            if here:
                threads.leave(arrived.model_name)
        if replacing:
            self._begin_waiting(arrived, model, unary, threads)

    def _begin_waiting(self, arrived: ArrivedRequest, model: Model | None, unary: Unary, threads: ThreadQuota) -> None:
        def work() -> None:
            unary.end(self._answer(arrived, model, unary))

        def give_up() -> None:
            if threads.withdraw(arrived.model_name, work):
                unary.end(CancelledError())

        arrived.call.add_callback(give_up)
        threads.run(arrived.model_name, work)

    def _answer(self, arrived: ArrivedRequest, model: Model | None, unary: Unary) -> ServerError | None:
        """Wait for the answer on this thread; why there is none."""
        if not arrived.call.is_active():
            return CancelledError()
        try:
            model = model or self.repository.model(arrived.model_name, arrived.version)
            unary.respond(self.infer(arrived, model))
        except ServerError as error:
            return error
        except Exception as error:  # noqa: BLE001 - the last line of defence: the client must not wait for ever
            _LOG.exception("a request to '%s' failed", arrived.model_name)
            return BackendError(f"the request failed: {type(error).__name__}")
        return None

    def stream(self, arrived: ArrivedRequest, model: Model, sink: Sink) -> None:
        """Returns at once, the answers go to the sink. Raises ServerError for what is refused at once."""
        self._stream(arrived, model, sink)

    def _stream(self, arrived: ArrivedRequest, model: Model, sink: Sink, *, here: bool = False, unary: bool = False) -> None:
        """unary: of one answer; a model that is being replaced is not waited for (ReplacingError)."""
        with self._traced(arrived, model) as traced:

            def send(model: Model) -> None:
                checked, frame = _prepare(traced, model, unary=unary)
                try:
                    model.stream(checked, frame, traced.call, traced.arrived_ns, sink, here=here)
                except ServerError as error:
                    error.of_model = True
                    raise

            self._through(send, model, arrived.version, wait_s=0.0 if unary else REPLACEMENT_WAIT_S)

    def _traced(self, arrived: ArrivedRequest, model: Model) -> AbstractContextManager[ArrivedRequest]:
        """The request to go on with: its call carries a trace if it is sampled."""
        return self._tracing(arrived, model) if self.tracing.active else nullcontext(arrived)

    @contextmanager
    def _tracing(self, arrived: ArrivedRequest, model: Model) -> Iterator[ArrivedRequest]:
        request = arrived.request
        with self.tracing.following(arrived.call, model.name, model.version, request.id, arrived.arrived_ns) as call:
            trace = find_trace(call)
            if trace is None:
                yield arrived
                return
            trace.received(request.inputs)
            yield replace(arrived, call=call, frames=lambda model: trace.framing(arrived.frames(model), model.config))

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
        waited for as long as SlowClients.begin_shutdown() says.
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


def _prepare(arrived: ArrivedRequest, model: Model, *, unary: bool) -> tuple[CheckedRequest, Frame]:
    """The request as the model takes it. unary: of one answer."""
    if unary:
        check_unary(model.config)  # whatever is wrong with the request besides
    return check(arrived.request, model.config), arrived.frames(model)
