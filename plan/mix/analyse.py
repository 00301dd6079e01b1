# SPDX-License-Identifier: Apache-2.0
"""Rates, times and utilisations of a farm with several loads, by mean-value analysis.

Each shared part is a station. Its wait follows from its traffic (queues.py, balance.py), and the traffic of the jobs follows
from the waits: N / (own work + times of the calls). Both are solved together, station by station. A station that jobs overload
gets the wait at which they no longer do, so the times above saturation are those of the law (plan/law.py). What arrives at a
given rate overloads a station for ever: there, times are infinite.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hypersonic.plan.farm import Call, ClosedLoop, Farm, Load
from hypersonic.plan.farm.machines import check_hosts
from hypersonic.plan.mix.balance import Kind, balance
from hypersonic.plan.mix.queues import departures_cv2, mean_wait_s, solve_queue
from hypersonic.plan.mix.stations import Group, Layout, Station, lay_out

#: rounds over all stations, and every how many of them the balancer is asked again; the relative change at which they end
_ROUNDS, _BALANCED, _CLOSE = 120, 4, 1e-5
#: how far the variation of arrivals is followed along the calls of an event
_CHAIN = 4


@dataclass(frozen=True)
class LoadFigures:
    """The rates and times of a load.

    Attributes:
        events_per_s: that are finished, calls that were refused included.
        event_s: the mean time of an event; of an asynchronous job with the waits for its other events. Infinite = unbounded.
        call_s: the mean time of a call, by model.
        refused: the share of calls that full queues refuse.
        unqueued_s: event_s when nothing queues.
    """

    events_per_s: float
    event_s: float
    call_s: Mapping[str, float]
    refused: float
    unqueued_s: float


@dataclass(frozen=True)
class PartFigures:
    """A shared part.

    Attributes:
        busy: the share of time for which it works; of models that take turns, of the time on a card.
        asked: the same if jobs did not wait, which is above 1 in overload.
        wait_s: the mean wait of a call. Infinite = unbounded.
        kind: the index of the servers' kind, -1 for a part of the site.
    """

    name: str
    busy: float
    asked: float
    wait_s: float
    kind: int


@dataclass(frozen=True)
class Figures:
    """A farm.

    Attributes:
        loads: in their order.
        parts: the busiest first.
    """

    loads: tuple[LoadFigures, ...]
    parts: tuple[PartFigures, ...]


def analyse(farm: Farm, loads: Sequence[Load], names: Sequence[str] = ()) -> Figures:
    """Return the figures of a farm. Raises FarmError for a call of a model that no server hosts.

    Args:
        names: of the servers, in their order, for the names of parts.
    """
    check_hosts(farm, (call.model for load in loads for call in load.calls))
    calls = tuple(dict.fromkeys(call for load in loads for call in load.calls))
    solver = _Solver(lay_out(farm, calls, names or [""] * len(farm.servers)), loads)
    solver.solve()
    return solver.figures()


class _Solver:
    """The state of the iteration: the rate of each load, and where its calls go."""

    def __init__(self, layout: Layout, loads: Sequence[Load]) -> None:
        self._layout, self._loads = layout, loads
        self._counts = [Counter(load.calls) for load in loads]
        #: each call with the one before it in an event
        self._pairs = [Counter(zip((None, *load.calls), load.calls, strict=False)) for load in loads]
        self._stations = list(layout.stations)
        #: by model, the part of its calls that goes to each kind of servers
        self._shares: dict[str, tuple[float, ...]] = {
            model: _by_count(layout, model) for model in {call.model for call in layout.calls}
        }
        self._rates = [_rate(load, self._unqueued_s(load)) for load in loads]

    def solve(self) -> None:
        """Iterate until nothing changes."""
        for round_ in range(_ROUNDS):
            before = [station.wait_s for station in self._stations]
            if round_ % _BALANCED == 0:
                self._balance()
            self._set_variations()
            for station in self._stations:
                self._settle(station)
            scale_s = min(self._event_s(index) for index in range(len(self._loads)))
            change_s = max(
                (abs(a.wait_s - b) for a, b in zip(self._stations, before, strict=True) if math.isfinite(a.wait_s)), default=0.0
            )
            if round_ > 3 * _BALANCED and change_s <= _CLOSE * scale_s:
                break

    def figures(self) -> Figures:
        """Return the result."""
        loads = tuple(self._load_figures(index) for index in range(len(self._loads)))
        calls, asked = self._calls(self._rates), self._calls([_rate(load, self._unqueued_s(load)) for load in self._loads])
        parts = [
            PartFigures(
                each.name,
                min(1.0, each.load(self._here(each, calls))),
                each.load(self._here(each, asked)),
                each.wait_s,
                each.kind,
            )
            for each in self._stations
        ]
        return Figures(loads, tuple(sorted(parts, key=lambda part: -part.asked)))

    def _load_figures(self, index: int) -> LoadFigures:
        load, rate = self._loads[index], self._rates[index]
        times: dict[str, list[tuple[int, float]]] = {}
        taken, total = 0.0, 0
        for call, count in self._counts[index].items():
            times.setdefault(call.model, []).append((count, self._call_s(call)))
            taken += count * self._accepted(call)
            total += count
        means = {model: sum(n * s for n, s in each) / sum(n for n, _ in each) for model, each in times.items()}
        event_s = self._event_s(index)
        if isinstance(load, ClosedLoop) and rate:
            event_s = load.jobs * load.in_flight / rate
        unqueued_s = self._unqueued_s(load)
        if isinstance(load, ClosedLoop):
            unqueued_s = load.jobs * load.in_flight / _rate(load, unqueued_s)
        return LoadFigures(rate if math.isfinite(event_s) else 0.0, event_s, means, 1 - taken / total, unqueued_s)

    def _accepted(self, call: Call) -> float:
        """The part of the calls that finds room in the queue."""
        shares = zip(self._shares[call.model], self._layout.groups, strict=True)
        return sum(share * (1 - group.units[call.model].refused) for share, group in shares if share)

    def _calls(self, rates: Sequence[float]) -> dict[Call, float]:
        """The calls per second of all loads."""
        found: dict[Call, float] = {}
        for rate, counts in zip(rates, self._counts, strict=True):
            for call, count in counts.items():
                found[call] = found.get(call, 0.0) + rate * count
        return found

    def _here(self, station: Station, calls: Mapping[Call, float]) -> dict[Call, float]:
        """The calls per second that come to a station."""
        if station.kind < 0:
            return dict(calls)
        return {call: calls[call] * self._shares[call.model][station.kind] for call in station.times_s}

    def _visits(self, index: int, station: Station) -> float:
        """How often an event of a load comes to a station."""
        counts = self._counts[index]
        if station.kind < 0:
            return float(sum(counts.values()))
        return sum(count * self._shares[call.model][station.kind] for call, count in counts.items() if call in station.times_s)

    def _unqueued_s(self, load: Load) -> float:
        return sum(self._fixed_s(call) for call in load.calls)

    def _fixed_s(self, call: Call) -> float:
        shares = zip(self._shares[call.model], self._layout.groups, strict=True)
        return sum(share * self._layout.fixed_s(group, call) for share, group in shares if share)

    def _call_s(self, call: Call) -> float:
        """The mean time of a call."""
        waits = [station.wait_s for station in (*self._layout.ahead, *self._layout.back)]
        for share, group in zip(self._shares[call.model], self._layout.groups, strict=True):
            if share:
                waits += [share * each.wait_s for each in (*group.ahead, group.units[call.model], *group.back)]
        return self._fixed_s(call) + sum(waits)

    def _mean_s(self, call: Call) -> float:
        """The mean time of a call, in which one that is refused takes none."""
        return self._accepted(call) * self._call_s(call)

    def _event_s(self, index: int) -> float:
        """The time of an event: of its calls, and of a job's own work."""
        load = self._loads[index]
        own_s = load.own_work_s if isinstance(load, ClosedLoop) else 0.0
        return own_s + sum(count * self._mean_s(call) for call, count in self._counts[index].items())

    def _settle(self, station: Station) -> None:
        """Find the wait at a station that agrees with the traffic which it leaves, all else unchanged."""
        visits = [self._visits(index, station) for index in range(len(self._loads))]
        held, station.wait_s = station.wait_s, 0.0
        others_s = [sum(n * self._mean_s(call) for call, n in counts.items()) for counts in self._counts]
        station.wait_s = held

        def rates_at(wait_s: float) -> list[float]:
            return [
                _rate(load, other_s + visit * wait_s if visit else other_s)
                for load, other_s, visit in zip(self._loads, others_s, visits, strict=True)
            ]

        def needed_s(wait_s: float) -> float:
            return station.wait_for(self._here(station, self._calls(rates_at(wait_s))), at_random=not closed)

        closed = any(isinstance(load, ClosedLoop) and visit for load, visit in zip(self._loads, visits, strict=True))
        if not closed and not station.limit:
            station.wait_s = needed_s(0.0)
        elif station.away_s:
            station.wait_s = _agree(needed_s, self._event_scale_s())
        else:
            self._settle_queue(station, visits, others_s)
        self._rates = rates_at(station.wait_s)

    def _settle_queue(self, station: Station, visits: Sequence[float], others_s: Sequence[float]) -> None:
        """Find the wait in a queue whose arrivals fall with its length, because jobs wait in it."""
        here = self._here(station, self._calls(self._rates))
        mean_s = station.service(here)[0]
        traffic = [rate * visit for rate, visit in zip(self._rates, visits, strict=True)]
        total = sum(traffic)
        open_rate = sum(flow for flow, load in zip(traffic, self._loads, strict=True) if not isinstance(load, ClosedLoop))
        if not mean_s or not total:
            station.wait_s = 0.0
            return
        if not station.limit and open_rate * mean_s >= station.copies * station.servers:
            station.wait_s = math.inf
            return
        jobs = [
            (load, _job_rates(load, max(0.0, other_s - mean_s * visit)), visit, flow / total)
            for load, other_s, visit, flow in zip(self._loads, others_s, visits, traffic, strict=True)
            if visit and isinstance(load, ClosedLoop)
        ]

        def arrivals(n: float) -> float:
            found = open_rate
            for load, rates, visit, share in jobs:
                waiting = n * station.copies * share / load.jobs
                found += visit * load.jobs * _between(rates, max(0.0, load.in_flight - waiting))
            return found / station.copies

        most = station.servers + station.limit if station.limit else math.inf
        less = self._regularity(station, visits, traffic, mean_s)
        state = solve_queue(arrivals, most, mean_s, station.servers, station.variation(here, less))
        station.wait_s, station.refused = state.wait_s, state.refused

    def _regularity(self, station: Station, visits: Sequence[float], traffic: Sequence[float], mean_s: float) -> float:
        """Return by how much the calls of jobs vary less than random ones, for the time in which the queue forgets.

        A job calls once in a while, about as regularly as its own work. So in times longer than that while, the numbers of
        calls vary as little as the own work.
        """
        total, less = sum(traffic), 0.0
        load = min(0.99, total * mean_s / (station.copies * station.servers))
        memory_s = mean_s / (station.servers * (1 - load))
        for each, rate, visit, flow in zip(self._loads, self._rates, visits, traffic, strict=True):
            if isinstance(each, ClosedLoop) and visit and rate:
                while_s = each.jobs / (rate * visit)
                less += flow / total * max(0.0, 1 - each.own_work_cv**2) * memory_s / (while_s + memory_s)
        return less

    def _event_scale_s(self) -> float:
        return max(1e-9, *(_fixed for _fixed in map(self._unqueued_s, self._loads)))

    def _balance(self) -> None:
        """Ask where the balancer sends calls with the present traffic."""
        layout, calls = self._layout, self._calls([_rate(load, self._unqueued_s(load)) for load in self._loads])
        if len(layout.groups) == 1 and layout.groups[0].count == 1:
            return
        kinds = [self._kind(group, calls) for group in layout.groups]
        by_model: dict[str, float] = {}
        for call, rate in calls.items():
            by_model[call.model] = by_model.get(call.model, 0.0) + rate
        if not all(by_model.values()):
            return
        found = balance(kinds, by_model)
        self._shares = {model: self._within(model, shares, by_model[model]) for model, shares in found.shares.items()}
        for group, factor in zip(layout.groups, found.factors, strict=True):
            stations = (*group.ahead, *group.units.values())
            waiting = [self._waiting(station) for station in stations]
            clear = max(waiting) / sum(waiting) if any(waiting) else 1.0
            for station in stations:
                station.factor = 1 - (1 - factor) * clear
            for model, station in group.units.items():
                if sum(other.count for other in layout.groups if other.hosts(model)) == 1:
                    station.factor = 1.0  # there is no choice

    def _within(self, model: str, shares: Sequence[float], rate: float) -> tuple[float, ...]:
        """Return the shares with no kind of servers overloaded while another has room.

        The balancer sees to that: the calls in flight on the overloaded ones grow until the others are chosen.
        """
        room = []
        for group in self._layout.groups:
            station = group.units.get(model)
            times = [time_s for call, time_s in station.times_s.items() if call.model == model] if station else []
            most = (
                station.copies * station.servers * station.present * len(times) / sum(times) if station and any(times) else 0.0
            )
            room.append(most / rate)
        total = sum(room)
        if total <= 1 and total:
            return tuple(most / total for most in room)
        over = sum(max(0.0, share - most) for share, most in zip(shares, room, strict=True))
        left = [max(0.0, most - share) for share, most in zip(shares, room, strict=True)]
        if not over or not sum(left):
            return tuple(shares)
        return tuple(min(share, most) + over * free / sum(left) for share, most, free in zip(shares, room, left, strict=True))

    def _waiting(self, station: Station) -> float:
        """The calls that would wait at a station of a server if calls went to random servers.

        The balancer sees all calls of a server, so the more stations have a queue the less it knows of each.
        """
        here = self._here(station, self._calls(self._rates))
        mean_s, cv2 = station.service(here)
        load = min(0.99, station.load(here))
        return sum(here.values()) * mean_wait_s(load, mean_s, station.servers, 1.0, cv2) if mean_s else 0.0

    def _kind(self, group: Group, calls: Mapping[Call, float]) -> Kind:
        """Return a kind of servers as the balancer sees them: a delay, and the busiest station."""
        stations = [*group.ahead, *group.units.values(), *group.back]
        here = {call: rate for call, rate in calls.items() if group.hosts(call.model)}
        parts = {call: self._here(group.units[call.model], calls).get(call, 0.0) for call in here}
        total = sum(parts.values())
        if not total:
            parts, total = dict.fromkeys(here, 1.0), float(len(here) or 1)
        slowest = max(stations, key=lambda each: each.load(parts))
        service_s = max(1e-12, slowest.load(parts) * slowest.copies * slowest.servers * slowest.present / total)
        time_s = sum(part * self._layout.fixed_s(group, call) for call, part in parts.items()) / total
        for other in stations:
            if other is not slowest and math.isfinite(other.wait_s):
                time_s += other.wait_s * sum(parts[call] for call in other.times_s if call in parts) / total
        load = slowest.load({call: self._here(slowest, calls).get(call, 0.0) for call in slowest.times_s})
        return Kind(
            group.count, frozenset(group.units), max(0.0, time_s - service_s), service_s, slowest.servers, min(1.0, load)
        )

    def _set_variations(self) -> None:
        """Follow the variation of the arrivals of each call along its way (queues.py).

        A call that follows another one at once, without own work of a job between, arrives as that one leaves.
        """
        calls, layout = self._calls(self._rates), self._layout
        left: dict[Call, float] = {}
        for _ in range(_CHAIN if self._open else 1):
            streams = {call: self._sent_cv2(call, left) for call in layout.calls}
            proxies = layout.farm.proxy.count if layout.farm.proxy else 1
            for station in layout.ahead:
                if station.copies == proxies > 1:
                    streams = {call: cv2 / proxies for call, cv2 in streams.items()}  # they take turns
                streams = self._pass(station, streams, calls)
                if station.copies == proxies > 1:
                    streams = {call: cv2 * proxies for call, cv2 in streams.items()}
            left = dict.fromkeys(layout.calls, 0.0)
            for index, group in enumerate(layout.groups):
                shares = {call: self._shares[call.model][index] for call in layout.calls if group.hosts(call.model)}
                here = {call: _split(streams[call], group.count / share) for call, share in shares.items() if share}
                for station in group.ahead:
                    here = self._pass(station, here, calls)
                for station in group.units.values():
                    here = self._pass(station, here, calls)
                for call, cv2 in here.items():
                    left[call] += shares[call] * (1 + (cv2 - 1) * shares[call] / group.count)

    @property
    def _open(self) -> bool:
        return any(not isinstance(load, ClosedLoop) for load in self._loads)

    def _sent_cv2(self, call: Call, left: Mapping[Call, float]) -> float:
        """The variation of a call as it is sent: 1 at random times, 0 at constant ones.

        Args:
            left: that of each call as its execution ends.
        """
        total = mean = 0.0
        for load, rate, pairs in zip(self._loads, self._rates, self._pairs, strict=True):
            for (before, each), count in pairs.items():
                if each == call:
                    cv2 = 1.0
                    if not isinstance(load, ClosedLoop):
                        cv2 = left.get(before, 1.0) if before else float(load.poisson)
                    total, mean = total + count * rate, mean + count * rate * cv2
        return mean / total if total else 1.0

    def _pass(self, station: Station, streams: Mapping[Call, float], calls: Mapping[Call, float]) -> dict[Call, float]:
        """Return the variations of the streams after a station, whose arrivals are all of them together."""
        here = self._here(station, calls)
        coming = {call: here[call] for call in station.times_s if call in streams}
        total = sum(coming.values())
        if not total:
            return dict(streams)
        station.arrivals_cv2 = sum(rate * streams[call] for call, rate in coming.items()) / total
        leaving = departures_cv2(station.load(here), station.servers, station.arrivals_cv2, station.service(here)[1])
        change = leaving - station.arrivals_cv2
        return {call: max(0.0, cv2 + change * coming.get(call, 0.0) / total) for call, cv2 in streams.items()}


def _by_count(layout: Layout, model: str) -> tuple[float, ...]:
    counts = [group.count if group.hosts(model) else 0 for group in layout.groups]
    return tuple(count / sum(counts) for count in counts)


def _split(cv2: float, ways: float) -> float:
    """The variation of one of so many random parts of a stream."""
    return (cv2 - 1) / ways + 1


def _rate(load: Load, calls_s: float) -> float:
    """Return the events per second of a load whose calls take so long for an event."""
    if not isinstance(load, ClosedLoop):
        return load.rate_per_s
    return load.jobs * _job_rates(load, calls_s)[-1] if math.isfinite(calls_s) else 0.0


def _job_rates(load: ClosedLoop, calls_s: float) -> list[float]:
    """Return the events per second of a job with 0, 1, .. in_flight events, whose calls take so long for an event.

    Its own work is a station of one server. The rate lies between that of regular times, and that of exponential ones, which
    mean-value analysis gives.
    """
    own_s, cv, waiting = load.own_work_s, min(1.0, load.own_work_cv), 0.0
    rates = [0.0]
    for n in range(1, load.in_flight + 1):
        there_s = own_s * (1 + waiting)
        random = n / (calls_s + there_s)
        waiting = random * there_s
        together, alone = 1 / own_s, n / (own_s + calls_s)
        regular = min(together, alone)
        near = regular / max(together, alone)
        rates.append(regular + (random - regular) * (cv * cv + (cv - cv * cv) * near**4))
    return rates


def _between(rates: Sequence[float], events: float) -> float:
    """Return the rate for a number of events that may be a fraction."""
    whole = min(math.floor(events), len(rates) - 2)
    return rates[whole] + (events - whole) * (rates[whole + 1] - rates[whole])


def _agree(needed_s: Callable[[float], float], scale_s: float) -> float:
    """Return the wait w with needed_s(w) = w; needed_s falls with it. Infinite if there is none."""
    high_s = scale_s
    while needed_s(high_s) > high_s:
        high_s *= 4
        if high_s > 1e9 * scale_s:
            return math.inf
    low_s = 0.0
    for _ in range(60):
        middle_s = (low_s + high_s) / 2
        if needed_s(middle_s) > middle_s:
            low_s = middle_s
        else:
            high_s = middle_s
    return high_s
