# SPDX-License-Identifier: Apache-2.0
"""Latencies: the distributions of one model version's latencies, which its statistics keep in addition to counts and sums."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from hypersonic.server.statistics.histogram import Histogram, SlidingQuantiles

PHASES = ("request", "queue", "compute_input", "compute_infer", "compute_output")
#: phase -> name of its histogram, as in Triton's proposal (triton-inference-server/core#474)
HISTOGRAMS = {phase: f"nv_inference_{phase}_duration_histogram_us" for phase in PHASES}
FIRST_RESPONSE = "nv_inference_first_response_histogram_ms"


class Latencies:
    """The distributions of one model version; the lock of its statistics protects them. Only what is published is kept."""

    __slots__ = ("first_response", "histograms", "kept", "summaries")

    def __init__(
        self,
        histograms: Sequence[Histogram] = (),
        summaries: Sequence[SlidingQuantiles] = (),
        first_response: Histogram | None = None,
    ) -> None:
        """Create a Latencies.

        Args:
            histograms, summaries: one for each of PHASES, or none.
            first_response: of a decoupled model, None = not kept.
        """
        self.histograms = tuple(histograms)
        self.summaries = tuple(summaries)
        self.first_response = first_response
        #: False if add() does nothing
        self.kept = bool(self.histograms or self.summaries)

    def add(self, durations_ns: Sequence[int], now_ns: int) -> None:
        """Add a successful request.

        Args:
            durations_ns: one for each of PHASES.
            now_ns: of time.monotonic_ns().
        """
        for histogram, ns in zip(self.histograms, durations_ns, strict=False):  # Histogram.add() inlined, to save five calls
            histogram.counts[bisect_left(histogram.bounds_ns, ns)] += 1
            histogram.total_ns += ns
        for summary, ns in zip(self.summaries, durations_ns, strict=False):
            summary.add(ns, now_ns)

    def add_first_response(self, ns: int) -> None:
        """Add the time from the arrival of a decoupled model's request to its first answer."""
        if self.first_response is not None:
            self.first_response.add(ns)
