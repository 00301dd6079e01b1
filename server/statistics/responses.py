# SPDX-License-Identifier: Apache-2.0
"""Triton's response_stats: the times of a decoupled model's first responses, second responses and so on, over all its requests.

The compute time of a response is counted from the one before it, that of the first one from the start of the request's run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from hypersonic.server.statistics.duration import Duration

#: the most responses of a request that are counted; further ones are not, because a model may send any number
MOST_INDICES = 1024


class ResponseOutcome(Enum):
    """How a response ended. EMPTY: the final flag without a response. CANCEL: the client had disconnected before the end."""

    SUCCESS = "success"
    FAIL = "fail"
    EMPTY = "empty_response"
    CANCEL = "cancel"


@dataclass(slots=True)
class ResponseDurations:
    """The times of all responses with one index.

    success and fail include both parts (compute_infer and compute_output), empty_response only the first.
    """

    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)
    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    empty_response: Duration = field(default_factory=Duration)
    cancel: Duration = field(default_factory=Duration)

    def add(self, outcome: ResponseOutcome, infer_ns: int, output_ns: int) -> None:
        """Add one response."""
        if outcome is ResponseOutcome.CANCEL:
            self.cancel.add(infer_ns)
            return
        self.compute_infer.add(infer_ns)
        if outcome is ResponseOutcome.EMPTY:
            self.empty_response.add(infer_ns)
            return
        self.compute_output.add(output_ns)
        (self.success if outcome is ResponseOutcome.SUCCESS else self.fail).add(infer_ns + output_ns)


@dataclass(slots=True)
class ResponseStatistics:
    """The times by index of the response, from 0. At most the first MOST_INDICES are kept."""

    by_index: dict[int, ResponseDurations] = field(default_factory=dict)

    def add(self, index: int, outcome: ResponseOutcome, infer_ns: int, output_ns: int) -> None:
        """Add response number `index` of a request. Negative times count as 0."""
        if index < MOST_INDICES:
            self.by_index.setdefault(index, ResponseDurations()).add(outcome, max(0, infer_ns), max(0, output_ns))
