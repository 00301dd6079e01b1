# SPDX-License-Identifier: Apache-2.0
"""Which reuse factors make an rf core fill, and fit, a card.

For an interval of T clocks every layer takes the fewest multipliers that do its row in T, so a network has one design for each
T that some layer can do exactly. Each is sketched (fit/sketch.py) and costed (fit/place.py); the fastest that fits a die is
taken, as many times as the card has room. Nothing here has seen a vendor tool: resources are estimates, a rate is clocks a row
at a clock that is assumed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, exp, log

from hypersonic.hls.errors import ConversionError
from hypersonic.hls.resources import KINDS, LABELS, NOTHING, Amounts
from hypersonic.hls.rf.fit.design import BUSY, Card, Design, Fit, LayerFit, Point
from hypersonic.hls.rf.fit.place import pipeline_cost, place_weights
from hypersonic.hls.rf.fit.sketch import sketch, weight_widths
from hypersonic.hls.rf.layers import Products, RfNetwork, WeightsIn
from hypersonic.hls.rf.plan import WHOLE_ROW_BITS
from hypersonic.hls.rf.registry import has_multipliers, sharing
from hypersonic.hls.rf.stage import Pipeline
from hypersonic.hls.rf.stages.dense import Dense
from hypersonic.hls.rf.timing import Clocks, busy, clocks, row_interval

#: designs that are sketched at even steps from the fastest to the smallest, and then between the two at the card's edge
_COARSE, _FINE = 32, 16

#: so many times faster a unit over several dies has to be to be taken: wires between dies cost clock, and nothing counts them
_SPAN_GAIN = 2


class FitError(ConversionError):
    """No design of the network fits the card: which resource, how much, what to do."""


def fit(network: RfNetwork, card: Card, whole_row_bits: int = WHOLE_ROW_BITS) -> Fit:
    """The fastest design that fits the card. Raises FitError when none does, UnsupportedLayerError as plan() does."""
    search = _Search(network, card, whole_row_bits)
    designs = search.designs()
    points = [_point(design, units, card) for design in designs for units in range(1, design.most_units + 1)]
    if not points:
        raise FitError(_misfit(network, card, designs))
    best = front(points)
    chosen = max(best, key=lambda point: point.rate_hz / (_SPAN_GAIN if point.design.spans else 1))
    pipeline = search.pipeline(chosen.design.reuse_factors)
    timed = clocks(pipeline)
    layers = tuple(_layers(pipeline, timed, chosen.design, search.slowest))
    return Fit(network.name, card, chosen, timed.latency, layers, best, len(designs))


def with_reuse_factors(network: RfNetwork, factors: Mapping[str, int]) -> RfNetwork:
    """The network with those reuse factors, as if asked for and taken; hls4ml's own rounding does not come into it."""
    layers = tuple(
        replace(layer, reuse_factor=factors[layer.name], requested=factors[layer.name])
        if isinstance(layer, Products) and layer.name in factors
        else layer
        for layer in network.layers
    )
    return replace(network, layers=layers)


def with_weights_in(network: RfNetwork, places: Mapping[str, WeightsIn]) -> RfNetwork:
    """The network with its layers' weights there, and those of layers that are not named in block RAM."""
    layers = tuple(
        replace(layer, weights_in=places.get(layer.name, WeightsIn.BRAM)) if isinstance(layer, Dense) else layer
        for layer in network.layers
    )
    return replace(network, layers=layers)


def with_design(network: RfNetwork, design: Design) -> RfNetwork:
    """The network as a design has it."""
    return with_weights_in(with_reuse_factors(network, design.reuse_factors), design.weights_in)


def front(points: Sequence[Point]) -> tuple[Point, ...]:
    """Those that no other beats, fastest first; units in one die each and one that spans them beat only their like."""
    kept: list[Point] = []
    for spans in (False, True):
        least = float("inf")
        for point in sorted(points, key=lambda point: (-point.rate_hz, point.fullest)):
            if point.design.spans == spans and point.fullest < least:
                kept.append(point)
                least = point.fullest
    return tuple(sorted(kept, key=lambda point: -point.rate_hz))


# ---------------------------------------------------------------- the designs there are
class _Search:
    """Designs by their target, each made once."""

    def __init__(self, network: RfNetwork, card: Card, whole_row_bits: int) -> None:
        self._network, self._card, self._whole_row_bits = with_weights_in(network, {}), card, whole_row_bits
        self._widths = weight_widths(network)
        working = [layer for layer in network.layers if isinstance(layer, Products)]
        self._choices = {layer.name: sharing(layer).choices(layer) for layer in working}
        self._designs: dict[int, Design] = {}

    def designs(self) -> list[Design]:
        """Fastest first."""
        targets = self._targets()
        for target in _spread(targets, _COARSE):
            self._make(target)
        tried = sorted(self._designs)
        fitting = [target for target in tried if self._designs[target].most_units]
        if fitting:  # and what lies between the fastest that fits and the one before, which does not
            before = tried[max(tried.index(fitting[0]) - 1, 0)]
            for target in _spread([target for target in targets if before < target < fitting[0]], _FINE):
                self._make(target)
        return [self._designs[target] for target in sorted(self._designs)]

    def pipeline(self, factors: Mapping[str, int]) -> Pipeline:
        return sketch(with_reuse_factors(self._network, factors), self._widths, self._whole_row_bits)

    @property
    def slowest(self) -> dict[str, int]:
        """The largest reuse factor of each layer."""
        return {name: max(choices) for name, choices in self._choices.items()}

    def _targets(self) -> list[int]:
        """Clocks of a row that some layer does exactly and every layer can do, the fastest first."""
        least = max((min(choices.values()) for choices in self._choices.values()), default=1)
        reached = {clocks for choices in self._choices.values() for clocks in choices.values()}
        return sorted({clocks for clocks in reached if clocks >= least}) or [1]

    def _make(self, target: int) -> None:
        if target not in self._designs:
            factors = {name: _slowest(choices, target) for name, choices in self._choices.items()}
            self._designs[target] = _design(self.pipeline(factors), factors, self._card)


def _design(pipeline: Pipeline, factors: Mapping[str, int], card: Card) -> Design:
    taken, interval = pipeline_cost(pipeline) + card.shell, row_interval(pipeline)
    spare = interval - ceil(card.x_bytes / card.bus_bytes)  # beats of the port that brings rows and weights
    unit, weights_in = place_weights(pipeline, taken, max(card.dies, key=lambda die: die.bram36), spare)
    units = min(card.units, sum(_count(unit, die) for die in card.dies))
    spans = not units and len(card.dies) > 1
    if spans:
        unit, weights_in = place_weights(pipeline, taken, card.whole, spare)
        units = int(unit.fits(card.whole))
    return Design(interval, unit, units, spans, factors, weights_in)


def _point(design: Design, units: int, card: Card) -> Point:
    fullest, kind = sum([design.unit] * units, NOTHING).fullest(card.whole)
    return Point(design, units, *rate(card, design.interval, units), fullest, kind)


def _count(unit: Amounts, die: Amounts) -> int:
    """Units that a die holds."""
    shares = [getattr(die, kind) // getattr(unit, kind) for kind in KINDS if getattr(unit, kind)]
    return int(min(shares, default=1))


def rate(card: Card, interval: int, units: int) -> tuple[float, str]:
    """Rows a second of so many units, and what limits it: the core, the memory's bus or the host's link."""
    beats = max(ceil(card.x_bytes / card.bus_bytes), ceil(card.y_bytes / card.bus_bytes))
    limits = [(units * card.clock_mhz * 1e6 / max(interval, beats), "the core" if interval >= beats else "the memory's bus")]
    for name, size, speed in (("host to card", card.x_bytes, card.h2c_gb_s), ("card to host", card.y_bytes, card.c2h_gb_s)):
        if size and speed:
            limits.append((speed * 1e9 / size, name))
    return min(limits)


def _slowest(choices: Mapping[int, int], target: int) -> int:
    """The largest reuse factor that keeps up."""
    return max(factor for factor, clocks in choices.items() if clocks <= target)


def _spread(targets: Sequence[int], count: int) -> list[int]:
    """At most so many of them, the first and the last among them, at even ratios."""
    if len(targets) <= count:
        return list(targets)
    steps = log(targets[-1] / targets[0]) / (count - 1)
    wanted = [targets[0] * exp(steps * index) for index in range(count)]
    picked = {targets[min(bisect_left(targets, value - 0.5), len(targets) - 1)] for value in wanted}
    return sorted({*picked, targets[-1]})


# ---------------------------------------------------------------- what is said of them
def _layers(pipeline: Pipeline, timed: Clocks, design: Design, slowest: Mapping[str, int]) -> Iterator[LayerFit]:
    for stage in pipeline.stages:
        if stage.layer not in design.reuse_factors or not has_multipliers(stage):
            continue
        factor, share = design.reuse_factors[stage.layer], busy(stage, design.interval)
        arrivals = timed.arrivals[stage.outputs[0].name]
        yield LayerFit(
            stage.layer, factor, (stage.inputs[0].lanes, stage.outputs[0].lanes), stage.multipliers, stage.timing.ii,
            int(arrivals[0]), int(arrivals[-1]), share, design.weights_in[stage.layer],
            share < BUSY and factor < slowest[stage.layer],
        )  # fmt: skip


def _misfit(network: RfNetwork, card: Card, designs: Sequence[Design]) -> str:
    """Of the design that comes nearest."""
    nearest = min(designs, key=lambda design: design.unit.fullest(card.whole))
    lacking = "; ".join(
        f"{LABELS[kind]}: got {got:,.0f}, expected at most {free:,.0f}"
        for kind in KINDS
        if (got := getattr(nearest.unit, kind)) > (free := getattr(card.whole, kind))
    )
    return (
        f"network {network.name!r} does not fit {card.name}: the smallest design, a row every {nearest.interval:,} clocks, has "
        f"too much of {lacking}; give weights and results fewer bits, prune the model, or take a larger card"
    )
