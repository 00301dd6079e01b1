# SPDX-License-Identifier: Apache-2.0
"""Tracing with given settings."""

from __future__ import annotations

from hypersonic.server.observe.tracing.settings import TraceConfig, TraceControl
from hypersonic.server.observe.tracing.trace import Tracing, open_tracing


def tracing(*texts: str) -> Tracing:
    return open_tracing(TraceControl(TraceConfig.of(texts)))
