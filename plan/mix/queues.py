# SPDX-License-Identifier: Apache-2.0
"""Mean waits of single stations, in closed form or by a short recursion.

The wait of a station with c servers is that of M/M/c times (ca2 + cs2) / 2, with the squared coefficients of variation of its
arrivals and its service times, and what leaves it is smoother than what arrives (Whitt, The Queueing Network Analyzer, Bell
System Technical Journal 62 (1983) 2779).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache


def chance_to_wait(load: float, servers: int) -> float:
    """Return the probability that a request finds all servers busy (Erlang's C formula).

    Args:
        load: the share of time for which a server is busy, 0 to below 1.
    """
    blocked = 1.0  # Erlang's B, by its recursion
    for n in range(1, servers + 1):
        blocked = load * servers * blocked / (n + load * servers * blocked)
    return blocked / (1 - load * (1 - blocked))


def mean_wait_s(load: float, service_s: float, servers: int, arrivals_cv2: float = 1.0, service_cv2: float = 1.0) -> float:
    """Return the mean time before service; infinite for a load of 1 or more."""
    if load >= 1:
        return math.inf
    return chance_to_wait(load, servers) * service_s / (servers * (1 - load)) * (arrivals_cv2 + service_cv2) / 2


def departures_cv2(load: float, servers: int, arrivals_cv2: float, service_cv2: float) -> float:
    """Return the squared coefficient of variation of the times between departures."""
    used = min(1.0, load) ** 2
    return max(0.0, 1 + (1 - used) * (arrivals_cv2 - 1) + used / math.sqrt(servers) * (service_cv2 - 1))


@dataclass(frozen=True)
class QueueState:
    """A queue whose arrivals depend on its length.

    Attributes:
        wait_s: mean time before service.
        refused: the share of requests that found it full.
    """

    wait_s: float
    refused: float


def solve_queue(
    arrivals: Callable[[float], float], most: float, service_s: float, servers: int, variation: float
) -> QueueState:
    """Return the state of a queue at which `arrivals(n)` requests per second arrive while n are in it.

    It is a birth-death process. Times that vary less or more than exponential ones make waiting requests less or more likely:
    the ratio of successive probabilities is taken to the power 1 / variation, as in the diffusion limit.

    Args:
        arrivals: falls with n.
        most: requests that have room, the ones in service included; infinite = no limit.
        variation: the wait in an open queue over that of M/M/c.
    """
    variation = max(variation, _LEAST)

    def step(n: int) -> float:
        if n < servers:
            ratio = arrivals(n) * service_s / (n + 1)
        else:  # a narrow distribution is centred where arrivals and services are equal
            ratio = arrivals(n + max(0.0, 1 - variation) / 2) * service_s / servers
        return (math.log(ratio) if ratio > 0 else -math.inf) / (1.0 if n < servers else variation)

    mode = _mode(step, most)
    chances = {mode: 1.0}
    for direction in (1, -1):
        n, log = mode, 0.0
        while (n < most if direction > 0 else n > 0) and log > _NEGLIGIBLE:
            log += step(n) if direction > 0 else -step(n - 1)
            n += direction
            chances[n] = math.exp(log)
    total = sum(chances.values())
    offered = rate = sum(chance * arrivals(n) for n, chance in chances.items()) / total
    if math.isfinite(most):
        rate = sum(chance * min(n, servers) for n, chance in chances.items()) / total / service_s
    if not rate:
        return QueueState(0.0, 0.0)
    wait_s = sum(chance * (n - servers) for n, chance in chances.items() if n > servers) / total / rate
    load = min(_FULL, rate * service_s / servers)
    scale = variation * mean_wait_s(load, service_s, servers) / _open_wait_s(load, service_s, servers, variation)
    if mode > servers:  # near saturation the wait is that of jobs that are too many
        scale **= chances.get(servers, 0.0)
    return QueueState(wait_s * scale, max(0.0, 1 - rate / offered))


#: a load that counts as 1, and the least variation: 0 would be a clock
_FULL, _LEAST = 0.9999, 0.01
#: the logarithm of the smallest probability, over the largest, that counts
_NEGLIGIBLE = -30.0


def _mode(step: Callable[[int], float], most: float) -> int:
    """Return the most likely number: the first after which the probability falls."""
    low, high = 0, 1
    while high < most and step(high) > 0:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if step(middle) > 0 else (low, middle)
    return int(min(low, most))


def _open_wait_s(load: float, service_s: float, servers: int, variation: float) -> float:
    """Return the wait of the same process with constant arrivals."""
    ratio, waits = math.pow(load, 1 / variation), chance_to_wait(load, servers)
    waiting = waits * (1 - load) / (1 - ratio)
    return waiting * ratio / (1 - ratio) / (1 - waits + waiting) * service_s / (load * servers)


@lru_cache(4096)
def rates_of(delay_s: float, service_s: float, servers: int, most: int) -> tuple[float, ...]:
    """Return the throughputs of 1 .. `most` requests that circulate between a delay and a station (Buzen's convolution)."""
    delay = [i * math.log(delay_s) - math.lgamma(i + 1) if delay_s else (-math.inf if i else 0.0) for i in range(most + 1)]
    station = [0.0]
    for n in range(1, most + 1):
        station.append(station[-1] + math.log(service_s / min(n, servers)))
    constants = []
    for i in range(most + 1):
        terms = [delay[i - j] + station[j] for j in range(i + 1)]
        top = max(terms)
        constants.append(top + math.log(sum(math.exp(term - top) for term in terms)))
    return tuple(math.exp(constants[i - 1] - constants[i]) for i in range(1, most + 1))
