# SPDX-License-Identifier: Apache-2.0
"""Shares a card between several networks, so that their rates have the ratios that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.fit.design import CardResources, DesignPoint, Fit, FitError, cheapest, link


@dataclass(frozen=True)
class Share:
    """Designs of several networks on one card.

    Attributes:
        factor: the rates that are reached, as a multiple of those asked for.
        points: of each network.
        fullest: the largest fraction used of any resource of the card.
        kind: that resource.
    """

    factor: float
    points: tuple[DesignPoint, ...]
    fullest: float
    kind: str

    @property
    def amounts(self) -> Amounts:
        """The resources of all units."""
        return sum((point.design.unit.times(point.units) for point in self.points), NOTHING)


def shares(fits: Sequence[Fit], rates_hz: Sequence[float], holds: Callable[[Sequence[DesignPoint]], bool]) -> tuple[Share, ...]:
    """Return the shares that no other beats in both factor and `fullest`, the largest factor first.

    Rates beyond the host's link are not reached.

    Args:
        fits: of each network alone on the card.
        rates_hz: asked for, of each.
        holds: whether the card's dies and memories hold such units.

    Raises:
        FitError: Which names the networks, if the card cannot hold designs for the rates themselves.
    """
    card, most = fits[0].card, _link(fits, rates_hz)
    reached = (point.rate_hz / rate for fit, rate in zip(fits, rates_hz, strict=True) for point in fit.points)
    found: list[Share] = []
    for factor in sorted({min(factor, most) for factor in reached} | {min(1.0, most)}, reverse=True):
        points = tuple(cheapest(fit.points, wanted_hz(factor, rate)) for fit, rate in zip(fits, rates_hz, strict=True))
        chosen = tuple(point for point in points if point)
        if len(chosen) == len(fits) and all(share.points != chosen for share in found):
            share = _share(card, factor, chosen)
            if share.amounts.fits(card.whole) and holds(chosen):
                found.append(share)
    kept: list[Share] = []
    for share in sorted(found, key=lambda share: (-share.factor, share.fullest)):
        if not kept or share.fullest < kept[-1].fullest:
            kept.append(share)
    if not kept or kept[0].factor < 1:
        raise FitError(_misfit(fits, rates_hz, kept[0].factor if kept else 0, most))
    return tuple(kept)


def wanted_hz(factor: float, rate_hz: float) -> float:
    """Return the rate that a design has to reach: a multiple of the one asked for, less what rounding may add."""
    return factor * rate_hz * (1 - 1e-9)


def _share(card: CardResources, factor: float, points: tuple[DesignPoint, ...]) -> Share:
    amounts = sum((point.design.unit.times(point.units) for point in points), NOTHING)
    return Share(factor, points, *amounts.fullest(card.whole))


def _link(fits: Sequence[Fit], rates_hz: Sequence[float]) -> float:
    """Return the factor at which the host's link is full."""
    card, factors = fits[0].card, [float("inf")]
    for way, (_, gb_s, _) in enumerate(link(card)):
        asked = sum(link(fit.card)[way][0] * rate for fit, rate in zip(fits, rates_hz, strict=True))
        factors += [gb_s * 1e9 / asked] if asked and gb_s else []
    return min(factors)


def _misfit(fits: Sequence[Fit], rates_hz: Sequence[float], factor: float, most: float) -> str:
    asked = ", ".join(f"{fit.network} {rate:,.0f}/s" for fit, rate in zip(fits, rates_hz, strict=True))
    why = "the host's link carries" if most < 1 and most <= factor else "it holds designs for"
    return (
        f"{asked} do not fit {fits[0].card.name} together: {why} {factor:.3g} times these rates; ask for lower rates or fewer "
        "models, or take a larger card"
    )
