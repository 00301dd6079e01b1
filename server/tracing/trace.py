# SPDX-License-Identifier: Apache-2.0
"""A trace of a request, from the times it carries anyway.

    InferRequest                                    arrived .......... finished
      <model>                                       arrived .......... finished     triton.* attributes
        queue / compute                             enqueued - taken - finished
          compute_input  compute_infer  compute_output

Triton's spans and events, and below `compute` its three parts, and `queue`. With tracing off a request costs one look at
`Tracing.active`; with it on, one count more for each that is not sampled.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from hypersonic.server.config.schema import ModelConfig
from hypersonic.server.errors import ReplacedError, ReplacingError, ServerError
from hypersonic.server.inference.request import Frame, InputTensor
from hypersonic.server.statistics.times import RunTimes
from hypersonic.server.tracing.settings import OPENTELEMETRY, TENSORS, TIMESTAMPS, TRITON, TraceControl
from hypersonic.server.tracing.span import Borders, Exporter, Span, parse_traceparent
from hypersonic.server.tracing.tensors import TensorLog

_LOG = logging.getLogger(__name__)


class Trace:
    """A sampled request, or an ensemble's step of one."""

    def __init__(self, span: Span, model: str, numbers: count[int], level: Sequence[str] = (TIMESTAMPS,)) -> None:
        self._span = span
        self._model = model
        self._numbers = numbers
        self._level = level
        self._tensors = TensorLog() if TENSORS in level else None
        self._ended = False

    def step(self, model: str, arrived_ns: int) -> Trace:
        """The trace of a step of this ensemble's request, or of what this model asks another."""
        return Trace(self._span.child(model, next(self._numbers), arrived_ns), model, self._numbers, self._level)

    def received(self, tensors: Sequence[InputTensor]) -> None:
        """The request's inputs; does nothing without level TENSORS."""
        if self._tensors is not None:
            self._tensors.received(tensors)

    def framing(self, frame: Frame, config: ModelConfig) -> Frame:
        """The frame, which notes what it frames with level TENSORS."""
        return frame if self._tensors is None else self._tensors.framing(frame, config)

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
        """The request is answered, now; later calls do nothing. Raises nothing: a trace must not fail a request."""
        if self._ended:
            return
        self._ended = True
        borders = Borders(
            *(self._model, version, request_id, arrived_ns, enqueued_ns, times, time.monotonic_ns()),
            error=str(error) if error else "",
            tensors=self._tensors.tensors if self._tensors else (),
            timed=TIMESTAMPS in self._level,
        )
        try:
            self._span.end(borders)
        except Exception:  # noqa: BLE001 - the exporter's failure is not the request's
            _LOG.exception("a trace could not be recorded")


class TracedCall:
    """A front end's call of a request that is traced."""

    __slots__ = ("add_callback", "client", "is_active", "trace")

    def __init__(self, call: Any, trace: Trace) -> None:
        self.client: str = call.client
        self.is_active: Callable[[], bool] = call.is_active
        self.add_callback: Callable[[Callable[[], None]], bool] = call.add_callback
        self.trace = trace


class Tracing:
    """What front ends ask. Made at start; TraceSetting changes its control."""

    def __init__(self, control: TraceControl, exporter: Exporter | None) -> None:
        """exporter: None when nothing could be traced anyway (mode triton without a file)."""
        self.control = control
        self._exporter = exporter
        self._numbers = count(1)

    @property
    def active(self) -> bool:
        """Whether begin() is worth calling."""
        return self.control.active

    def begin(self, model: str, traceparent: str, arrived_ns: int) -> Trace | None:
        """The trace of a request that is sampled. traceparent: the client's header, "" = none; in mode opentelemetry a client
        that samples its own trace has its request traced, whatever the rate. Raises nothing."""
        if self._exporter is None:
            return None
        parent = parse_traceparent(traceparent) if traceparent and self.control.config.mode == OPENTELEMETRY else None
        if not self.control.sample(model, forced=parent is not None and parent.sampled):
            return None
        try:
            span = self._exporter.begin(model, number := next(self._numbers), parent, arrived_ns)
            return Trace(span, model, self._numbers, self._level(model))
        except Exception:  # noqa: BLE001 - the same
            _LOG.exception("trace %d could not be begun", number)
            return None

    @contextmanager
    def following(self, call: Any, model: str, version: int, request_id: str, arrived_ns: int) -> Iterator[Any]:
        """The call to go on with: a TracedCall if this request is sampled. Its attribute `traceparent`, if it has one, is the
        client's header. The model ends the trace; for a request that is refused before it gets there it ends here."""
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

    def _level(self, model: str) -> Sequence[str]:
        """Tensors go into Triton's files only, as in Triton; spans are nothing but times."""
        config = self.control.config
        return self.control.settings(model).level if config.mode == TRITON else (TIMESTAMPS,)

    def close(self, timeout_s: float) -> None:
        """Send what is left."""
        if self._exporter is not None:
            self._exporter.close(timeout_s)
