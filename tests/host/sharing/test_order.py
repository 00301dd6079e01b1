# SPDX-License-Identifier: Apache-2.0
"""FairOrder: bytes in proportion to shares over any interval in which flows wait, no starvation, work conserving."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypersonic.host.sharing.order import FairOrder, Flow, Turn

#: the machine may be slow
CASES = settings(suppress_health_check=[HealthCheck.too_slow])

#: for each flow its share and the sizes of its turns, which it adds one by one: it always has one waiting
BACKLOGGED = st.lists(
    st.tuples(st.sampled_from((0.5, 1.0, 2.0, 3.0)), st.lists(st.integers(1, 10_000), min_size=1, max_size=5)),
    min_size=2,
    max_size=4,
)


def serve(flows: list[tuple[float, list[int]]], turns: int, slack: float = 0.0) -> list[Turn]:
    """The turns served while every flow always has one waiting."""
    order, known = FairOrder(), [Flow(str(index), share) for index, (share, _) in enumerate(flows)]
    sizes = {flow: iter(lengths * (turns + 1)) for flow, (_, lengths) in zip(known, flows, strict=True)}
    for flow in known:
        order.add(Turn(flow, next(sizes[flow])))
    served: list[Turn] = []
    for _ in range(turns):
        turn = order.next(served[-1].flow if served else None, slack)
        assert turn is not None
        order.take(turn)
        served.append(turn)
        order.add(Turn(turn.flow, next(sizes[turn.flow])))
    return served


@CASES
@given(BACKLOGGED, st.integers(0, 60), st.integers(1, 60), st.sampled_from((0.0, 5_000.0)))
def test_service_is_proportional_over_any_interval_within_one_turn_of_each_flow(
    flows: list[tuple[float, list[int]]], begin: int, length: int, slack: float
) -> None:
    served = serve(flows, begin + length, slack)[begin:]
    got = [
        sum(turn.size_bytes for turn in served if turn.flow.name == str(index)) / share
        for index, (share, _) in enumerate(flows)
    ]
    most = [max(sizes) / share for share, sizes in flows]
    for a, b in combinations(range(len(flows)), 2):
        bound = 2 * (slack + max(most)) if slack else most[a] + most[b]
        assert abs(got[a] - got[b]) <= bound + 1e-6


@CASES
@given(BACKLOGGED)
def test_no_flow_starves(flows: list[tuple[float, list[int]]]) -> None:
    most = max(max(sizes) / share for share, sizes in flows)
    least = min(min(sizes) / share for share, sizes in flows)
    turns = int(len(flows) * (2 * most / least + 2))
    assert {turn.flow.name for turn in serve(flows, turns)} == {str(index) for index in range(len(flows))}


@CASES
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1000), st.booleans()), max_size=60))
def test_nothing_waits_while_nothing_is_served(steps: list[tuple[str, int, bool]]) -> None:
    order, flows, waiting = FairOrder(), {name: Flow(name) for name in "abc"}, 0
    for name, size, serving in steps:
        order.add(Turn(flows[name], size))
        waiting += 1
        assert len(order) == waiting
        turn = order.next()
        assert turn is not None
        if serving:
            order.take(turn)
            waiting -= 1
    while (turn := order.next()) is not None:
        order.take(turn)
        waiting -= 1
    assert waiting == 0


def test_one_flow_is_served_in_the_order_of_its_turns() -> None:
    order, flow = FairOrder(), Flow("a")
    turns = [Turn(flow, size) for size in (9, 1, 5, 0, 3)]
    for turn in turns:
        order.add(turn)
    served = []
    while (turn := order.next()) is not None:  # type: ignore[assignment]
        order.take(turn)
        served.append(turn)
    assert served == turns


def test_a_flow_that_was_idle_has_no_credit() -> None:
    order, busy, idle = FairOrder(), Flow("busy"), Flow("idle")
    for _ in range(100):
        order.add(turn := Turn(busy, 10))
        order.take(turn)
    for _ in range(5):
        order.add(Turn(idle, 10))
        order.add(Turn(busy, 10))
    names = []
    while (next_turn := order.next()) is not None:
        order.take(next_turn)
        names.append(next_turn.flow.name)
    assert [sum(name == "idle" for name in names[:n]) for n in (4, 8)] == [2, 4]


@pytest.mark.parametrize(("slack", "in_a_row"), [(0, 1), (35, 4), (1000, 6)])
def test_a_preferred_flow_stays_within_the_slack(slack: float, in_a_row: int) -> None:
    order, a, b = FairOrder(), Flow("a"), Flow("b")
    for flow in (a, b):
        for _ in range(6):
            order.add(Turn(flow, 10))
    served = []
    for _ in range(6):
        turn = order.next(a, slack)
        assert turn is not None
        order.take(turn)
        served.append(turn.flow.name)
    assert "".join(served).startswith("a" * in_a_row)
    assert ("b" in served) == (in_a_row < 6)
