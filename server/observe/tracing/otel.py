# SPDX-License-Identifier: Apache-2.0
"""Mode opentelemetry: spans by the official SDK, sent in batches as OTLP over HTTP. The only file that imports the SDK."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from hypersonic.installing import pip_install
from hypersonic.server.errors import StartError
from hypersonic.server.observe.tracing.span import Borders, Parent
from hypersonic.server.observe.tracing.url import GRPC_PORT, speaks_grpc, traces_url
from hypersonic.server.statistics.times import RunTimes

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

_LOG = logging.getLogger(__name__)
#: the names that Triton uses
_SERVICE_NAME = "triton-inference-server"
_SCOPE = "triton-server"


class OtlpSpan:
    """The spans of one request: two are begun when it arrives; the others are created when it ends."""

    def __init__(self, clock: Clock, model: Span, root: Span | None, trace_id: int, parent_id: int) -> None:
        """Hold the begun spans.

        Args:
            root: the request's span, None for an ensemble's step.
        """
        self._clock = clock
        self._model = model
        self._root = root
        self._trace_id = trace_id
        self._parent_id = parent_id

    def child(self, model: str, trace_id: int, arrived_ns: int) -> OtlpSpan:
        """As Span.child."""
        return OtlpSpan(self._clock, self._clock.start(model, self._model, arrived_ns), None, trace_id, self._trace_id)

    def end(self, borders: Borders) -> None:
        """As Span.end."""
        self._model.set_attributes(_attributes(borders, self._trace_id, self._parent_id))
        for name, ns in borders.events():
            if not name.startswith("COMPUTE"):
                self._model.add_event(name, timestamp=self._clock.wall_ns(ns))
        if borders.times is not None:
            self._run(borders, borders.times)
        for span in (self._model, *([self._root] if self._root is not None else ())):
            if borders.error:
                _fail(span, borders.error)
            self._clock.end(span, borders.finished_ns)

    def _run(self, borders: Borders, times: RunTimes) -> None:
        clock = self._clock
        clock.span("queue", self._model, borders.enqueued_ns, times.taken_ns)
        compute = clock.start("compute", self._model, times.taken_ns)
        for name, ns in borders.compute_events():
            compute.add_event(name, timestamp=clock.wall_ns(ns))
        clock.span("compute_input", compute, times.taken_ns, times.launched_ns)
        clock.span("compute_infer", compute, times.launched_ns, times.done_ns)
        clock.span("compute_output", compute, times.done_ns, times.answered_ns)
        clock.end(compute, times.answered_ns)


class Clock(NamedTuple):
    """Creates one request's spans, all with the same offset from monotonic time to time since the epoch."""

    tracer: Tracer
    offset_ns: int

    def wall_ns(self, ns: int) -> int:
        """Convert monotonic ns to ns since the epoch."""
        return ns + self.offset_ns

    def start(self, name: str, parent: Span, start_ns: int) -> Span:
        """Begin a span.

        Args:
            start_ns: monotonic.
        """
        from opentelemetry.trace import set_span_in_context

        return self.tracer.start_span(name, set_span_in_context(parent), start_time=self.wall_ns(start_ns))

    def end(self, span: Span, end_ns: int) -> None:
        """End a span.

        Args:
            end_ns: monotonic.
        """
        span.end(end_time=self.wall_ns(end_ns))

    def span(self, name: str, parent: Span, start_ns: int, end_ns: int) -> None:
        """Create a span from start to end, both monotonic."""
        self.end(self.start(name, parent, start_ns), end_ns)


def _attributes(borders: Borders, trace_id: int, parent_id: int) -> dict[str, str | int]:
    named: dict[str, str | int] = {"triton.model_name": borders.model, "triton.model_version": borders.version}
    numbered: dict[str, str | int] = {"triton.trace_id": trace_id, "triton.trace_parent_id": parent_id}
    return {**named, **numbered, **({"triton.request_id": borders.request_id} if borders.request_id else {})}


def _fail(span: Span, text: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, text))


class OtlpExporter:
    """An Exporter with a tracer provider of its own; nothing global is set."""

    def __init__(self, settings: Sequence[tuple[str, str]]) -> None:
        """Create the provider from these settings:

        url (default: the variables OTEL_EXPORTER_OTLP_*, otherwise http://localhost:4318/v1/traces), resource (key=value, may
        be repeated), bsp_max_queue_size, bsp_schedule_delay (ms), bsp_max_export_batch_size. Raises StartError (exit code 2) if
        the SDK is not installed or refuses the settings.
        """
        try:
            self._provider = _provider(settings)
        except ImportError as error:
            raise StartError(
                f"--trace-config mode=opentelemetry needs {error.name}, which is not installed: {pip_install('trace')}"
            ) from error
        except ValueError as error:
            raise StartError(f"--trace-config opentelemetry: {error}; correct the bsp_ settings") from error
        self._tracer = self._provider.get_tracer(_SCOPE)

    def begin(self, model: str, trace_id: int, parent: Parent | None, arrived_ns: int) -> OtlpSpan:
        """As Exporter.begin."""
        from opentelemetry.trace import SpanKind

        clock = Clock(self._tracer, time.time_ns() - time.monotonic_ns())
        start_ns = clock.wall_ns(arrived_ns)
        root = self._tracer.start_span("InferRequest", _context(parent), SpanKind.SERVER, start_time=start_ns)
        return OtlpSpan(clock, clock.start(model, root, arrived_ns), root, trace_id, 0)

    def close(self, timeout_s: float) -> None:
        """As Exporter.close: a collector that does not answer is waited for at most timeout_s seconds."""
        closing = threading.Thread(target=self._provider.shutdown, name="trace-shutdown", daemon=True)
        closing.start()
        closing.join(timeout_s)


def _provider(settings: Sequence[tuple[str, str]]) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    chosen = dict(settings)
    named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": _SERVICE_NAME}
    pairs = [value.partition("=") for name, value in settings if name == "resource"]
    provider = TracerProvider(
        ALWAYS_ON, Resource.create({**named, **{key: value for key, _, value in pairs}}), shutdown_on_exit=False
    )
    provider.add_span_processor(
        BatchSpanProcessor(
            OTLPSpanExporter(endpoint=_endpoint(chosen)),
            max_queue_size=_integer(chosen, "bsp_max_queue_size"),
            schedule_delay_millis=_integer(chosen, "bsp_schedule_delay"),
            max_export_batch_size=_integer(chosen, "bsp_max_export_batch_size"),
        )
    )
    return provider


def _endpoint(chosen: dict[str, str]) -> str | None:
    """Return the URL; None to use OTEL_EXPORTER_OTLP_* or the SDK's default."""
    if "url" not in chosen:
        _LOG.info(
            "spans are sent, as OTLP over HTTP, to the URL of OTEL_EXPORTER_OTLP_*, or http://localhost:4318/v1/traces if unset"
        )
        return None
    url = traces_url(chosen["url"])
    _LOG.info("spans are sent to %s, as OTLP over HTTP", url.rpartition("@")[2])
    if speaks_grpc(url):
        _LOG.warning("spans are sent over HTTP, to port %d, where collectors take gRPC; HTTP is usually on 4318", GRPC_PORT)
    return url


def _integer(chosen: dict[str, str], name: str) -> int | None:
    """Return the setting; None to use the SDK's default or its environment variable."""
    return int(chosen[name]) if name in chosen else None


def _context(parent: Parent | None) -> Context:
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    if parent is None:
        return Context()
    remote = SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(remote), Context())
