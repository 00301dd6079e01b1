# SPDX-License-Identifier: Apache-2.0
"""The interface of a trace for the code that does the work: models, ensembles, and models that call other models.

observe/tracing/trace.py implements it. The call of a sampled request carries its trace as the attribute `trace`.
"""

from __future__ import annotations

from typing import Protocol

from hypersonic.server.core.inference.model import Call
from hypersonic.server.statistics.times import RunTimes


class StepTrace(Protocol):
    """The trace of one request to one model; server/core/scheduling/model.py calls end() when the request is completed."""

    def step(self, model: str, arrived_ns: int) -> StepTrace:
        """Return the trace of a request that this one causes: an ensemble's step, or a model's request to another model."""

    def end(
        self,
        version: int,
        request_id: str,
        arrived_ns: int,
        *,
        enqueued_ns: int = 0,
        times: RunTimes | None = None,
        error: Exception | None = None,
    ) -> None:
        """End the trace: the request has been answered, or has failed with `error`."""


class TracedCall:
    """A call with the trace of its request."""

    __slots__ = ("add_callback", "client", "is_active", "trace")

    def __init__(self, call: Call, trace: StepTrace) -> None:
        """Create a TracedCall.

        Args:
            call: what it is for everything but the trace.
        """
        self.client = call.client
        self.is_active = call.is_active
        self.add_callback = call.add_callback
        self.trace = trace


def find_trace(call: object) -> StepTrace | None:
    """Return the trace of the request that was received on this call, or None if it is not sampled."""
    trace: StepTrace | None = getattr(call, "trace", None)
    return trace
