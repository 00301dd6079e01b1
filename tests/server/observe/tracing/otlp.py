# SPDX-License-Identifier: Apache-2.0
"""A collector: takes OTLP over HTTP and keeps the spans."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Collector:
    """resources: attributes of what sent the spans. paths: where they were sent."""

    url: str = ""
    spans: list[Any] = field(default_factory=list)
    resources: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, body: bytes) -> None:
        message = ExportTraceServiceRequest.FromString(body)
        with self._changed:
            for of_resource in message.resource_spans:
                self.resources.append({a.key: a.value.string_value for a in of_resource.resource.attributes})
                self.spans += [span for scope in of_resource.scope_spans for span in scope.spans]
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[Collector], bool], timeout_s: float = 30.0) -> None:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), deadline - time.monotonic()), self.names

    @property
    def names(self) -> list[str]:
        return sorted(span.name for span in self.spans)

    def of_trace(self, trace_id: bytes) -> dict[str, Any]:
        return {span.name: span for span in self.spans if span.trace_id == trace_id}


@contextmanager
def collecting() -> Iterator[Collector]:
    """On a free port of the loopback interface."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.paths.append(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.take(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        collector.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


def attributes(span: Any) -> dict[str, str | int]:
    return {a.key: a.value.string_value or a.value.int_value for a in span.attributes}
