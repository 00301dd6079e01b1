# SPDX-License-Identifier: Apache-2.0
"""A card is shared between several networks by the rates that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hypersonic.building.fit.card import card_of
from hypersonic.building.fit.together import draw_shares, share_card, share_lines
from hypersonic.firmware.platform import find_platform
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.fit.design import CardResources, Design, DesignPoint, Fit, FitError, cheapest
from hypersonic.hls.rf.fit.search import front
from hypersonic.hls.rf.fit.share import shares

U250 = find_platform("u250")
CARD = CardResources("small", (Amounts(lut=1000, dsp=100),), 4, 100.0, x_bytes=4, y_bytes=4)


def _fit(network: str, card: CardResources = CARD, designs: Sequence[tuple[int, int]] = ((1, 40), (10, 20), (100, 10))) -> Fit:
    """A network with designs of an interval and a number of DSPs."""
    points = []
    for interval, dsp in designs:
        design = Design(interval, Amounts(lut=dsp, dsp=dsp), 2, False, {}, {})
        for units in (1, 2):
            fullest, kind = design.unit.times(units).fullest(card.whole)
            points.append(DesignPoint(design, units, units * card.clock_mhz * 1e6 / interval, "the core", fullest, kind))
    best = front(points)
    return Fit(network, card, best[0], 10, (), best, len(designs))


def test_the_largest_factor_for_which_all_designs_fit_is_first_and_worse_ones_follow() -> None:
    found = shares([_fit("a"), _fit("b")], [1e6, 1e6], lambda _: True)
    assert (found[0].factor, [(p.units, p.design.interval) for p in found[0].points]) == (100, [(1, 1), (1, 1)])
    assert (found[-1].factor, [p.design.interval for p in found[-1].points]) == (1, [100, 100])
    assert [share.factor for share in found] == sorted((share.factor for share in found), reverse=True)
    assert [share.fullest for share in found] == sorted((share.fullest for share in found), reverse=True)
    for share in found:
        assert all(point.rate_hz >= share.factor * 1e6 for point in share.points)
        assert share.amounts.fits(CARD.whole)


def test_rates_have_the_ratio_that_is_asked_for() -> None:
    (best, *_) = shares([_fit("a"), _fit("b")], [1e6, 1e7], lambda _: True)
    assert [point.rate_hz for point in best.points] == [2e7, 1e8] or best.points[1].rate_hz >= 10 * best.factor * 1e6
    assert best.factor >= 10


def test_what_dies_and_memories_do_not_hold_is_no_share() -> None:
    (best, *_) = shares([_fit("a"), _fit("b")], [1e6, 1e6], lambda points: sum(point.design.unit.dsp for point in points) < 50)
    assert [point.design.interval for point in best.points] == [10, 10]


def test_the_hosts_link_bounds_the_factor_of_all_together() -> None:
    card = CardResources("small", CARD.dies, 4, 100.0, x_bytes=100, y_bytes=4, h2c_gb_s=1.0)
    found = shares([_fit("a", card), _fit("b", card)], [1e6, 1e6], lambda _: True)
    assert found[0].factor == pytest.approx(5)
    with pytest.raises(
        FitError, match=r"a 6,000,000/s, b 6,000,000/s do not fit small together: the host's link carries 0\.833 "
    ):
        shares([_fit("a", card), _fit("b", card)], [6e6, 6e6], lambda _: True)


def test_rates_that_no_designs_reach_together_are_refused_with_what_they_reach() -> None:
    with pytest.raises(
        FitError, match=r"a 100,000,000/s, b 200,000,000/s do not fit small together: it holds designs for 0\.5 "
    ):
        shares([_fit("a"), _fit("b")], [1e8, 2e8], lambda _: True)


def test_the_smallest_design_that_reaches_a_rate_is_taken() -> None:
    points = _fit("a").points
    chosen = cheapest(points, 5e6)
    assert chosen
    assert (chosen.design.interval, chosen.units) == (10, 1)
    assert cheapest(points, 1e12) is None


def test_the_table_and_the_picture_show_every_network(tmp_path: Path) -> None:
    card = card_of(U250)
    designs = ((1, 1500), (10, 300), (100, 60))
    shared = share_card(U250, [_fit("a", card, designs), _fit("b", card, designs)], [1e6, 2e6])
    lines = share_lines(shared)
    assert lines[0].startswith("shares of u250 for a 1,000,000/s, b 2,000,000/s that no other beats")
    assert "a (units x clocks/row)" in lines[1]
    assert lines[2].lstrip().startswith("*")
    assert lines[-2].startswith("chosen: ")
    draw_shares(shared, tmp_path / "fit.png")
    assert (tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")
