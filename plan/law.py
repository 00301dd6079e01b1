# SPDX-License-Identifier: Apache-2.0
"""The throughput law of a closed loop: N jobs, each of which works, calls a server, and waits for the answer.

::

    X(N) = min(N / t_ideal, c / S, B / b, cores / cpu_per_request)
    t(N) = N / X(N)
    N*   = t_ideal * the lowest capacity

t_ideal is the time of an event when nothing queues: the job's own work, the fixed latency, the transfer and the service. The
other terms are the capacities of what all jobs share: c devices with service time S, a link of B for b bytes an event, the
processors of the servers. These are the asymptotic bounds of operational analysis (Denning and Buzen, 1978; Lazowska et al.,
Quantitative System Performance, 1984, chapter 5). They are upper bounds of the throughput: near N* a real system stays
below them, because requests arrive at random.
"""

from __future__ import annotations

import math
from collections.abc import Iterable


class LawError(ValueError):
    """A number for which the law has no meaning."""


def throughput(jobs: float, ideal_s: float, capacities_per_s: Iterable[float]) -> float:
    """Return the rate of events of `jobs` jobs, in events per second: `min(jobs / ideal_s, *capacities_per_s)`.

    Args:
        ideal_s: the time of one event without queueing, in s.
        capacities_per_s: of each shared part, in events per second; none means that nothing limits.

    Raises:
        LawError: For negative or non-finite jobs, for ideal_s or a capacity not above 0.
    """
    if not 0 <= jobs < math.inf:
        raise LawError(f"jobs is {jobs}, expected a number of 0 or more")
    return min(jobs / _above_0("ideal_s", ideal_s), _least(capacities_per_s))


def time_per_event(jobs: float, ideal_s: float, capacities_per_s: Iterable[float]) -> float:
    """Return the seconds that a job spends on an event: N / X(N), which is ideal_s up to N* and grows in proportion above.

    Raises LawError as throughput() does.
    """
    capacities = tuple(capacities_per_s)
    rate = throughput(jobs, ideal_s, capacities)
    return jobs / rate if rate else ideal_s


def saturation_jobs(ideal_s: float, capacities_per_s: Iterable[float]) -> float:
    """Return N*, the number of jobs that reaches the lowest capacity: ideal_s * min(capacities_per_s).

    Infinite without capacities. Raises LawError as throughput() does.
    """
    return _above_0("ideal_s", ideal_s) * _least(capacities_per_s)


def _least(capacities_per_s: Iterable[float]) -> float:
    return min((_above_0("a capacity", capacity) for capacity in capacities_per_s), default=math.inf)


def _above_0(name: str, value: float) -> float:
    if not value > 0:  # NaN too
        raise LawError(f"{name} is {value}, expected a number above 0")
    return value
