# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of Kubernetes' HorizontalPodAutoscaler for one external metric, and what KEDA gives it.

Source: GetExternalMetricReplicas and GetExternalPerPodMetricReplicas of Kubernetes' podautoscaler. For queries without a
result: KEDA's documentation of its Prometheus scaler.
"""

from __future__ import annotations

import math
from typing import Any

#: --horizontal-pod-autoscaler-tolerance
TOLERANCE = 0.1


def decide(scaled_object: dict[str, Any], current: int, values: list[float], ready: int | None = None) -> int:
    """The number of servers that it wants, of `current` ones of which `ready` are ready (all of them if None).

    values: what the query yields. No value is an error with ignoreNullValues "false", and the number stays; otherwise it is 0.
    """
    spec = scaled_object["spec"]
    (trigger,) = spec["triggers"]
    if not values and trigger["metadata"].get("ignoreNullValues", "true") == "false":
        return current
    assert len(values) <= 1, "KEDA refuses a query with several results"
    value = values[0] if values else 0.0
    assert math.isfinite(value), "KEDA refuses infinite values"
    target = float(trigger["metadata"]["threshold"])
    ready = current if ready is None else ready
    if trigger["metricType"] == "Value":
        ratio, wanted = value / target, math.ceil(ready * value / target - 1e-9)
    else:
        ratio, wanted = value / (target * current), math.ceil(value / target - 1e-9)
    if abs(1 - ratio) <= TOLERANCE:
        wanted = current
    return max(spec["minReplicaCount"], min(spec["maxReplicaCount"], wanted))
