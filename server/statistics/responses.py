# SPDX-License-Identifier: Apache-2.0
"""Triton's response_stats: figures of a decoupled model's first responses, second responses and so on, over all its requests.

A response's time to compute runs from the one before it, that of the first one from the start of the request's run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from hypersonic.server.statistics.duration import Duration

#: responses of a request that have an entry each; what follows is in none, a model may answer without end
MOST_INDICES = 1024


class ResponseOutcome(Enum):
    """EMPTY: the end of a request without a response. CANCEL: the client had gone when the model came to its end."""

    SUCCESS = "success"
    FAIL = "fail"
    EMPTY = "empty_response"
    CANCEL = "cancel"


@dataclass(slots=True)
class ResponseDurations:
    """Of all responses with one index. success and fail last as long as both parts, empty_response as long as the first."""

    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)
    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    empty_response: Duration = field(default_factory=Duration)
    cancel: Duration = field(default_factory=Duration)

    def add(self, outcome: ResponseOutcome, infer_ns: int, output_ns: int) -> None:
        if outcome is ResponseOutcome.CANCEL:
            self.cancel.add(infer_ns)
            return
        self.compute_infer.add(infer_ns)
        if outcome is ResponseOutcome.EMPTY:
            self.empty_response.add(infer_ns)
            return
        self.compute_output.add(output_ns)
        (self.success if outcome is ResponseOutcome.SUCCESS else self.fail).add(infer_ns + output_ns)

    def copy(self) -> ResponseDurations:
        return ResponseDurations(
            self.compute_infer.copy(), self.compute_output.copy(), self.success.copy(), self.fail.copy(),
            self.empty_response.copy(), self.cancel.copy(),
        )  # fmt: skip


@dataclass(slots=True)
class ResponseStatistics:
    """by_index: from 0, the MOST_INDICES first ones at most."""

    by_index: dict[int, ResponseDurations] = field(default_factory=dict)

    def add(self, index: int, outcome: ResponseOutcome, infer_ns: int, output_ns: int) -> None:
        if index < MOST_INDICES:
            self.by_index.setdefault(index, ResponseDurations()).add(outcome, max(0, infer_ns), max(0, output_ns))

    def copy(self) -> ResponseStatistics:
        return ResponseStatistics({index: each.copy() for index, each in self.by_index.items()})
