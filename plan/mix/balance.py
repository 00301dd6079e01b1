# SPDX-License-Identifier: Apache-2.0
"""How calls spread over servers when each goes to the less busy of two random ones.

In the limit of many servers, the calls in flight on a server of one kind are a birth-death process. A server with i of them
gets calls in proportion to T(i) + T(i + 1), where T(i) is the share of servers with at least i (Mitzenmacher, The Power of Two
Choices in Randomized Load Balancing, IEEE TPDS 12 (2001) 1094); it answers them at the rate of a closed network with i
requests. The shares T follow from the processes of all kinds, and the processes from the shares: a fixed point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hypersonic.plan.mix.queues import chance_to_wait, rates_of

_ROUNDS, _MOST, _CLOSE = 200, 300, 1e-7


@dataclass(frozen=True)
class Kind:
    """Servers of one kind.

    Attributes:
        count: servers.
        models: that they host.
        delay_s: time of a call on the server without its busiest station.
        service_s, stations: the mean service time of that station, and how many it has.
        load: its share of busy time with the present traffic.
    """

    count: int
    models: frozenset[str]
    delay_s: float
    service_s: float
    stations: int
    load: float


@dataclass(frozen=True)
class Balance:
    """The shares of the kinds of servers, and the waits.

    Attributes:
        shares: by model, the part of its calls that goes to each kind.
        factors: for each kind, the mean wait over that of calls that go to random servers.
    """

    shares: Mapping[str, tuple[float, ...]]
    factors: tuple[float, ...]


def balance(kinds: Sequence[Kind], rates: Mapping[str, float]) -> Balance:
    """Return where calls go.

    Args:
        rates: calls per second of each model.
    """
    hosts = {model: [index for index, kind in enumerate(kinds) if model in kind.models] for model in rates}
    counts = {model: sum(kinds[index].count for index in indices) for model, indices in hosts.items()}
    if sum(rates.values()) >= sum(kind.count * _capacity(kind) for kind in kinds):
        rooms = {m: [each.count * _capacity(each) if m in each.models else 0.0 for each in kinds] for m in rates}
        return Balance({m: tuple(room / sum(each) for room in each) for m, each in rooms.items()}, (1.0,) * len(kinds))
    levels, births, pulls = _fixed_point(kinds, rates, hosts, counts)
    shares = {}
    for model, indices in hosts.items():
        weights = [
            (index in indices) * kind.count * sum(p * pull for p, pull in zip(levels[index], pulls[model], strict=False))
            for index, kind in enumerate(kinds)
        ]
        shares[model] = tuple(weight / sum(weights) for weight in weights)
    waits_s = [_wait_s(*each) for each in zip(kinds, levels, births, strict=True)]
    together = [max((counts[model] for model in rates if model in kind.models), default=1) for kind in kinds]
    room = sum(kind.count * _capacity(kind) for kind in kinds)
    overall = sum(kind.load * kind.count * _capacity(kind) for kind in kinds) / room
    return Balance(shares, tuple(_factor(*each, overall) for each in zip(kinds, waits_s, together, strict=True)))


def _fixed_point(
    kinds: Sequence[Kind], rates: Mapping[str, float], hosts: Mapping[str, Sequence[int]], counts: Mapping[str, int]
) -> tuple[list[list[float]], list[list[float]], dict[str, list[float]]]:
    """Return for each kind the probabilities of 0, 1, .. calls in flight, and the rates of calls then; the pulls by model."""
    most = min(_MOST, 60 + 3 * max(round(kind.stations * (1 + kind.delay_s / kind.service_s)) for kind in kinds))
    deaths = [rates_of(_rounded(kind.delay_s), _rounded(kind.service_s), kind.stations, most) for kind in kinds]
    levels = [[1.0] + [0.0] * most for _ in kinds]
    births: list[list[float]] = [[] for _ in kinds]
    pulls: dict[str, list[float]] = {}
    change, rounds = 1.0, 0
    while change > _CLOSE and rounds < _ROUNDS:
        rounds, change = rounds + 1, 0.0
        tails = [_tails(level) for level in levels]
        pulls = {model: _pull(hosts[model], counts[model], kinds, tails) for model in rates}
        for index, kind in enumerate(kinds):
            births[index] = [
                sum(rates[model] / counts[model] * pulls[model][i] for model in rates if model in kind.models)
                for i in range(most)
            ]
            found = _chances(births[index], deaths[index])
            change = max(change, *(abs(old - new) for old, new in zip(levels[index], found, strict=True)))
            levels[index] = [(old + new) / 2 for old, new in zip(levels[index], found, strict=True)]
    return levels, births, pulls


def _pull(hosts: Sequence[int], count: int, kinds: Sequence[Kind], tails: Sequence[Sequence[float]]) -> list[float]:
    """Return for each number of calls in flight how likely such a server gets a call, over the mean of all servers."""
    length = len(tails[0]) - 1
    if count == 1:
        return [1.0] * length
    mean = [sum(kinds[index].count * tails[index][i] for index in hosts) / count for i in range(length + 1)]
    return [mean[i] + mean[i + 1] for i in range(length)]


def _tails(chances: Sequence[float]) -> list[float]:
    """Return the probability of at least i for each i, and a 0."""
    tails = [0.0]
    for chance in reversed(chances):
        tails.append(tails[-1] + chance)
    return tails[::-1]


def _chances(births: Sequence[float], deaths: Sequence[float]) -> list[float]:
    chances, total = [1.0], 1.0
    for birth, death in zip(births, deaths, strict=True):
        chances.append(chances[-1] * birth / death)
        total += chances[-1]
        if total > 1e200:
            chances, total = [chance / total for chance in chances], 1.0
    return [chance / total for chance in chances]


def _capacity(kind: Kind) -> float:
    return kind.stations / kind.service_s


def _wait_s(kind: Kind, chances: Sequence[float], births: Sequence[float]) -> float:
    """Return the mean wait on a server with these numbers of calls in flight."""
    rate = sum(chance * birth for chance, birth in zip(chances, births, strict=False))
    inside = sum(i * chance for i, chance in enumerate(chances))
    return max(0.0, inside / rate - kind.delay_s - kind.service_s) if rate else 0.0


def _random_wait_s(load: float, kind: Kind, stations: int) -> float:
    """Return the mean wait on a server that gets random calls, with so many stations."""
    return chance_to_wait(load, stations) * kind.service_s / (stations * (1 - load))


def _factor(kind: Kind, wait_s: float, together: int, overall: float) -> float:
    """Return the wait over that of random calls, for a number of servers.

    The fixed point is that of many servers. For equal servers, two of them are almost one with twice the stations, and the wait
    of n lies between as (2 / n)**1.5, which was fitted to simulations. Servers of several kinds get the
    same correction as equal ones with their overall load.
    """
    load, overall = min(kind.load, 0.999), min(max(overall, 0.01), 0.999)
    random_s = _random_wait_s(load, kind, kind.stations)
    if together == 1 or random_s <= 0:
        return 1.0
    many_s, pair_s = _equal_wait_s(_rounded(overall), kind), _random_wait_s(overall, kind, 2 * kind.stations)
    finite = 1 + max(0.0, pair_s / many_s - 1) * (2 / together) ** 1.5 if many_s else 1.0
    return min(1.0, wait_s * finite / random_s)


def _equal_wait_s(load: float, kind: Kind) -> float:
    """Return the wait on one of many equal servers."""
    return _equal_waits(load, _rounded(kind.delay_s / kind.service_s), kind.stations) * kind.service_s


@lru_cache(1024)
def _equal_waits(load: float, delay: float, stations: int) -> float:
    """Return the same in service times."""
    kind = Kind(2, frozenset({""}), delay, 1.0, stations, load)
    levels, births = _fixed_point([kind], {"": load * stations * 2}, {"": [0]}, {"": 2})[:2]
    return _wait_s(kind, levels[0], births[0])


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
