# SPDX-License-Identifier: Apache-2.0
"""Metrics that models define (MetricFamily, Metric), kept in the server."""

from __future__ import annotations

import math
import re
import threading
from dataclasses import dataclass, field
from typing import Any

from hypersonic.server.backends.python.answer import printable
from hypersonic.server.errors import InvalidRequestError
from hypersonic.server.statistics.exposition import Family, Sample

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,199}")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,199}")
#: prefixes of the server's own metrics, which models may not define
_RESERVED = ("nv_", "fpga_")
_KINDS = ("counter", "gauge")
#: the most families, and label sets per family, so that a model that adds one per request does not fill the memory
_MOST = 1000

Labels = tuple[tuple[str, str], ...]


@dataclass
class _Family:
    description: str
    kind: str
    values: dict[Labels, float] = field(default_factory=dict)


class CustomMetrics:
    """The metrics of all models of a backend. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._families: dict[str, _Family] = {}

    def add_family(self, name: Any, description: Any, kind: Any) -> None:
        """Add a family; an existing one may be added again with the same kind. Raises InvalidRequestError."""
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith(_RESERVED):
            raise InvalidRequestError(f"{name!r} is not a metric name that a model may use")
        if kind not in (0, 1):
            raise InvalidRequestError(f"metric {name}: kind is {kind!r}, expected COUNTER or GAUGE")
        with self._lock:
            family = self._families.get(name)
            if family is not None and family.kind != _KINDS[kind]:
                raise InvalidRequestError(f"metric {name} is a {family.kind} already")
            if family is None and len(self._families) >= _MOST:
                raise InvalidRequestError(f"there are {_MOST} metric families already")
            if family is None:
                self._families[name] = _Family(printable(" ".join(str(description).split())), _KINDS[kind])

    def change(self, name: Any, labels: Any, how: Any, value: Any) -> float:
        """Change a value and return the new one.

        Raises InvalidRequestError.

        Args:
            how: "increment" or "set".
        """
        key = _labels(labels)
        with self._lock:
            family = self._families.get(name) if isinstance(name, str) else None
            if family is None or not isinstance(value, float) or not math.isfinite(value):
                raise InvalidRequestError(f"metric family {name!r} does not exist, or the value is not finite: {value!r}")
            if key not in family.values and len(family.values) >= _MOST:
                raise InvalidRequestError(f"metric {name} has {_MOST} sets of labels already")
            if family.kind == "counter" and (how == "set" or value < 0):
                raise InvalidRequestError(f"metric {name} is a counter: it can only be incremented")
            result = value if how == "set" else family.values.get(key, 0.0) + value
            if not math.isfinite(result):
                raise InvalidRequestError(f"metric {name} overflows")
            family.values[key] = result
            return result

    def families(self) -> list[Family]:
        """Return the families for /metrics, in order of name."""
        with self._lock:
            return [
                Family(
                    name, family.kind, family.description, [Sample(dict(key), value) for key, value in family.values.items()]
                )
                for name, family in sorted(self._families.items())
            ]


def _labels(labels: Any) -> Labels:
    if not isinstance(labels, dict) or not all(_LABEL.fullmatch(name) and isinstance(labels[name], str) for name in labels):
        raise InvalidRequestError(f"metric labels are {labels!r}, expected names of letters, digits and '_', and text")
    return tuple(sorted((name, printable(value)) for name, value in labels.items()))
