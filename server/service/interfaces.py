# SPDX-License-Identifier: Apache-2.0
"""Tracing and streams as the service sees them; server/app.py gives it the real ones."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from hypersonic.server.inference.model import Call


class Tracer(Protocol):
    """Traces of sampled requests; tracing/trace.py's Tracing."""

    @property
    def active(self) -> bool:
        """Whether following() is worth calling."""

    def following(self, call: Call, model: str, version: int, request_id: str, arrived_ns: int) -> AbstractContextManager[Any]:
        """The call to go on with, which carries the trace if this request is sampled."""

    def close(self, timeout_s: float) -> None:
        """Send what is left."""


class NoTracer:
    """Traces nothing."""

    active = False

    def following(
        self, call: Call, _model: str, _version: int, _request_id: str, _arrived_ns: int
    ) -> AbstractContextManager[Any]:
        return nullcontext(call)

    def close(self, timeout_s: float) -> None:
        del timeout_s


class OpenStream(Protocol):
    """A ModelStreamInfer call."""

    def end(self, text: str) -> None:
        """End it now, telling its client why."""
