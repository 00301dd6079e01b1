# SPDX-License-Identifier: Apache-2.0
"""FairPlaces: transfers that share a link by shares, two at a time, on a link that one transfer alone does not fill."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import combinations, cycle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypersonic.host.sharing.order import FairPlaces, Flow, Turn

#: the machine may be slow
CASES = settings(suppress_health_check=[HealthCheck.too_slow])

SHARES = st.sampled_from((0.5, 1.0, 2.0, 5.0, 10.0))
SIZES = st.lists(st.integers(1, 10_000), min_size=1, max_size=4)


@dataclass
class Link:
    """A link in whole steps of time: transfers in flight share `total` bytes a step, each with at most `most` of them.

    Attributes:
        served: bytes of the transfers that are over, by flow.
        in_flight: the transfers and the bytes that they still have.
    """

    places: FairPlaces
    most: float = 7.0
    total: float = 10.0
    time: float = 0.0
    served: dict[Flow, int] = field(default_factory=dict)
    in_flight: dict[Turn, float] = field(default_factory=dict)

    def ask(self, turn: Turn) -> None:
        self._begin(self.places.enter(turn))

    def finish_one(self) -> Turn:
        """Let time go on until a transfer is over, and return it."""
        rate = min(self.most, self.total / len(self.in_flight))
        turn = min(self.in_flight, key=self.in_flight.__getitem__)
        left = self.in_flight.pop(turn)
        self.time += left / rate
        self.in_flight = {each: rest - left for each, rest in self.in_flight.items()}
        self.served[turn.flow] = self.served.get(turn.flow, 0) + turn.size_bytes
        self._begin(self.places.leave(turn.flow))
        return turn

    def _begin(self, turns: list[Turn]) -> None:
        self.in_flight.update({turn: float(turn.size_bytes) for turn in turns})


@CASES
@given(st.lists(st.tuples(SHARES, SIZES), min_size=2, max_size=4), st.integers(0, 60), st.integers(1, 60), st.integers(1, 3))
def test_flows_that_always_wait_get_bytes_by_shares_within_a_turn_of_each_and_one_for_every_place(
    flows: list[tuple[float, list[int]]], begin: int, length: int, count: int
) -> None:
    link, known = Link(FairPlaces(count)), [Flow(str(index), share) for index, (share, _) in enumerate(flows)]
    sizes = {flow: cycle(lengths) for flow, (_, lengths) in zip(known, flows, strict=True)}
    for flow in known:
        for _ in range(count + 1):  # so many that one still waits while all places are its own
            link.ask(Turn(flow, next(sizes[flow])))
    for _ in range(begin):
        link.ask(Turn((over := link.finish_one()).flow, next(sizes[over.flow])))
    before = dict(link.served)
    for _ in range(length):
        link.ask(Turn((over := link.finish_one()).flow, next(sizes[over.flow])))
    got = [(link.served.get(flow, 0) - before.get(flow, 0)) / flow.share for flow in known]
    most = [max(lengths) / share for share, lengths in flows]
    for a, b in combinations(range(len(flows)), 2):
        assert abs(got[a] - got[b]) <= (count + 2) * (most[a] + most[b]) + 1e-6


@CASES
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1000), st.booleans()), max_size=80))
def test_two_are_in_flight_at_most_and_every_turn_is_served(steps: list[tuple[str, int, bool]]) -> None:
    link, flows, asked = Link(FairPlaces(2)), {name: Flow(name, share) for name, share in zip("abc", (1, 3, 9), strict=True)}, 0
    for name, size, ending in steps:
        link.ask(Turn(flows[name], size))
        asked += size
        if ending:
            link.finish_one()
        assert len(link.in_flight) <= 2
    while link.in_flight:
        link.finish_one()
    assert sum(link.served.values()) == asked, "a turn that waits has another one in flight, whose end lets it go on"


@CASES
@given(st.lists(st.integers(0, 1000), min_size=3, max_size=40))
def test_a_flow_alone_has_both_places_as_long_as_it_has_turns(sizes: list[int]) -> None:
    link, flow = Link(FairPlaces(2)), Flow("a")
    for size in sizes:
        link.ask(Turn(flow, size))
    for left in range(len(sizes), 0, -1):
        assert len(link.in_flight) == min(2, left)
        link.finish_one()


def test_a_flow_has_both_places_again_soon_after_its_competitor_has_gone() -> None:
    link, a, b = Link(FairPlaces(2)), Flow("a", 3.0), Flow("b")
    for flow in (a, b, *[a] * 9):
        link.ask(Turn(flow, 1000))
    in_flight = []
    while link.in_flight:
        in_flight.append("".join(sorted(turn.flow.name for turn in link.in_flight)))
        link.finish_one()
    assert in_flight[0] == "ab"
    assert in_flight[-4:] == ["aa", "aa", "aa", "a"]


def ratio(shares: tuple[float, float], slots: int, think: float, places: int = 2, size: int = 1000) -> tuple[float, float]:
    """Bytes of the first flow over those of the second, and bytes in a unit of time, of closed loops with so many slots each.

    Args:
        think: time between the end of a transfer and the next request of its slot, in units of a transfer's time alone.
    """
    link, flows = Link(FairPlaces(places)), [Flow(name, share) for name, share in zip("ab", shares, strict=True)]
    for flow in flows:
        for _ in range(slots):
            link.ask(Turn(flow, size))
    returning: list[tuple[float, int, Flow]] = []
    for number in range(1500):
        rate = min(link.most, link.total / len(link.in_flight)) if link.in_flight else 0
        ends = link.time + min(link.in_flight.values()) / rate if link.in_flight else float("inf")
        if returning and returning[0][0] <= ends:
            time, _, flow = heapq.heappop(returning)
            link.in_flight = {turn: left - (time - link.time) * rate for turn, left in link.in_flight.items()}
            link.time = time
            link.ask(Turn(flow, size))
        else:
            heapq.heappush(returning, (ends + think * size / link.most, number, link.finish_one().flow))
    return link.served[flows[0]] / link.served[flows[1]], sum(link.served.values()) / link.time


@pytest.mark.parametrize("shares", [(1.0, 1.0), (3.0, 1.0), (10.0, 1.0)])
@pytest.mark.parametrize("slots", [2, 3])
def test_models_with_few_slots_get_their_shares_of_a_link_that_they_fill(shares: tuple[float, float], slots: int) -> None:
    got, _ = ratio(shares, slots, think=0.3)
    assert got == pytest.approx(shares[0] / shares[1], rel=0.1)


def test_two_transfers_in_flight_carry_what_the_link_carries_and_one_what_a_transfer_reaches() -> None:
    assert ratio((1, 1), 2, think=0.3, places=1)[1] == pytest.approx(7, rel=0.02)
    assert ratio((1, 1), 2, think=0.3)[1] == pytest.approx(10, rel=0.02)
