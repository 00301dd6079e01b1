# SPDX-License-Identifier: Apache-2.0
"""A traced request as an exporter takes it: whose child it is, and when it passed its borders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from hypersonic.server.statistics.times import RunTimes
from hypersonic.server.tracing.tensors import TracedTensor

#: https://www.w3.org/TR/trace-context/: version 00 and later
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class Parent(NamedTuple):
    """The client's span. sampled: whether it is recorded there."""

    trace_id: int
    span_id: int
    sampled: bool


def parse_traceparent(text: str) -> Parent | None:
    """A traceparent header; None when there is none, or none that is valid."""
    match = _TRACEPARENT.fullmatch(text) if len(text) < 256 else None
    return Parent(int(match[1], 16), int(match[2], 16), bool(int(match[3], 16) & 1)) if match else None


class Borders(NamedTuple):
    """What a request was and when it passed its borders, monotonic ns. enqueued_ns: 0 when it never was; times: of its run."""

    model: str
    version: int
    request_id: str
    arrived_ns: int
    enqueued_ns: int
    times: RunTimes | None
    finished_ns: int
    error: str = ""
    #: for level TENSORS
    tensors: Sequence[TracedTensor] = ()
    #: whether level TIMESTAMPS is on
    timed: bool = True

    def events(self) -> Iterator[tuple[str, int]]:
        """Triton's events of the request itself, in their order."""
        yield "REQUEST_START", self.arrived_ns
        if self.enqueued_ns:
            yield "QUEUE_START", self.enqueued_ns
        yield from self.compute_events()
        yield "REQUEST_END", self.finished_ns

    def compute_events(self) -> Iterator[tuple[str, int]]:
        """Triton's events of its run."""
        if self.times is not None:
            yield "COMPUTE_START", self.times.taken_ns
            yield "COMPUTE_INPUT_END", self.times.launched_ns
            yield "COMPUTE_OUTPUT_START", self.times.done_ns
            yield "COMPUTE_END", self.times.answered_ns


class Span(Protocol):
    """A trace in an exporter's hands."""

    def child(self, model: str, trace_id: int, arrived_ns: int) -> Span:
        """Of an ensemble's step."""

    def end(self, borders: Borders) -> None:
        """Everything is known."""


class Exporter(Protocol):
    """Where traces go. Any thread."""

    def begin(self, model: str, trace_id: int, parent: Parent | None, arrived_ns: int) -> Span: ...

    def close(self, timeout_s: float) -> None:
        """Send what is left; at most that long."""
