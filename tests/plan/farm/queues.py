# SPDX-License-Identifier: Apache-2.0
"""Formulas of single queues with Poisson arrivals, for comparison with open loops in the simulation.

M/D/1 and M/G/1 by Pollaczek and Khinchine, M/M/c by Erlang's C formula.
"""

from __future__ import annotations

from hypersonic.plan.farm.errors import FarmError, check_count, check_not_negative, check_positive


def mean_wait_md1_s(rate_per_s: float, service_s: float) -> float:
    """Return the mean time before service with constant service times, in seconds. Raises FarmError for a load of 1 or more."""
    return mean_wait_mg1_s(rate_per_s, service_s, 0.0)


def mean_wait_mg1_s(rate_per_s: float, service_s: float, cv: float) -> float:
    """Return the mean time before service, in seconds.

    Args:
        cv: standard deviation of the service time over its mean.

    Raises:
        FarmError: For a load of 1 or more.
    """
    check_not_negative(cv=cv)
    load = _load(rate_per_s, service_s, 1)
    return load * service_s * (1 + cv * cv) / (2 * (1 - load))


def chance_to_wait_mmc(rate_per_s: float, service_s: float, servers: int) -> float:
    """Return the probability that a request finds all servers busy (Erlang C). Raises FarmError for a load of 1 or more."""
    load = _load(rate_per_s, service_s, servers)
    blocked = 1.0  # Erlang B, by its recursion
    for n in range(1, servers + 1):
        blocked = load * servers * blocked / (n + load * servers * blocked)
    return blocked / (1 - load * (1 - blocked))


def mean_wait_mmc_s(rate_per_s: float, service_s: float, servers: int) -> float:
    """Return the mean time before service with exponential service times, in s. Raises FarmError for a load of 1 or more."""
    waits = chance_to_wait_mmc(rate_per_s, service_s, servers)
    return waits * service_s / (servers - rate_per_s * service_s)


def _load(rate_per_s: float, service_s: float, servers: int) -> float:
    """Return the share of time for which a server is busy. Raises FarmError if it is 1 or more."""
    check_positive(rate_per_s=rate_per_s, service_s=service_s)
    check_count(1, servers=servers)
    load = rate_per_s * service_s / servers
    if load >= 1:
        raise FarmError(
            f"a queue with {rate_per_s:g} requests/s, {service_s:g} s each and {servers} servers has a load of {load:.3g}, "
            "expected one below 1: without a limit it grows forever; lower the rate or add servers"
        )
    return load
