# SPDX-License-Identifier: Apache-2.0
"""The room for requests in flight."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from hypersonic.client.gate import Gate
from hypersonic.client.settings import Limits


@given(st.lists(st.integers(0, 60), max_size=40), st.randoms())
def test_the_limits_hold_and_everybody_gets_in_the_order_of_coming(sizes: list[int], rng: object) -> None:
    gate, inside, order = Gate(Limits(in_flight=3, bytes_in_flight=50)), [], []

    def granted(place: int) -> None:
        inside.append(place)
        order.append(place)
        assert len(inside) <= 3
        assert sum(sizes[one] for one in inside) <= 50 or len(inside) == 1

    for place, size in enumerate(sizes):
        gate.enter(size, partial(granted, place))
    while inside:
        leaving = inside.pop(rng.randrange(len(inside)))  # type: ignore[attr-defined]
        gate.leave(sizes[leaving])
    assert order == list(range(len(sizes)))


def test_a_request_above_the_limit_goes_alone() -> None:
    gate = Gate(Limits(in_flight=3, bytes_in_flight=50))
    assert gate.try_enter(100)
    assert not gate.try_enter(1)
    gate.leave(100)
    assert gate.try_enter(1)
    assert not gate.try_enter(100)


def test_nobody_overtakes_who_waits() -> None:
    gate, granted = Gate(Limits(in_flight=2, bytes_in_flight=50)), []
    assert gate.try_enter(40)
    gate.enter(30, lambda: granted.append("large"))
    assert not gate.try_enter(1), "there is room, but the large one waits"
    gate.leave(40)
    assert granted == ["large"]
