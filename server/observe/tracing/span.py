# SPDX-License-Identifier: Apache-2.0
"""A traced request as an exporter receives it: its parent, and its timestamps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from hypersonic.server.statistics.times import RunTimes

#: https://www.w3.org/TR/trace-context/: version 00 and later
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class Parent(NamedTuple):
    """The client's span.

    Attributes:
        sampled: True if the client records it.
    """

    trace_id: int
    span_id: int
    sampled: bool


def parse_traceparent(text: str) -> Parent | None:
    """Parse a traceparent header (W3C Trace Context); return None if it is missing or invalid."""
    match = _TRACEPARENT.fullmatch(text) if len(text) < 256 else None
    return Parent(int(match[1], 16), int(match[2], 16), bool(int(match[3], 16) & 1)) if match else None


class Borders(NamedTuple):
    """A traced request and its timestamps, in monotonic ns.

    Attributes:
        enqueued_ns: 0 if it was never queued.
        times: of its run, None if it did not run.
        error: "" for success.
    """

    model: str
    version: int
    request_id: str
    arrived_ns: int
    enqueued_ns: int
    times: RunTimes | None
    finished_ns: int
    error: str = ""

    def events(self) -> Iterator[tuple[str, int]]:
        """Iterate over Triton's events of the request, in order."""
        yield "REQUEST_START", self.arrived_ns
        if self.enqueued_ns:
            yield "QUEUE_START", self.enqueued_ns
        yield from self.compute_events()
        yield "REQUEST_END", self.finished_ns

    def compute_events(self) -> Iterator[tuple[str, int]]:
        """Iterate over Triton's events of its run, in order."""
        if self.times is not None:
            yield "COMPUTE_START", self.times.taken_ns
            yield "COMPUTE_INPUT_END", self.times.launched_ns
            yield "COMPUTE_OUTPUT_START", self.times.done_ns
            yield "COMPUTE_END", self.times.answered_ns


class Span(Protocol):
    """A trace in progress, as an exporter keeps it."""

    def child(self, model: str, trace_id: int, arrived_ns: int) -> Span:
        """Return the span of an ensemble's step, or of a model's request to another model.

        Args:
            arrived_ns: monotonic.
        """

    def end(self, borders: Borders) -> None:
        """Complete the trace with all its timestamps."""


class Exporter(Protocol):
    """A destination of traces. Any thread may use it."""

    def begin(self, model: str, trace_id: int, parent: Parent | None, arrived_ns: int) -> Span:
        """Begin the trace of a request.

        Args:
            parent: the client's span, None if it sent none.
            arrived_ns: monotonic.
        """

    def close(self, timeout_s: float) -> None:
        """Send the remaining traces, within timeout_s seconds."""
