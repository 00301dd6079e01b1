# SPDX-License-Identifier: Apache-2.0
"""How the latencies of one model version are distributed: what its statistics keep beside counts and sums."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from hypersonic.server.statistics.histogram import Histogram, SlidingQuantiles

PHASES = ("request", "queue", "compute_input", "compute_infer", "compute_output")
#: the names of the upstream proposal (triton-inference-server/core#474)
HISTOGRAMS = {phase: f"nv_inference_{phase}_duration_histogram_us" for phase in PHASES}
FIRST_RESPONSE = "nv_inference_first_response_histogram_ms"


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
