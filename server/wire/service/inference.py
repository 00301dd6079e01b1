# SPDX-License-Identifier: Apache-2.0
"""InferenceService: the part of the server behind the gRPC and HTTP front ends. It finds models in the repository."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from hypersonic.server.core.inference.check import check, check_unary
from hypersonic.server.core.inference.model import Call, Model, Sink
from hypersonic.server.core.inference.repository import REPLACEMENT_WAIT_S, Repository
from hypersonic.server.core.inference.request import CheckedRequest, Frame, InferRequest
from hypersonic.server.core.inference.unary import Unary
from hypersonic.server.errors import (
    BackendError,
    CancelledError,
    InvalidRequestError,
    ReplacedError,
    ReplacingError,
    ServerError,
)
from hypersonic.server.limits.admission import Admission
from hypersonic.server.limits.peers import Peers
from hypersonic.server.limits.saturation import Saturation
from hypersonic.server.limits.slow_clients import SlowClients
from hypersonic.server.limits.supervisor import Progress
from hypersonic.server.limits.threads import ThreadQuota
from hypersonic.server.observe.log import counted
from hypersonic.server.observe.tracing.settings import TraceConfig, TraceControl
from hypersonic.server.observe.tracing.trace import Tracing
from hypersonic.server.statistics.refusals import Refusals

_LOG = logging.getLogger(__name__)
#: how often one request may reach a version that is unloaded at that moment
_MOST_REPLACEMENTS = 8
#: model -> the front end's frame, which encodes the model's answers
Frames = Callable[[Model], Frame]
_Send = Callable[[Model, Call], Any]


@dataclass(frozen=True, slots=True)
class ArrivedRequest:
    """A request as a front end passes it on.

    Attributes:
        model_name, version: as in the request, version "" = the latest.
        frames: the front end's frame for a model.
        arrived_ns: of time.monotonic_ns().
    """

    model_name: str
    version: str
    request: InferRequest
    frames: Frames
    call: Call
    arrived_ns: int


class OpenStream(Protocol):
    """An open ModelStreamInfer call."""

    def end(self, text: str) -> None:
        """End the call now.

        Args:
            text: the reason, for its client.
        """


class InferenceService:
    """Inference for all front ends, and the state that they share. Any thread may call it."""

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
        """Create an InferenceService.

        Args:
            strict_readiness: the server is not ready while one model is not READY.
            limit_bytes: of all requests that the server holds at one time, 0 = no limit.
            tracing: None = nothing is traced.
            client_timeout_s: how long a client may send nothing of its request, or read nothing of its answer, 0 = no limit.
            peers: tells which clients share an address.
        """
        self.repository = repository
        self.tracing = tracing or Tracing(TraceControl(TraceConfig()))
        self.peers = peers or Peers()
        self.admission = Admission(limit_bytes, self.peers)
        self.saturation = Saturation()
        self.saturation.add("bytes", self.admission.budget)
        self.saturation.add("requests", self.admission.places)
        self.clients = SlowClients(client_timeout_s)
        self.clients.watchers.append(self._update_saturation)
        #: tells whether the transports and schedulers come round
        self.progress = Progress(self.changed)
        #: front end -> the port it listens on
        self.ports: dict[str, int] = {}
        #: counts of the calls that were refused before they reached a model
        self.refusals = Refusals()
        #: the open streams
        self.streams: set[OpenStream] = set()
        self.started_ns = time.monotonic_ns()
        self._strict_readiness = strict_readiness
        self._serving = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def ready(self) -> bool:
        """True if the server takes requests: it has started, is not draining, is not stuck, and has room for new clients.

        With strict_readiness, every model has to be READY too.
        """
        if not self._serving or self.admission.closed or self.saturation.refuses_all or self.progress.stuck:
            return False
        return not self._strict_readiness or self.repository.all_ready

    def model_ready(self, name: str, version: str) -> bool:
        """Return whether a version takes requests; version "" = any. An unknown model is not ready.

        Raises InvalidRequestError (INVALID_ARGUMENT, 400) for a version that is not a number.
        """
        try:
            self.repository.model(name, version, wait_s=0.0)
        except InvalidRequestError:
            raise
        except ServerError:
            return False
        return not self.admission.closed

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever readiness may have changed, on the thread that noticed it."""
        self._listeners.append(listener)

    def changed(self) -> None:
        """Tell the listeners that readiness may have changed."""
        for listener in self._listeners:
            listener()

    def _update_saturation(self) -> None:
        if self.saturation.update():
            self.changed()

    def open(self) -> None:
        """Begin to cut off slow clients. Called before the ports are opened."""
        self.clients.start()

    def start(self) -> None:
        """Let the server become ready. Called when the models have been loaded."""
        self._serving = True
        self.changed()

    @contextmanager
    def admitted(self, size_bytes: int, client: str = "") -> Iterator[None]:
        """Count a request of `size_bytes` against the budget during the `with` statement.

        Raises ShuttingDownError (UNAVAILABLE, 503) and BudgetError (RESOURCE_EXHAUSTED, 503).
        """
        self.admission.enter(size_bytes, client)
        try:
            yield
        finally:
            self.admission.leave(size_bytes, client)

    def infer(self, arrived: ArrivedRequest, model: Model) -> Any:
        """Run one request and return its answer, encoded by the front end's frame. Blocks. Raises ServerError."""

        def send(model: Model, call: Call) -> Any:
            checked, frame = _prepare(arrived, model, unary=True)
            try:
                return model.infer(checked, frame, call, arrived.arrived_ns)
            except ServerError as error:
                error.of_model = True
                raise

        return self._through(send, model, arrived)

    def begin(self, arrived: ArrivedRequest, model: Model | None, unary: Unary, threads: ThreadQuota) -> None:
        """Begin a request without a thread that waits for its answer, which goes to `unary`.

        Returns when the request has been queued; the answer may have been given by then.

        If a thread has to wait (for an ensemble, or a model that is being replaced), it is one of `threads`, and may be the
        calling one.

        Args:
            model: None while it is being replaced.

        Raises:
            ServerError: For a request that is refused at once.
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
            if threads.withdraw(arrived.model_name, work, arrived.call.client):
                unary.end(CancelledError())

        arrived.call.add_callback(give_up)
        threads.run(arrived.model_name, work, arrived.call.client)

    def _answer(self, arrived: ArrivedRequest, model: Model | None, unary: Unary) -> ServerError | None:
        """Wait for the answer on this thread. Returns the error if there is no answer."""
        if not arrived.call.is_active():
            return CancelledError()
        try:
            model = model or self.repository.model(arrived.model_name, arrived.version)
            unary.respond(self.infer(arrived, model))
        except ServerError as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever happens, the client must not wait forever
            _LOG.exception("a request to '%s' failed", arrived.model_name)
            return BackendError(f"the request failed: {type(error).__name__}")
        return None

    def stream(self, arrived: ArrivedRequest, model: Model, sink: Sink) -> None:
        """Begin a request of a stream. Returns at once; the answers go to `sink`.

        Raises ServerError for a request that is refused at once.
        """
        self._stream(arrived, model, sink)

    def _stream(self, arrived: ArrivedRequest, model: Model, sink: Sink, *, here: bool = False, unary: bool = False) -> None:
        """Begin a request.

        Args:
            unary: it has one answer, and does not wait for a model that is being replaced (ReplacingError).
        """

        def send(model: Model, call: Call) -> None:
            checked, frame = _prepare(arrived, model, unary=unary)
            try:
                model.stream(checked, frame, call, arrived.arrived_ns, sink, here=here)
            except ServerError as error:
                error.of_model = True
                raise

        self._through(send, model, arrived, wait_s=0.0 if unary else REPLACEMENT_WAIT_S)

    def _through(self, send: _Send, model: Model, arrived: ArrivedRequest, wait_s: float = REPLACEMENT_WAIT_S) -> Any:
        """Send a request to a model, or to its successor if it has been replaced meanwhile.

        Args:
            send: called with the model and the request's call, which has a trace if the request is sampled.
        """
        if not self.tracing.active:
            return self._follow(send, model, arrived.call, arrived.version, wait_s)
        with self.tracing.following(arrived.call, model.name, model.version, arrived.request.id, arrived.arrived_ns) as call:
            return self._follow(send, model, call, arrived.version, wait_s)

    def _follow(self, send: _Send, model: Model, call: Call, version: str, wait_s: float) -> Any:
        for _ in range(_MOST_REPLACEMENTS):
            try:
                return send(model, call)
            except ReplacedError:
                model = self.repository.model(model.name, version, wait_s=wait_s)
        return send(model, call)

    def drain(self, timeout_s: float, patience: Callable[[float], bool]) -> bool:
        """Stop taking requests, and return whether those in flight ended within `timeout_s`.

        patience(seconds): waits at most that long, and returns False if the server should not wait any longer. Requests that
        clients have begun to send are waited for as long as SlowClients.begin_shutdown() allows.
        """
        self.stop_taking()
        deadline = time.monotonic() + timeout_s
        _LOG.info("Waiting for in-flight requests to complete.")
        while (left_s := deadline - time.monotonic()) > 0:
            if requests := self.admission.requests:
                _LOG.info("Timeout %.0f: Found %d in-flight requests%s", left_s, requests, self._where())
            if self._empty_within(min(1.0, left_s), patience):
                return True
            if not patience(0.0):
                return False
        return self.admission.requests == 0

    def stop_taking(self) -> None:
        """Make the server not ready, and refuse new requests."""
        self.admission.close()
        self.changed()

    def _where(self) -> str:
        """Return a text that names the models that have requests, "" if none has.

        Requests whose client has disconnected are not in flight any more, but their models may still run them.
        """
        working = self.repository.working()
        return f"; at work: {', '.join(working)}" if working else ""

    def end_streams(self) -> None:
        """End the streams that are still open. Called when all their requests have been answered."""
        streams = list(self.streams)
        for stream in streams:
            stream.end("the server is shutting down")
        if streams:
            _LOG.info("%s ended.", counted(len(streams), "open stream was", "open streams were"))

    def _empty_within(self, seconds: float, patience: Callable[[float], bool]) -> bool:
        """Wait until no requests are left. Checks every 50 ms whether the operator has asked to stop at once."""
        deadline = time.monotonic() + seconds
        while not self.admission.wait_empty(0.05) or self.clients.owed:
            if time.monotonic() >= deadline or not patience(0.0):
                return False
        return True


def _prepare(arrived: ArrivedRequest, model: Model, *, unary: bool) -> tuple[CheckedRequest, Frame]:
    """Return the checked request and the frame of its answers.

    Raises InvalidRequestError.

    Args:
        unary: it has one answer.
    """
    if unary:
        check_unary(model.config)  # before any other mistake in the request is reported
    return check(arrived.request, model.config), arrived.frames(model)
