# SPDX-License-Identifier: Apache-2.0
"""The options that choose which latencies are published, and how: --metrics-config, and model_metrics in config.pbtxt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tritonclient.grpc import model_config_pb2

from hypersonic.server.errors import StartError
from hypersonic.server.statistics.histogram import Histogram, SlidingQuantiles
from hypersonic.server.statistics.latency import FIRST_RESPONSE, HISTOGRAMS, PHASES, Latencies

_SWITCHES = ("counter_latencies", "histogram_latencies", "summary_latencies")
_EXPECTED = f"{', '.join(f'{name}=true|false' for name in _SWITCHES)} and summary_quantiles=<quantile>:<error>,..."


_US, _MS = 1000, 1_000_000
_DEFAULT_US = tuple(step * decade for decade in (10, 100, 1000, 10_000, 100_000, 1_000_000) for step in (1, 2.5, 5))[2:]
_BOUNDS_US = tuple(int(bound) for bound in (*_DEFAULT_US, 10_000_000))
_BOUNDS_MS = (100, 500, 2000, 5000)
#: the most buckets of one histogram that a config.pbtxt may ask for
_MOST_BUCKETS = 256


@dataclass(frozen=True)
class MetricsConfig:
    """The settings of --metrics-config, as in Triton. The default differs: histograms are on here. They cost one microsecond
    per request.

    Attributes:
        counter_latencies: the nv_inference_*_duration_us counters.
        quantiles: of summaries, each from 0 to 1.
    """

    counter_latencies: bool = True
    histogram_latencies: bool = True
    summary_latencies: bool = False
    quantiles: tuple[float, ...] = (0.5, 0.9, 0.95, 0.99, 0.999)

    @classmethod
    def of(cls, texts: Sequence[str]) -> MetricsConfig:
        """Parse texts of the form `setting=value`. Raises StartError for any other text."""
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
    """Parse the quantiles. Their errors are checked but not used: the error here is always 1 % of the value."""
    try:
        pairs = [(float(quantile), float(error)) for quantile, error in (pair.split(":") for pair in value.split(","))]
    except ValueError:
        pairs = []
    if not pairs or not all(0 <= quantile <= 1 and 0 <= error <= 1 for quantile, error in pairs):
        raise StartError(f"--metrics-config is {text!r}, expected quantiles and errors from 0 to 1: {_EXPECTED}")
    return tuple(quantile for quantile, _ in pairs)


def make_latencies(config: MetricsConfig, message: model_config_pb2.ModelConfig) -> Latencies:
    """Return the distributions to keep for a model version, by the server's options and the model's model_metrics."""
    buckets = _own_buckets(message)
    decoupled = message.model_transaction_policy.decoupled
    return Latencies(
        [Histogram(_scaled(buckets.get(name, _BOUNDS_US), _US)) for name in HISTOGRAMS.values()]
        if config.histogram_latencies
        else (),
        [SlidingQuantiles() for _ in PHASES] if config.summary_latencies else (),
        Histogram(_scaled(buckets.get(FIRST_RESPONSE, _BOUNDS_MS), _MS)) if decoupled and config.histogram_latencies else None,
    )


def _own_buckets(message: model_config_pb2.ModelConfig) -> Mapping[str, tuple[float, ...]]:
    """Return family -> buckets from model_metrics { metric_control { ... } } of config.pbtxt, without unusable ones."""
    controls = message.model_metrics.metric_control
    families = {c.metric_identifier.family: tuple(sorted(set(c.histogram_options.buckets))) for c in controls}
    return {family: buckets for family, buckets in families.items() if 0 < len(buckets) <= _MOST_BUCKETS}


def _scaled(bounds: Sequence[float], unit_ns: int) -> list[int]:
    return [int(bound * unit_ns) for bound in bounds]
