# SPDX-License-Identifier: Apache-2.0
"""Exact mean-value analysis (MVA) of a closed network: N jobs, a delay station, and FIFO stations with exponential service.

Reiser, Lavenberg: Mean-Value Analysis of Closed Multichain Queuing Networks, J. ACM 27 (1980) 313. A station with c servers is
load-dependent; its recursion needs the probabilities that j = 0 .. c - 1 jobs are at the station. It is written with
nonnegative terms only, apart from the probability of an empty station:

    R_k(n) = D_k / c * (1 + Q_k(n - 1) + sum_{j < c - 1} (c - 1 - j) p_k(j | n - 1))
    X(n) = n / (Z + sum_k R_k(n)),   Q_k(n) = X(n) R_k(n)
    p_k(j | n) = X(n) D_k / j * p_k(j - 1 | n - 1),   j = 1 .. c - 1
    p_k(0 | n) = 1 - (X(n) D_k + sum_{0 < j < c} (c - j) p_k(j | n)) / c

The simulation is held against it; with exponential service times both have to agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypersonic.sim.farm.errors import check_count, check_not_negative, check_positive


@dataclass(frozen=True)
class FifoStation:
    """A FIFO station. demand_s: mean service time of all its visits in one cycle of a job. servers: how many work in parallel."""

    demand_s: float
    servers: int = 1

    def __post_init__(self) -> None:
        check_positive(demand_s=self.demand_s)
        check_count(1, servers=self.servers)


@dataclass(frozen=True)
class Means:
    """The means for one number of jobs.

    throughput_per_s: cycles of all jobs. cycle_s: of a job. residence_s: of a cycle at each station, waiting included.
    utilisation: of each station's servers.
    """

    jobs: int
    throughput_per_s: float
    cycle_s: float
    residence_s: tuple[float, ...]
    utilisation: tuple[float, ...]


def analyse(jobs: int, delay_s: float, stations: Sequence[FifoStation]) -> tuple[Means, ...]:
    """Return the means for 1, 2, .. `jobs` jobs. delay_s: of a cycle without any waiting, such as a job's own work.

    It takes jobs * (sum of servers) steps. Raises FarmError for a negative delay and for no job.
    """
    check_count(1, jobs=jobs)
    check_not_negative(delay_s=delay_s)
    check_count(1, stations=len(stations))
    lengths = [0.0] * len(stations)
    #: for each station the probability of j jobs there, j < servers
    chances = [[1.0] + [0.0] * (station.servers - 1) for station in stations]
    found: list[Means] = []
    for n in range(1, jobs + 1):
        residence_s = [_residence_s(*each) for each in zip(stations, lengths, chances, strict=True)]
        cycle_s = delay_s + sum(residence_s)
        rate = n / cycle_s
        lengths = [rate * each for each in residence_s]
        chances = [_chances(station, rate, before) for station, before in zip(stations, chances, strict=True)]
        used = tuple(rate * station.demand_s / station.servers for station in stations)
        found.append(Means(n, rate, cycle_s, tuple(residence_s), used))
    return tuple(found)


def _residence_s(station: FifoStation, length: float, chances: Sequence[float]) -> float:
    idle = sum((station.servers - 1 - j) * chance for j, chance in enumerate(chances))
    return station.demand_s / station.servers * (1 + length + idle)


def _chances(station: FifoStation, rate: float, before: Sequence[float]) -> list[float]:
    """The probabilities of 0 .. servers - 1 jobs, from those with one job less in the network."""
    servers, load = station.servers, rate * station.demand_s
    after = [0.0, *(load / j * before[j - 1] for j in range(1, servers))]
    #: rounding may take it below 0 when the station is saturated
    after[0] = max(0.0, 1 - (load + sum((servers - j) * after[j] for j in range(1, servers))) / servers)
    return after
