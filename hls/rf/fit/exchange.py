# SPDX-License-Identifier: Apache-2.0
"""Cards and fits as plain values, for the command line of the conversion and for a project's report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from hypersonic.hls.network.base import WeightsIn
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.fit.design import CardResources, Design, DesignPoint, DiePlan, Fit, LayerFit


def card_to_json(card: CardResources) -> dict[str, Any]:
    """Return the card as plain values; card_from_json reads them."""
    return asdict(card)


def card_from_json(value: Mapping[str, Any]) -> CardResources:
    """Return the card that card_to_json wrote."""
    dies = tuple(Amounts.from_json(die) for die in value["dies"])
    return CardResources(**{**value, "dies": dies, "shell": Amounts.from_json(value["shell"])})


def fit_to_json(fit: Fit) -> dict[str, Any]:
    """Return the fit as plain values; only the chosen design keeps its reuse factors, the
    places of its weights and its plan over dies."""
    points = tuple(point if point == fit.chosen else _bare(point) for point in fit.points)
    return {**asdict(replace(fit, points=points)), "chosen": fit.points.index(fit.chosen)}


def _bare(point: DesignPoint) -> DesignPoint:
    return replace(point, design=replace(point.design, reuse_factors={}, weights_in={}, dies=None))


def fit_from_json(value: Mapping[str, Any]) -> Fit:
    """Return the fit that fit_to_json wrote."""
    points = tuple(_point(point) for point in value["points"])
    layers = tuple(_layer(layer) for layer in value["layers"])
    card = card_from_json(value["card"])
    return Fit(**{**value, "card": card, "chosen": points[value["chosen"]], "layers": layers, "points": points})


def _point(value: Mapping[str, Any]) -> DesignPoint:
    design = value["design"]
    places = {name: WeightsIn(place) for name, place in design["weights_in"].items()}
    dies = DiePlan.from_json(design["dies"]) if design["dies"] else None
    made = {**design, "unit": Amounts.from_json(design["unit"]), "weights_in": places, "dies": dies}
    return DesignPoint(**{**value, "design": Design(**made)})


def _layer(value: Mapping[str, Any]) -> LayerFit:
    place = WeightsIn(value["weights_in"]) if value["weights_in"] else None
    return LayerFit(**{**value, "lanes": tuple(value["lanes"]), "weights_in": place})
