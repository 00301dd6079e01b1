# SPDX-License-Identifier: Apache-2.0
"""Searches the reuse factors with which an rf core fills a card without exceeding it.

For an interval of T clocks every layer takes the fewest multipliers that finish its row in T, so a network has one design for
each T that some layer meets exactly. Each design is sketched (fit/sketch.py) and its cost estimated (fit/place.py). The fastest
one that fits a die is chosen, with as many units as the card has room for. No vendor tool has checked the results: resources
are estimates, and rates assume a clock frequency.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, exp, log

from hypersonic.hls.network.base import Multiplying, Network, WeightsIn
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.resources import KINDS, LABELS, NOTHING, Amounts
from hypersonic.hls.rf.fit.design import BUSY, CardResources, Design, DesignPoint, Fit, FitError, LayerFit, cheapest, link
from hypersonic.hls.rf.fit.layout import over_dies
from hypersonic.hls.rf.fit.place import pipeline_cost, place_weights
from hypersonic.hls.rf.fit.sketch import sketch, weight_widths
from hypersonic.hls.rf.plan import WHOLE_ROW_BITS
from hypersonic.hls.rf.registry import has_multipliers, sharing
from hypersonic.hls.rf.stage import Pipeline
from hypersonic.hls.rf.timing import Clocks, busy, clocks, row_interval

#: number of designs sketched at even ratios from the fastest to the smallest, and then between the last that does not fit and
#: the first that does
_COARSE, _FINE = 32, 16

#: a unit over several dies is chosen only if it is this many times faster: it has registers at the boundaries, but no tool has
#: shown that it reaches the clock of a unit within a die
_SPAN_GAIN = 2


def fit(network: Network, card: CardResources, whole_row_bits: int = WHOLE_ROW_BITS) -> Fit:
    """Return the fastest design that fits the card. Raises FitError if none does, and UnsupportedLayerError as plan() does."""
    search = _Search(network, card, whole_row_bits)
    designs = search.designs()
    points = [_point(design, units, card) for design in designs for units in range(1, design.most_units + 1)]
    if not points:
        raise FitError(_misfit(network, card, designs))
    best = front(points)
    fastest = max(best, key=lambda point: point.rate_hz / (_SPAN_GAIN if point.design.spans else 1))
    chosen = (cheapest(best, card.wanted_hz) if card.wanted_hz else None) or fastest
    pipeline = search.pipeline(chosen.design.reuse_factors, chosen.design.dies.cuts if chosen.design.dies else ())
    timed = clocks(pipeline)
    layers = tuple(_layers(pipeline, timed, chosen.design, search.slowest))
    return Fit(network.name, card, chosen, timed.latency, layers, best, len(designs))


def with_reuse_factors(network: Network, factors: Mapping[str, int]) -> Network:
    """Return the network with those reuse factors (layer name -> factor), without hls4ml's rounding of them."""
    layers = tuple(
        replace(layer, reuse_factor=factors[layer.name], requested=factors[layer.name])
        if isinstance(layer, Multiplying) and layer.name in factors
        else layer
        for layer in network.layers
    )
    return replace(network, layers=layers)


def with_weights_in(network: Network, places: Mapping[str, WeightsIn]) -> Network:
    """Return the network with its weights in those places (by layer name); weights of other layers are in block RAM."""
    layers = tuple(
        replace(layer, weights_in=places.get(layer.name, WeightsIn.BRAM)) if isinstance(layer, Dense) else layer
        for layer in network.layers
    )
    return replace(network, layers=layers)


def with_design(network: Network, design: Design) -> Network:
    """Return the network with a design's reuse factors and places of weights. Weights that the user wants to be loaded at run
    time still are if the design has them in block RAM."""
    asked = loaded_layers(network)
    placed = with_weights_in(with_reuse_factors(network, design.reuse_factors), design.weights_in)
    inside = (WeightsIn.BRAM, WeightsIn.LUT)
    kept = {name: WeightsIn.LOADED for name in asked if design.weights_in.get(name, WeightsIn.BRAM) in inside}
    return with_weights_in(placed, {**design.weights_in, **kept})


def loaded_layers(network: Network) -> set[str]:
    """Return the layers whose weights the user wants to be loaded at run time."""
    return {layer.name for layer in network.layers if isinstance(layer, Dense) and layer.weights_in is WeightsIn.LOADED}


def front(points: Sequence[DesignPoint]) -> tuple[DesignPoint, ...]:
    """Return the points that no other one beats in both rate and `fullest`, fastest first.

    Units that fit a die and units that span dies are compared only among themselves.
    """
    kept: list[DesignPoint] = []
    for spans in (False, True):
        least = float("inf")
        for point in sorted(points, key=lambda point: (-point.rate_hz, point.fullest)):
            if point.design.spans == spans and point.fullest < least:
                kept.append(point)
                least = point.fullest
    return tuple(sorted(kept, key=lambda point: -point.rate_hz))


# ---------------------------------------------------------------- designs
class _Search:
    """Designs by their target interval, each computed once."""

    def __init__(self, network: Network, card: CardResources, whole_row_bits: int) -> None:
        self._network, self._card, self._whole_row_bits = with_weights_in(network, {}), card, whole_row_bits
        self._widths, self._asked = weight_widths(network), loaded_layers(network)
        working = [layer for layer in network.layers if isinstance(layer, Multiplying)]
        self._choices = {layer.name: sharing(layer).choices(layer) for layer in working}
        self._designs: dict[int, Design] = {}

    def designs(self) -> list[Design]:
        """Return the designs that were tried, fastest first."""
        targets = self._targets()
        for target in _spread(targets, _COARSE):
            self._make(target)
        tried = sorted(self._designs)
        fitting = [target for target in tried if self._designs[target].most_units]
        if fitting:  # also designs between the fastest that fits and the next faster one, which does not
            before = tried[max(tried.index(fitting[0]) - 1, 0)]
            for target in _spread([target for target in targets if before < target < fitting[0]], _FINE):
                self._make(target)
        return [self._designs[target] for target in sorted(self._designs)]

    def pipeline(self, factors: Mapping[str, int], cuts: Sequence[str] = ()) -> Pipeline:
        """Return the sketch of the network with these reuse factors (layer name -> factor) and cuts between dies."""
        return sketch(with_reuse_factors(self._network, factors), self._widths, self._whole_row_bits, cuts)

    @property
    def slowest(self) -> dict[str, int]:
        """Layer name -> its largest reuse factor."""
        return {name: max(choices) for name, choices in self._choices.items()}

    def _targets(self) -> list[int]:
        """Return the intervals, in ascending order, that some layer meets exactly and every layer can meet."""
        least = max((min(choices.values()) for choices in self._choices.values()), default=1)
        reached = {clocks for choices in self._choices.values() for clocks in choices.values()}
        return sorted({clocks for clocks in reached if clocks >= least}) or [1]

    def _make(self, target: int) -> None:
        if target not in self._designs:
            factors = {name: _slowest(choices, target) for name, choices in self._choices.items()}
            self._designs[target] = _design(self.pipeline(factors), factors, self._card, self._asked)


def _design(pipeline: Pipeline, factors: Mapping[str, int], card: CardResources, asked: Collection[str]) -> Design:
    taken, interval = pipeline_cost(pipeline) + card.shell, row_interval(pipeline)
    spare = interval - ceil(
        card.x_bytes / card.bus_bytes
    )  # beats per row of the port for rows and weights that rows leave free
    unit, weights_in = place_weights(pipeline, taken, max(card.dies, key=lambda die: die.bram36), spare)
    units = min(card.units, sum(_count(unit, die) for die in card.dies))
    spans = not units and len(card.dies) > 1
    if spans:
        found = over_dies(pipeline, taken, card, spare, asked)
        return Design(interval, found.unit, int(bool(found.dies)), spans, factors, found.weights_in, found.dies, found.short)
    return Design(interval, unit, units, spans, factors, weights_in)


def _point(design: Design, units: int, card: CardResources) -> DesignPoint:
    fullest, kind = sum([design.unit] * units, NOTHING).fullest(card.whole)
    return DesignPoint(design, units, *rate(card, design.interval, units), fullest, kind)


def _count(unit: Amounts, die: Amounts) -> int:
    """Return the number of units that fit a die."""
    shares = [getattr(die, kind) // getattr(unit, kind) for kind in KINDS if getattr(unit, kind)]
    return int(min(shares, default=1))


def rate(card: CardResources, interval: int, units: int) -> tuple[float, str]:
    """Return the rows per second of `units` units and what limits them: the core, the memory's bus or banks, or the host's
    link."""
    beats = max(ceil(card.x_bytes / card.bus_bytes), ceil(card.y_bytes / card.bus_bytes))
    limits = [(units * card.clock_mhz * 1e6 / max(interval, beats), "the core" if interval >= beats else "the memory's bus")]
    carried = [(size, speed, name) for size, speed, name in link(card) if size and speed]
    if (passing := 2 * (card.x_bytes + card.y_bytes if card.one_bank else max(card.x_bytes, card.y_bytes))) and card.bank_gb_s:
        carried.append((passing, units * card.bank_gb_s, "the memory bank"))
    return min(limits + [(speed * 1e9 / size, name) for size, speed, name in carried])


def _slowest(choices: Mapping[int, int], target: int) -> int:
    """Return the largest reuse factor whose clocks per row are at most `target`."""
    return max(factor for factor, clocks in choices.items() if clocks <= target)


def _spread(targets: Sequence[int], count: int) -> list[int]:
    """Return at most `count` targets at even ratios, including the first and the last."""
    if len(targets) <= count:
        return list(targets)
    steps = log(targets[-1] / targets[0]) / (count - 1)
    wanted = [targets[0] * exp(steps * index) for index in range(count)]
    picked = {targets[min(bisect_left(targets, value - 0.5), len(targets) - 1)] for value in wanted}
    return sorted({*picked, targets[-1]})


# ---------------------------------------------------------------- results
def _layers(pipeline: Pipeline, timed: Clocks, design: Design, slowest: Mapping[str, int]) -> Iterator[LayerFit]:
    for stage in pipeline.stages:
        if stage.layer not in design.reuse_factors or not has_multipliers(stage):
            continue
        factor, share = design.reuse_factors[stage.layer], busy(stage, design.interval)
        arrivals = timed.arrivals[stage.outputs[0].name]
        yield LayerFit(
            stage.layer, factor, (stage.inputs[0].lanes, stage.outputs[0].lanes), stage.multipliers, stage.timing.ii,
            int(arrivals[0]), int(arrivals[-1]), share, design.weights_in.get(stage.layer),
            share < BUSY and factor < slowest[stage.layer],
        )  # fmt: skip


def _misfit(network: Network, card: CardResources, designs: Sequence[Design]) -> str:
    """Return the message for a network that does not fit, with the figures of the design that exceeds the card least."""
    nearest = min(designs, key=lambda design: design.unit.fullest(card.whole))
    lacking = "; ".join(
        f"{LABELS[kind]}: got {got:,.0f}, expected at most {free:,.0f}"
        for kind in KINDS
        if (got := getattr(nearest.unit, kind)) > (free := getattr(card.whole, kind))
    )
    too_much = f"has too much of {lacking}" if lacking else nearest.short
    return (
        f"network {network.name!r} does not fit {card.name}: the smallest design, a row every {nearest.interval:,} clocks, "
        f"{too_much}; give weights and results fewer bits, prune the model, or take a larger card"
    )
