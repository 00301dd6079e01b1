# SPDX-License-Identifier: Apache-2.0
"""The figures of one load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hypersonic.client.load.offer import Closed, Offer, Open
from hypersonic.client.load.recorder import Sample


@dataclass(frozen=True)
class ServerMeans:
    """The servers' own times for the model during a window (ModelStatistics), for the requests of all clients.

    Attributes:
        requests: successful ones.
        executions: runs of batches.
        queue_ms, compute_ms: means of a request; compute is the sum of input, infer and output.
    """

    requests: int
    executions: int
    queue_ms: float
    compute_ms: float


@dataclass(frozen=True)
class Latency:
    """The mean and quantiles of the latencies, in ms; NaN without answers."""

    mean: float = math.nan
    p50: float = math.nan
    p90: float = math.nan
    p99: float = math.nan


@dataclass(frozen=True)
class Point:
    """One load and its figures.

    Attributes:
        rows: of a request.
        seconds: the window's length.
        answered, failed: requests that were counted.
        rate: answers per second.
        latency: of the answered ones; in an open loop from the time at which a request was due.
        server: None if the servers report none.
        kept: False if an open loop's backlog grew, so that the servers or the client did not keep its rate.
        late_p99_ms: how late an open loop's client sent.
        error: the text of the first failure.
    """

    offer: Offer
    rows: int
    seconds: float
    answered: int
    failed: int
    rate: float
    latency: Latency
    server: ServerMeans | None = None
    kept: bool = True
    late_p99_ms: float = 0.0
    error: str = ""

    @property
    def rows_per_s(self) -> float:
        """Answered rows/s."""
        return self.rate * self.rows

    @property
    def period_s(self) -> float:
        """The time of a request's turn in a closed loop, N / l by Little's law; NaN without requests, and for an open loop."""
        ended = self.answered + self.failed
        return self.offer.concurrency * self.seconds / ended if isinstance(self.offer, Closed) and ended else math.nan


def of_closed(
    offer: Closed,
    rows: int,
    samples: Sequence[Sample],
    span_ns: tuple[int, int],
    requests: int = 0,
    server: ServerMeans | None = None,
) -> Point:
    """Return the figures of a closed loop: of the requests that ended in the window.

    Args:
        samples: in the order of their ends.
        span_ns: begin and end of the window.
        requests: the window ends with this many; 0: with the time.
    """
    begin_ns, end_ns = span_ns
    ended = [sample for sample in samples if begin_ns < sample.end_ns and (requests or sample.end_ns <= end_ns)]
    if requests and ended:
        ended = ended[:requests]
        end_ns = ended[-1].end_ns
    answered = [sample for sample in ended if not sample.error]
    seconds = (end_ns - begin_ns) * 1e-9
    failed, error = _failures(ended)
    return Point(offer, rows, seconds, len(answered), failed, len(answered) / seconds, _latency(answered), server, error=error)


def of_open(
    offer: Open,
    rows: int,
    samples: Sequence[Sample],
    span_ns: tuple[int, int],
    server: ServerMeans | None = None,
    *,
    gave_up: bool = False,
) -> Point:
    """Return the figures of an open loop: of the requests that were due in the window, whenever they ended.

    The rate is that of the answers within the window, so it is lower than the offered rate when the backlog grows.

    Args:
        gave_up: the sender stopped because too many requests had no answer; the window then ends with the last one that was
            sent.
    """
    begin_ns, end_ns = span_ns
    if gave_up and samples:
        end_ns = max(begin_ns + 1, min(end_ns, max(sample.due_ns for sample in samples)))
    due = [sample for sample in samples if begin_ns <= sample.due_ns <= end_ns]
    answered = [sample for sample in due if not sample.error]
    seconds = (end_ns - begin_ns) * 1e-9
    rate = sum(begin_ns < sample.end_ns <= end_ns and not sample.error for sample in samples) / seconds
    late_ms = float(np.quantile([sample.sent_ns - sample.due_ns for sample in due], 0.99)) * 1e-6 if due else 0.0
    kept = not gave_up and not backlog_grows(samples, span_ns)
    failed, error = _failures(due)
    return Point(offer, rows, seconds, len(answered), failed, rate, _latency(answered), server, kept, late_ms, error)


def backlog_grows(samples: Sequence[Sample], span_ns: tuple[int, int]) -> bool:
    """Return whether the number of requests without an answer grew in the second half of the window.

    In the steady state it varies by chance, by about its own root. Growth means more than four times that and 5 % of the
    arrivals.
    """
    begin_ns, end_ns = span_ns
    middle_ns = (begin_ns + end_ns) // 2
    at_middle, at_end = (sum(sample.due_ns <= at < sample.end_ns for sample in samples) for at in (middle_ns, end_ns))
    arrivals = sum(middle_ns < sample.due_ns <= end_ns for sample in samples)
    return at_end - at_middle > 0.05 * arrivals + 4 * math.sqrt(at_middle + 1)


def _latency(answered: Sequence[Sample]) -> Latency:
    if not answered:
        return Latency()
    latencies_ms = np.array([sample.end_ns - sample.due_ns for sample in answered]) * 1e-6
    return Latency(float(latencies_ms.mean()), *(float(q) for q in np.quantile(latencies_ms, (0.5, 0.9, 0.99))))


def _failures(samples: Sequence[Sample]) -> tuple[int, str]:
    errors = [sample.error for sample in samples if sample.error]
    return len(errors), errors[0] if errors else ""
