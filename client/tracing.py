# SPDX-License-Identifier: Apache-2.0
"""The trace context of the caller as headers, if OpenTelemetry is installed (`hypersonic[trace]`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from hypersonic.client.transport.call import Headers


def trace_headers() -> Headers:
    """Return `traceparent` and its kin for the current span; none without a span."""
    inject = _injector()
    carrier: dict[str, str] = {}
    if inject is not None:
        inject(carrier)
    return tuple((name.lower(), value) for name, value in carrier.items())


@cache
def _injector() -> Callable[[dict[str, str]], None] | None:
    try:
        from opentelemetry import propagate
    except ImportError:
        return None
    return propagate.inject
