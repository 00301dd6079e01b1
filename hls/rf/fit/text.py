# SPDX-License-Identifier: Apache-2.0
"""A fit as text: a table of designs, and a table of the layers of the chosen one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypersonic.hls.network.base import WeightsIn
from hypersonic.hls.resources import KINDS, LABELS
from hypersonic.hls.rf.fit.design import BUSY, DesignPoint, Fit, LayerFit

#: number of points that a table shows; of more, evenly spaced ones are shown
_ROWS = 24


def fit_lines(fit: Fit) -> list[str]:
    """Return the lines that `hypersonic build --fit` prints."""
    return [*_head(fit), "", *_points(fit), "", *_layers(fit), *_notes(fit)]


def _head(fit: Fit) -> Iterator[str]:
    point, card = fit.chosen, fit.card
    design = point.design
    units = "1 compute unit" if point.units == 1 else f"{point.units} compute units"
    yield (
        f"{fit.network} on {card.name}: {units}, each a row every {design.interval:,} clocks and {fit.latency_cycles:,} clocks "
        "from a row to its result"
    )
    yield (
        f"at {card.clock_mhz:g} MHz, which no tool has confirmed by placing it, core and host's link carry "
        f"{point.rate_hz:,.0f} inferences/s, limited by {point.bound}; "
        f"{point.fullest:.0%} of what the card has for units in {LABELS[point.kind]}"
    )


_POINT = "{:1} {:>12} {:>5} {:>14}" + " {:>9}" * len(KINDS) + "  {:<14} {}"


def _points(fit: Fit) -> Iterator[str]:
    yield f"designs that no other beats, of {fit.tried} tried; resources of all units, estimated"
    heads = [LABELS[kind] for kind in KINDS]
    yield _POINT.format("", "clocks/row", "units", "inferences/s", *heads, "fullest", "limited by").rstrip()
    for point in _shown(fit):
        amounts = [f"{point.units * getattr(point.design.unit, kind):,.0f}" for kind in KINDS]
        fullest = f"{point.fullest:4.0%} {LABELS[point.kind]}"
        bound = f"{point.bound}{'; one unit in several dies' if point.design.spans else ''}"
        mark = "*" if point == fit.chosen else ""
        yield _POINT.format(mark, f"{point.design.interval:,}", point.units, f"{point.rate_hz:,.0f}", *amounts, fullest, bound)
    whole = [f"{getattr(fit.card.whole, kind):,.0f}" for kind in KINDS]
    yield _POINT.format("", "for units", "", "", *whole, "", "").rstrip()


def _shown(fit: Fit) -> Sequence[DesignPoint]:
    """Return all points, or evenly spaced ones and the chosen one."""
    if len(fit.points) <= _ROWS:
        return fit.points
    kept = {round(step * (len(fit.points) - 1) / (_ROWS - 1)) for step in range(_ROWS)}
    return [point for at, point in enumerate(fit.points) if at in kept or point == fit.chosen]


_LAYER = "{:<32} {:>11} {:>9} {:>11} {:>12} {:>6}  {:<7} {}"


def _layers(fit: Fit) -> Iterator[str]:
    yield _LAYER.format("layer", "ReuseFactor", "lanes", "multipliers", "clocks/row", "busy", "weights", "").rstrip()
    for layer in fit.layers:
        lanes = f"{layer.lanes[0]}x{layer.lanes[1]}"
        note = "coarse" if layer.coarse else ""
        yield _LAYER.format(
            layer.name, f"{layer.reuse_factor:,}", lanes, f"{layer.multipliers:,}", f"{layer.interval:,}", f"{layer.busy:.0%}",
            layer.weights_in or "-", note,
        ).rstrip()  # fmt: skip


def _notes(fit: Fit) -> Iterator[str]:
    if any(layer.coarse for layer in fit.layers):
        yield f"coarse: busy less than {BUSY:.0%}, because the next reuse factor that divides the layer's sizes is too slow"
    if in_uram := [layer.name for layer in fit.layers if layer.weights_in is WeightsIn.URAM]:
        yield f"weights in UltraRAM, loaded at run time: {', '.join(in_uram)}"
    if outside := [layer.name for layer in fit.layers if layer.weights_in is WeightsIn.DRAM]:
        yield f"weights from the card's memory, read for every vector: {', '.join(outside)}"
    yield from die_lines(fit)
    worst = slowest(fit)
    if worst:
        yield f"slowest: {worst.name}, its multipliers busy {worst.busy:.0%} of the time"


_DIE = "{:<5} {:<40}" + " {:>14}" * len(KINDS) + " {:>13}"


def die_lines(fit: Fit) -> Iterator[str]:
    """Yield the table of the chosen design's stages on the dies; nothing for a unit on one die."""
    plan, dies = fit.chosen.design.dies, fit.card.dies
    if plan is None:
        return
    yield "the unit does not fit one die; its stages on the dies, with registers at the boundaries, estimated:"
    yield _DIE.format("die", "layers", *(LABELS[kind] for kind in KINDS), "wires to next")
    for die, (amounts, layers, room) in enumerate(zip(plan.amounts, plan.layers, dies, strict=True)):
        shares = [f"{amounts.text(kind)} {_percent(getattr(amounts, kind), getattr(room, kind)):>4}" for kind in KINDS]
        wires = f"{plan.wires[die]:,}" if die < len(plan.wires) else "-"
        yield _DIE.format(f"SLR{die}", " to ".join(dict.fromkeys(layers)) or "none", *shares, wires)


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def slowest(fit: Fit) -> LayerFit | None:
    """Return the layer with the most clocks per row; None for a network without multipliers."""
    return max(fit.layers, key=lambda layer: (layer.interval, layer.multipliers), default=None)
