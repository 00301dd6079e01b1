# SPDX-License-Identifier: Apache-2.0
"""The trace context of the caller as headers, if OpenTelemetry is installed (extra `trace`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hypersonic.client.transport.call import Headers


def trace_headers() -> Headers:
    """Return `traceparent` and related headers for the current span; empty without a span or baggage."""
    functions = _opentelemetry()
    if functions is None:
        return ()
    current, inject = functions
    if not current():
        return ()
    carrier: dict[str, str] = {}
    inject(carrier)
    return tuple((name.lower(), value) for name, value in carrier.items())


@cache
def _opentelemetry() -> tuple[Callable[[], Any], Callable[[dict[str, str]], None]] | None:
    """OpenTelemetry's functions that return the current context and write it into headers; None if it is not installed."""
    try:
        from opentelemetry import context, propagate
    except ImportError:
        return None
    return context.get_current, propagate.inject
