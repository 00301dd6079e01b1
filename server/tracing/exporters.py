# SPDX-License-Identifier: Apache-2.0
"""The choice of the exporter that the server's trace options ask for."""

from __future__ import annotations

import logging

from hypersonic.server.errors import StartError
from hypersonic.server.tracing.settings import OPENTELEMETRY, TENSORS, TraceControl
from hypersonic.server.tracing.trace import Tracing

_LOG = logging.getLogger(__name__)


def open_tracing(control: TraceControl) -> Tracing:
    """Return the tracing with the exporter of its mode.

    Raises StartError (exit code 2) if its packages are not installed or the file cannot be written.
    """
    config = control.config
    if TENSORS in config.settings.level and config.mode == OPENTELEMETRY:
        _LOG.warning("trace level TENSORS: tensors are not traced in mode opentelemetry, only times are")
    if config.mode == OPENTELEMETRY:
        from hypersonic.server.tracing.otel import OtlpExporter

        return Tracing(control, OtlpExporter(config.exporter))
    if not config.file:
        if config.settings.enabled:
            raise StartError("--trace-config has a level but no file, expected triton,file=<path> or mode=opentelemetry")
        return Tracing(control, None)
    from hypersonic.server.tracing.file import FileExporter

    return Tracing(control, FileExporter(config.file, lambda model: control.settings(model).log_frequency))
