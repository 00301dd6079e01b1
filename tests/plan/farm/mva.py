# SPDX-License-Identifier: Apache-2.0
"""Exact mean-value analysis (MVA) of a closed network: N jobs, a delay station, and FIFO stations with exponential service.

Reiser, Lavenberg: Mean-Value Analysis of Closed Multichain Queuing Networks, J. ACM 27 (1980) 313. A station with c servers is
load-dependent: its recursion needs the probabilities p(j) of j = 0 .. c - 1 jobs there. D is the demand, Z the delay::

    R(n) = D / c * (1 + Q(n - 1) + sum over j < c - 1 of (c - 1 - j) p(j | n - 1))
    X(n) = n / (Z + sum of R(n) over the stations),   Q(n) = X(n) R(n)
    p(j | n) = X(n) D / j * p(j - 1 | n - 1)  for 0 < j < c
    p(0 | n) = p(0 | n - 1) * X(n) / X'(n),  where X' is the throughput of the network without this station

The usual form of the last line, one minus the other probabilities, loses all digits near saturation. This one has only positive
terms, at the cost of analysing every subset of the stations with several servers.

The simulation is compared with it: with exponential service times both have to agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hypersonic.plan.farm.errors import check_count, check_not_negative, check_positive


@dataclass(frozen=True)
class FifoStation:
    """A FIFO station.

    Attributes:
        demand_s: mean service time of all visits in one cycle of a job.
        servers: how many work in parallel.
    """

    demand_s: float
    servers: int = 1

    def __post_init__(self) -> None:
        check_positive(demand_s=self.demand_s)
        check_count(1, servers=self.servers)


@dataclass(frozen=True)
class Means:
    """The means for one number of jobs.

    Attributes:
        throughput_per_s: cycles of all jobs.
        cycle_s: of a job.
        residence_s: of a cycle at each station, waiting included.
        utilisation: of each station's servers, 0 to 1.
    """

    jobs: int
    throughput_per_s: float
    cycle_s: float
    residence_s: tuple[float, ...]
    utilisation: tuple[float, ...]


def analyse(jobs: int, delay_s: float, stations: Sequence[FifoStation]) -> tuple[Means, ...]:
    """Return the means for 1, 2, .. `jobs` jobs.

    It takes about jobs * servers * 2**m steps with m stations of several servers.

    Args:
        delay_s: the part of a cycle without any waiting, such as a job's own work.

    Raises:
        FarmError: For a negative delay, without a job and without a station.
    """
    check_count(1, jobs=jobs, stations=len(stations))
    check_not_negative(delay_s=delay_s)
    return _Analysis(jobs, delay_s, stations).means(frozenset(range(len(stations))))


class _Analysis:
    """The analyses of a network and of the parts of it that are needed, each done once."""

    def __init__(self, jobs: int, delay_s: float, stations: Sequence[FifoStation]) -> None:
        self._jobs, self._delay_s, self._stations = jobs, delay_s, stations
        self._known: dict[frozenset[int], tuple[Means, ...]] = {}

    def means(self, part: frozenset[int]) -> tuple[Means, ...]:
        """Return the means of the network with only these stations."""
        if part not in self._known:
            self._known[part] = self._analyse(part)
        return self._known[part]

    def _analyse(self, part: frozenset[int]) -> tuple[Means, ...]:
        stations = [self._stations[index] for index in sorted(part)]
        without = [
            self.means(part - {index}) if self._stations[index].servers > 1 else () for index in sorted(part)
        ]  # of a network without a station that has several servers
        lengths = [0.0] * len(stations)
        #: for each station the probabilities of 0 .. servers - 1 jobs
        chances = [[1.0] + [0.0] * (station.servers - 1) for station in stations]
        found: list[Means] = []
        for n in range(1, self._jobs + 1):
            residence_s = [_residence_s(*each) for each in zip(stations, lengths, chances, strict=True)]
            cycle_s = self._delay_s + sum(residence_s)
            rate = n / cycle_s if cycle_s else math.inf
            lengths = [rate * each for each in residence_s]
            for index, (station, other) in enumerate(zip(stations, without, strict=True)):
                if other:
                    chances[index] = _next_chances(station, rate, other[n - 1].throughput_per_s, chances[index])
            used = tuple(rate * station.demand_s / station.servers for station in stations)
            found.append(Means(n, rate, cycle_s, tuple(residence_s), used))
        return tuple(found)


def _residence_s(station: FifoStation, length: float, chances: Sequence[float]) -> float:
    """The time at a station, from what an arriving job finds there: the network with one job less."""
    idle = sum((station.servers - 1 - j) * chance for j, chance in enumerate(chances))
    return station.demand_s / station.servers * (1 + length + idle)


def _next_chances(station: FifoStation, rate: float, rate_without: float, before: Sequence[float]) -> list[float]:
    """The probabilities of 0 .. servers - 1 jobs, from those with one job less in the network."""
    load = rate * station.demand_s
    return [before[0] * rate / rate_without, *(load / j * before[j - 1] for j in range(1, station.servers))]
