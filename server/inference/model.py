# SPDX-License-Identifier: Apache-2.0
"""A loaded model version as those see it who do not care how it runs, and what it asks of a request's connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hypersonic.server.config.schema import ModelConfig
from hypersonic.server.errors import ServerError
from hypersonic.server.inference.card import Card
from hypersonic.server.inference.request import CheckedRequest, Frame
from hypersonic.server.statistics.instance import InstanceFigures
from hypersonic.server.statistics.model import ModelStatistics


class Call(Protocol):
    """What the request path needs to know of the connection a request came by."""

    @property
    def client(self) -> str:
        """Whose turn a request counts as: a connection."""

    def is_active(self) -> bool:
        """False once the client cancelled, disconnected, or its deadline passed."""

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call back when the call ends, on any thread; False when it has ended already."""


class Sink(Protocol):
    """Where answers go that nobody waits for. Both may be called on any thread, also with a model's lock held: they must not
    call a model, only put what they get somewhere."""

    def respond(self, framed: Any) -> None:
        """One answer, in order."""

    def respond_error(self, error: ServerError) -> None:
        """One answer that is an error, in order; others may follow it. Of decoupled models only."""

    def end(self, error: ServerError | None) -> None:
        """There will be no more. Called once, last."""


class Model(Protocol):
    """A loaded version as front ends and monitoring see it: ScheduledModel or EnsembleModel."""

    config: ModelConfig
    version: int
    statistics: ModelStatistics
    load_duration_s: float

    @property
    def name(self) -> str: ...

    @property
    def in_service(self) -> bool: ...

    @property
    def reason(self) -> str:
        """Why it is not in service; empty while it is."""

    @property
    def waiting(self) -> int:
        """Requests that wait for an instance."""

    @property
    def working(self) -> int:
        """Requests in its queue and in its runs, those among them whose client has left."""

    @property
    def figures(self) -> Mapping[str, InstanceFigures]:
        """Per instance."""

    @property
    def waits(self) -> bool:
        """Whether a thread has to wait for each request: infer() is the way then."""

    @property
    def on_standby(self) -> bool:
        """Whether its fallback backend serves it, because no other instance is left."""

    def busy_clocks(self) -> Mapping[str, int]:
        """compute unit -> its clocks with a run in flight since load, asked of the card."""

    def cards(self) -> Mapping[str, Card]:
        """instance -> its card, for those on one."""

    def infer(self, request: CheckedRequest, frame: Frame, call: Call, arrived_ns: int) -> Any:
        """The answer, framed. Blocks until it is there.

        Raises QueueFullError, QueueTimeoutError, CancelledError, BackendError or UnavailableError; each counts as a failure.
        ReplacedError counts as none: resolve the model again.
        """

    def stream(
        self, request: CheckedRequest, frame: Frame, call: Call, arrived_ns: int, sink: Sink, *, here: bool = False
    ) -> None:
        """Returns at once; the answers go to `sink`. Raises as infer() does for what is refused at once.

        here: the caller's thread may run the request if it can be run at once.
        """

    def close(self, timeout_s: float) -> bool:
        """Serve what waits, then give everything back; False when an instance did not end in time and was left alone."""
