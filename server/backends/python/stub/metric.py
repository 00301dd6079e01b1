# SPDX-License-Identifier: Apache-2.0
"""MetricFamily and Metric: a model's own counters and gauges on the server's /metrics."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from enum import IntEnum
from typing import ClassVar

from hypersonic.server.backends.python.stub.calls import PROCESS
from hypersonic.server.backends.python.stub.errors import TritonModelException


class MetricKind(IntEnum):
    """The values of TRITONSERVER_MetricKind."""

    COUNTER = 0
    GAUGE = 1


class MetricFamily:
    """A name, its description, and a Metric for each set of labels."""

    COUNTER: ClassVar = MetricKind.COUNTER
    GAUGE: ClassVar = MetricKind.GAUGE

    def __init__(self, name: str, description: str, kind: MetricKind) -> None:
        """Create the family in the server.

        Raises TypeError for a wrong kind, and TritonModelException for a name that Prometheus does not accept or that exists
        with another kind.
        """
        if not isinstance(kind, MetricKind):
            raise TypeError(f"MetricFamily: kind must be MetricFamily.COUNTER or GAUGE, got {kind!r}")
        self.name = name
        self.kind = kind
        _ask(["family", 0, name, description, int(kind)], "create metric family")

    def Metric(self, labels: Mapping[str, str] | None = None) -> Metric:  # noqa: N802 - Triton's name
        """Return the metric with this set of labels."""
        return Metric(self, labels)


class Metric:
    """A value kept by the server: it outlives this process, as Prometheus expects of a counter."""

    def __init__(self, family: MetricFamily, labels: Mapping[str, str] | None = None) -> None:
        self._family = family
        self._labels = {str(name): str(value) for name, value in (labels or {}).items()}
        self._lock = threading.Lock()
        self._change("increment", 0.0)

    def increment(self, value: float) -> None:
        """Add a value. Raises TritonModelException for a negative value of a counter."""
        if self._family.kind is MetricKind.COUNTER and value < 0:
            raise TritonModelException(
                "Failed to increment metric value: TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by "
                "non-negative values."
            )
        self._change("increment", value)

    def set(self, value: float) -> None:
        """Set a gauge. Raises TritonModelException for a counter."""
        if self._family.kind is MetricKind.COUNTER:
            raise TritonModelException("Failed to set metric value: TRITONSERVER_METRIC_KIND_COUNTER does not support Set")
        self._change("set", value)

    def observe(self, value: float) -> None:
        """Raise TritonModelException: it is for histograms, which this server does not have."""
        del value
        kind = f"TRITONSERVER_METRIC_KIND_{self._family.kind.name}"
        raise TritonModelException(f"Failed to observe metric value: {kind} does not support Observe")

    def value(self) -> float:
        """Return the server's value."""
        return self._change("increment", 0.0)

    def _change(self, how: str, value: float) -> float:
        with self._lock:
            return _ask(["metric", 0, self._family.name, self._labels, how, float(value)], f"{how} metric value")


def _ask(message: list[object], what: str) -> float:
    if PROCESS.calls is None:
        return 0.0
    (_, _, error, value), _ = PROCESS.calls.ask(message).only()
    if error is not None:
        raise TritonModelException(f"Failed to {what}: {error}")
    return float(value)
