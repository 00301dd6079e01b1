# SPDX-License-Identifier: Apache-2.0
"""--metrics-config: which latencies are published, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypersonic.server.errors import StartError

_SWITCHES = ("counter_latencies", "histogram_latencies", "summary_latencies")
_EXPECTED = f"{', '.join(f'{name}=true|false' for name in _SWITCHES)} and summary_quantiles=<quantile>:<error>,..."


@dataclass(frozen=True)
class MetricsConfig:
    """Triton's settings. Histograms are on here where Triton has them off: they cost a microsecond a request.

    counters: the nv_inference_*_duration_us; quantiles: of summaries, each in 0 to 1.
    """

    counter_latencies: bool = True
    histogram_latencies: bool = True
    summary_latencies: bool = False
    quantiles: tuple[float, ...] = (0.5, 0.9, 0.95, 0.99, 0.999)

    @classmethod
    def of(cls, texts: Sequence[str]) -> MetricsConfig:
        """From `setting=value`. Raises StartError."""
        config = cls()
        for text in texts:
            name, _, value = text.partition("=")
            if name in _SWITCHES and value in ("true", "false"):
                switched: dict[str, Any] = {name: value == "true"}
                config = replace(config, **switched)
            elif name == "summary_quantiles":
                config = replace(config, quantiles=_quantiles(text, value))
            else:
                raise StartError(f"--metrics-config is {text!r}, expected one of {_EXPECTED}")
        return config


def _quantiles(text: str, value: str) -> tuple[float, ...]:
    """The errors are read and not used: ours is 1 % of the value, whatever the quantile."""
    try:
        pairs = [(float(quantile), float(error)) for quantile, error in (pair.split(":") for pair in value.split(","))]
    except ValueError:
        pairs = []
    if not pairs or not all(0 <= quantile <= 1 and 0 <= error <= 1 for quantile, error in pairs):
        raise StartError(f"--metrics-config is {text!r}, expected quantiles and errors from 0 to 1: {_EXPECTED}")
    return tuple(quantile for quantile, _ in pairs)
