# SPDX-License-Identifier: Apache-2.0
"""Protocols of a loaded model version for callers that need not know how it runs, and of a request's connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.card import CardStatus, Residency
from hypersonic.server.core.inference.request import CheckedRequest, Frame
from hypersonic.server.errors import ServerError
from hypersonic.server.statistics.instance import InstanceFigures
from hypersonic.server.statistics.model import ModelStatistics


class Call(Protocol):
    """The connection that a request was received on, as the request path uses it."""

    @property
    def client(self) -> str:
        """The client that a request counts against when clients take turns: one connection."""

    def is_active(self) -> bool:
        """Return False once the client has cancelled or disconnected, or its deadline has passed."""

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Register a callback for the end of the call, on any thread; return False if the call has ended already."""


class OpenCall:
    """A Call that its owner ends. Any thread may use it."""

    def __init__(self, client: str, traceparent: str = "") -> None:
        """Create an OpenCall.

        Args:
            client: address and port.
            traceparent: the client's W3C trace context, "" = none.
        """
        self.client = client
        self.traceparent = traceparent
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] | None = []

    def is_active(self) -> bool:
        """Return whether the call has not ended."""
        return self._callbacks is not None

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call `callback` when the call ends. Returns False, and never calls it, if the call has ended."""
        with self._lock:
            if self._callbacks is None:
                return False
            self._callbacks.append(callback)
            return True

    def end(self) -> None:
        """End the call and call the callbacks on this thread."""
        with self._lock:
            callbacks, self._callbacks = self._callbacks or [], None
        for callback in callbacks:
            callback()


class Sink(Protocol):
    """A receiver of answers, for a caller that does not wait for them.

    Its methods may be called on any thread, possibly while a model's lock is held. They must not call a model; they may only
    store what they are given.
    """

    def respond(self, framed: Any) -> None:
        """Receive one answer; answers are delivered in order."""

    def respond_error(self, error: ServerError) -> None:
        """Receive one answer that is an error, in order. Others may follow it. Only decoupled models send these."""

    def end(self, error: ServerError | None) -> None:
        """Receive the end of the answers, with the error that ended them, if any. Called once, last."""


class Model(Protocol):
    """A loaded version as front ends and monitoring see it: ScheduledModel or EnsembleModel. Any thread may use it."""

    config: ModelConfig
    version: int
    statistics: ModelStatistics
    load_duration_s: float

    @property
    def name(self) -> str:
        """The model's name in the repository."""

    @property
    def in_service(self) -> bool:
        """True while the model accepts requests, also while a lost instance is being brought back."""

    @property
    def reason(self) -> str:
        """The reason why the model is not in service; empty while it is."""

    @property
    def waiting(self) -> int:
        """The number of requests that wait for an instance."""

    @property
    def working(self) -> int:
        """The number of requests in the queue and in runs, including those whose client has disconnected."""

    @property
    def figures(self) -> Mapping[str, InstanceFigures]:
        """The counters of each instance, by the instance's name."""

    @property
    def waits(self) -> bool:
        """True if each request needs a thread that waits for it; callers then use infer()."""

    @property
    def on_standby(self) -> bool:
        """True while the fallback backend serves the model because no other instance is left."""

    @property
    def residency(self) -> Residency | None:
        """The counters of a model that takes turns on a card, None for others."""

    def comes_round(self) -> bool:
        """Return False if requests could run and the scheduler has done nothing since the last question. Does not block."""

    def busy_clocks(self) -> Mapping[str, int]:
        """Return, for each instance, the clock cycles with a run in flight since load, as read from the card."""

    def cards(self) -> Mapping[str, CardStatus]:
        """Return the card of each instance that runs on one, by the instance's name."""

    def infer(self, request: CheckedRequest, frame: Frame, call: Call, arrived_ns: int) -> Any:
        """Return the framed answer; blocks until it is available.

        Raises QueueFullError, QueueTimeoutError, CancelledError, BackendError or UnavailableError, each of which counts as a
        failure. ReplacedError does not count: the caller looks the model up again.
        """

    def stream(
        self, request: CheckedRequest, frame: Frame, call: Call, arrived_ns: int, sink: Sink, *, here: bool = False
    ) -> None:
        """Queue the request and return at once; the answers go to `sink`. Raises as infer() does for a request refused at once.

        Args:
            here: True if the caller's thread may run the request when it can run at once.
        """

    def close(self, timeout_s: float) -> bool:
        """Serve the waiting requests, then release everything; return False if an instance did not end in time and was left."""
