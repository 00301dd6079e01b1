# SPDX-License-Identifier: Apache-2.0
"""The interfaces of tracing and of streams that the service uses. server/app.py and the front ends provide the objects."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from hypersonic.server.inference.model import Call


class Tracer(Protocol):
    """Makes traces of sampled requests. Tracing in tracing/trace.py implements it."""

    @property
    def active(self) -> bool:
        """True if any request may be traced, so that following() has to be called."""

    def following(self, call: Call, model: str, version: int, request_id: str, arrived_ns: int) -> AbstractContextManager[Any]:
        """Return a context manager that yields the call to use from now on, which carries a trace if the request is sampled.

        arrived_ns: of time.monotonic_ns().
        """

    def close(self, timeout_s: float) -> None:
        """Send the remaining traces. Waits at most `timeout_s` seconds."""


class NoTracer:
    """Traces nothing."""

    active = False

    def following(
        self, call: Call, _model: str, _version: int, _request_id: str, _arrived_ns: int
    ) -> AbstractContextManager[Any]:
        """Return a context manager that yields `call` itself."""
        return nullcontext(call)

    def close(self, timeout_s: float) -> None:
        """Do nothing."""
        del timeout_s


class OpenStream(Protocol):
    """An open ModelStreamInfer call."""

    def end(self, text: str) -> None:
        """End the call now. text: the reason, for its client."""
