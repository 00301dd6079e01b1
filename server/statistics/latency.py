# SPDX-License-Identifier: Apache-2.0
"""How the latencies of one model version are distributed: what its statistics keep beside counts and sums."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from tritonclient.grpc import model_config_pb2

from hypersonic.server.statistics.histogram import Histogram, SlidingQuantiles
from hypersonic.server.statistics.latency_options import MetricsConfig

PHASES = ("request", "queue", "compute_input", "compute_infer", "compute_output")
#: the names of the upstream proposal (triton-inference-server/core#474)
HISTOGRAMS = {phase: f"nv_inference_{phase}_duration_histogram_us" for phase in PHASES}
FIRST_RESPONSE = "nv_inference_first_response_histogram_ms"
_US, _MS = 1000, 1_000_000
_DEFAULT_US = tuple(step * decade for decade in (10, 100, 1000, 10_000, 100_000, 1_000_000) for step in (1, 2.5, 5))[2:]
_BOUNDS_US = tuple(int(bound) for bound in (*_DEFAULT_US, 10_000_000))
_BOUNDS_MS = (100, 500, 2000, 5000)
#: buckets of one histogram that a config.pbtxt may ask for
_MOST_BUCKETS = 256


class Latencies:
    """Of one model version, under its statistics' lock. What is not published is not kept."""

    __slots__ = ("first_response", "histograms", "kept", "summaries")

    def __init__(
        self,
        histograms: Sequence[Histogram] = (),
        summaries: Sequence[SlidingQuantiles] = (),
        first_response: Histogram | None = None,
    ) -> None:
        """histograms, summaries: one per phase, or none."""
        self.histograms = tuple(histograms)
        self.summaries = tuple(summaries)
        self.first_response = first_response
        #: whether add() does anything
        self.kept = bool(self.histograms or self.summaries)

    @classmethod
    def of(cls, config: MetricsConfig, message: model_config_pb2.ModelConfig) -> Latencies:
        """As the server's options and the model's model_metrics say."""
        buckets = _own_buckets(message)
        decoupled = message.model_transaction_policy.decoupled
        return cls(
            [Histogram(_scaled(buckets.get(name, _BOUNDS_US), _US)) for name in HISTOGRAMS.values()]
            if config.histogram_latencies
            else (),
            [SlidingQuantiles() for _ in PHASES] if config.summary_latencies else (),
            Histogram(_scaled(buckets.get(FIRST_RESPONSE, _BOUNDS_MS), _MS))
            if decoupled and config.histogram_latencies
            else None,
        )

    def add(self, durations_ns: Sequence[int], now_ns: int) -> None:
        """A successful request; a duration per phase."""
        for histogram, ns in zip(self.histograms, durations_ns, strict=False):  # Histogram.add, without five calls
            histogram.counts[bisect_left(histogram.bounds_ns, ns)] += 1
            histogram.total_ns += ns
        for summary, ns in zip(self.summaries, durations_ns, strict=False):
            summary.add(ns, now_ns)

    def add_first_response(self, ns: int) -> None:
        """From a decoupled request's arrival to its first answer."""
        if self.first_response is not None:
            self.first_response.add(ns)

    def copy(self) -> Latencies:
        first = self.first_response.copy() if self.first_response is not None else None
        return Latencies([h.copy() for h in self.histograms], [s.copy() for s in self.summaries], first)


def _own_buckets(message: model_config_pb2.ModelConfig) -> Mapping[str, tuple[float, ...]]:
    """config.pbtxt's model_metrics { metric_control { ... } }: family -> buckets, those that are usable."""
    controls = message.model_metrics.metric_control
    found = {c.metric_identifier.family: tuple(sorted(set(c.histogram_options.buckets))) for c in controls}
    return {family: buckets for family, buckets in found.items() if 0 < len(buckets) <= _MOST_BUCKETS}


def _scaled(bounds: Sequence[float], unit_ns: int) -> list[int]:
    return [int(bound * unit_ns) for bound in bounds]
