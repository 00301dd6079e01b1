# SPDX-License-Identifier: Apache-2.0
"""The trace of a request, made from timestamps that are taken in any case.

::

    InferRequest                                    arrived .......... finished
      <model>                                       arrived .......... finished     triton.* attributes
        queue / compute                             enqueued - taken - finished
          compute_input  compute_infer  compute_output

These are Triton's spans and events; `queue` and the three parts of `compute` are additional. With tracing off, a request costs
one read of `Tracing.active`; with tracing on, a request that is not sampled costs one increment of a counter.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from hypersonic.server.core.inference.trace import TracedCall
from hypersonic.server.errors import ReplacedError, ReplacingError, ServerError, StartError
from hypersonic.server.observe.tracing.settings import OPENTELEMETRY, TraceControl
from hypersonic.server.observe.tracing.span import Borders, Exporter, Span, parse_traceparent
from hypersonic.server.statistics.times import RunTimes

_LOG = logging.getLogger(__name__)


class Trace:
    """The trace of a sampled request, or of an ensemble's step in one. It implements StepTrace."""

    def __init__(self, span: Span, model: str, numbers: count[int]) -> None:
        self._span = span
        self._model = model
        self._numbers = numbers
        self._ended = False

    def step(self, model: str, arrived_ns: int) -> Trace:
        """Return the trace of a step of this ensemble's request, or of this model's request to another."""
        return Trace(self._span.child(model, next(self._numbers), arrived_ns), model, self._numbers)

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
        """End the trace now: the request is answered.

        Later calls do nothing. Raises nothing, since a trace must not fail a request.
        """
        if self._ended:
            return
        self._ended = True
        borders = Borders(
            *(self._model, version, request_id, arrived_ns, enqueued_ns, times, time.monotonic_ns()),
            error=str(error) if error else "",
        )
        try:
            self._span.end(borders)
        except Exception:  # noqa: BLE001 - a failure of the exporter must not fail the request
            _LOG.exception("a trace could not be recorded")


class Tracing:
    """The entry point for front ends. Created at start; TraceSetting changes its control. Any thread may use it."""

    def __init__(self, control: TraceControl, exporter: Exporter | None = None) -> None:
        """Create it.

        Args:
            exporter: None if nothing can be traced (mode triton without a file).
        """
        self.control = control
        self._exporter = exporter
        self._numbers = count(1)

    @property
    def active(self) -> bool:
        """True if any request may be sampled; otherwise begin() need not be called."""
        return self.control.active

    def begin(self, model: str, traceparent: str, arrived_ns: int) -> Trace | None:
        """Return the trace of a request, None if it is not sampled. Raises nothing.

        In mode opentelemetry, a request whose client samples its own trace is traced whatever the rate.

        Args:
            traceparent: the client's header, "" = none.
        """
        if self._exporter is None:
            return None
        parent = parse_traceparent(traceparent) if traceparent and self.control.config.mode == OPENTELEMETRY else None
        if not self.control.sample(model, forced=parent is not None and parent.sampled):
            return None
        try:
            span = self._exporter.begin(model, number := next(self._numbers), parent, arrived_ns)
            return Trace(span, model, self._numbers)
        except Exception:  # noqa: BLE001 - as above
            _LOG.exception("trace %d could not be started", number)
            return None

    @contextmanager
    def following(self, call: Any, model: str, version: int, request_id: str, arrived_ns: int) -> Iterator[Any]:
        """Yield the call to continue with: a TracedCall if this request is sampled, otherwise `call`.

        The call's attribute `traceparent`, if it has one, is the client's header. The model ends the trace; for a request that
        is refused before it reaches the model, the trace ends here.
        """
        trace = self.begin(model, getattr(call, "traceparent", ""), arrived_ns)
        if trace is None:
            yield call
            return
        try:
            yield TracedCall(call, trace)
        except (ReplacedError, ReplacingError):
            raise
        except ServerError as error:
            trace.end(version, request_id, arrived_ns, error=error)
            raise

    def close(self, timeout_s: float) -> None:
        """Send the remaining traces, within timeout_s seconds."""
        if self._exporter is not None:
            self._exporter.close(timeout_s)


def open_tracing(control: TraceControl) -> Tracing:
    """Return the tracing with the exporter of its mode.

    Raises StartError (exit code 2) if its packages are not installed or the file cannot be written.
    """
    config = control.config
    if config.mode == OPENTELEMETRY:
        from hypersonic.server.observe.tracing.otel import OtlpExporter

        return Tracing(control, OtlpExporter(config.exporter))
    if not config.file:
        if config.settings.enabled:
            raise StartError("--trace-config has a level but no file, expected triton,file=<path> or mode=opentelemetry")
        return Tracing(control)
    from hypersonic.server.observe.tracing.file import FileExporter

    return Tracing(control, FileExporter(config.file, lambda model: control.settings(model).log_frequency))
