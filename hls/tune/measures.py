# SPDX-License-Identifier: Apache-2.0
"""The measures of `hypersonic tune`: the types of a description, a candidate's loss, and its cost on a card."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.closeness.difference import difference
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.project import HlsProject
from hypersonic.hls.resources import KINDS, Amounts
from hypersonic.hls.rf.fit.design import CardResources
from hypersonic.hls.rf.fit.exchange import fit_from_json
from hypersonic.hls.tune.labels import Labels

Outputs = tuple[NDArray[np.float64], ...]

#: the fewest bits of a type
LEAST_BITS = 2


@dataclass(frozen=True)
class Group:
    """Types that become narrower together.

    Attributes:
        name: for display.
        places: the keys that lead to each type in the YAML.
    """

    name: str
    places: tuple[tuple[str, ...], ...]


def groups_of(yaml: Mapping[str, Any]) -> tuple[Group, ...]:
    """Return the groups of a parsed YAML: inputs, outputs, and each layer's weights and results, in the YAML's order."""
    found = [Group(f"{side} {name}".strip(), (place,)) for side, name, place in _sides(yaml)]
    for layer, settings in (yaml["hls4ml"].get("LayerName") or {}).items():
        types = settings.get("Precision") or {}
        where = ("hls4ml", "LayerName", layer, "Precision")
        for name, kinds in (("weights", ("weight", "bias", "scale")), ("result", ("result",))):
            places = tuple((*where, kind) for kind in kinds if kind in types)
            if places:
                found.append(Group(f"{name} of {layer}", places))
    return tuple(found)


def _sides(yaml: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for side in ("input", "output"):
        if "precision" in yaml.get(side, {}):
            yield side, "", (side, "precision")
        for name, described in yaml.get(f"{side}s", {}).items():
            if "precision" in described:
                yield side, name, (f"{side}s", name, "precision")


def narrowed(yaml: Mapping[str, Any], groups: Sequence[Group], fewer: Mapping[str, int]) -> dict[str, Any]:
    """Return the YAML with `fewer` bits (by the group's name; negative for more) right of the point in each type of a group.

    A type keeps its integer bits, and at least two bits in all.
    """
    changed = copy.deepcopy(dict(yaml))
    for group in groups:
        bits = fewer.get(group.name, 0)
        for *path, key in group.places if bits else ():
            inner = changed
            for each in path:
                inner = inner[each]
            kind = FixedPoint.parse(inner[key])
            inner[key] = str(replace(kind, width=max(min(LEAST_BITS, kind.width), kind.width - bits)))
    return changed


def bits_of(yaml: Mapping[str, Any], groups: Sequence[Group]) -> dict[str, int]:
    """Return the width of each group's widest type, by the group's name."""
    return {group.name: max(FixedPoint.parse(_at(yaml, place)).width for place in group.places) for group in groups}


def _at(yaml: Mapping[str, Any], place: Sequence[str]) -> str:
    inner: Any = yaml
    for each in place:
        inner = inner[each]
    return str(inner)


@dataclass(frozen=True)
class Cost:
    """The resources that a candidate takes, and its rate.

    Attributes:
        core: resources of one core without its shell, estimated by rules, without a vendor's tool.
        clocks: from row to row.
        units: on the card.
        rate_hz: rows per second of all units, at the card's kernel clock.
        share: the share of the card that all cores take, averaged over the kinds of resources.
    """

    core: Amounts
    clocks: int
    units: int
    rate_hz: float
    share: float

    @property
    def price(self) -> float:
        """The share of the card that a million rows per second need."""
        return self.share / self.rate_hz * 1e6


def cost_of(project: HlsProject, card: CardResources) -> tuple[Cost, dict[str, int]]:
    """Return a conversion's cost, and the reuse factors that were chosen to fill the card, by layer; none for a da core.

    A factor is 0 where hls4ml's C++ does not support the one that was chosen.

    Args:
        project: converted by converting.py.
    """
    figures = project.report["core"]
    if figures["kind"] == CoreKind.DA:
        core = Amounts(lut=figures["estimated_luts"], ff=figures["register_bits"])
        rate = card.clock_mhz * 1e6 / figures["ii"]
        return Cost(core, int(figures["ii"]), 1, rate, _share(core, card.whole)), {}
    found = fit_from_json(project.report["fit"])
    chosen, own = found.chosen, project.report["own_names"]
    factors = supported(found.reuse_factors, project.report["possible_reuse"])
    factors = {own.get(name, name): factor for name, factor in factors.items()}
    core = chosen.design.unit + card.shell.times(-1)
    share = _share(core.times(chosen.units), card.whole)
    return Cost(core, chosen.design.interval, chosen.units, chosen.rate_hz, share), factors


def supported(factors: Mapping[str, int], possible: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the factors, with 0 for those that are not among a layer's possible ones; all are possible if there are none."""
    return {name: factor if factor in (possible.get(name) or [factor]) else 0 for name, factor in factors.items()}


def _share(amounts: Amounts, whole: Amounts) -> float:
    kinds = [kind for kind in KINDS if getattr(whole, kind)]
    return float(sum(getattr(amounts, kind) / getattr(whole, kind) for kind in kinds) / len(kinds))


def loss_of(answers: Outputs, trained: Outputs, labels: tuple[Labels, ...], rows: NDArray[np.int64]) -> float:
    """Return how much worse the answers to `rows` are than the trained model's, as a fraction; 0 without a loss.

    With labels, of the worst labelled output: the relative drop of the accuracy, or the relative growth of the rms difference
    from the labels. Without labels, of the worst output: the rms difference from the trained model's answers over their
    spread, as hls/closeness/difference.py defines both.
    """
    if not labels:
        return max(difference(a[rows], t[rows]).share for a, t in zip(answers, trained, strict=True))
    losses = []
    for each in labels:
        picked = replace(each, values=each.values[rows], classes=None if each.classes is None else each.classes[rows])
        got, wanted = (picked.figures(side[each.output][rows]) for side in (answers, trained))
        kind = "rms" if each.classes is None else "accuracy"
        worse = got[kind] - wanted[kind] if kind == "rms" else wanted[kind] - got[kind]
        losses.append(max(0.0, worse / wanted[kind]) if wanted[kind] else float(worse > 0))
    return max(losses)
