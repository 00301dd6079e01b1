# SPDX-License-Identifier: Apache-2.0
"""All stages, found by layer and by module. Every file of rf/stages/ and rf/wires/ defines a STAGE."""

from __future__ import annotations

import pkgutil
from typing import Any

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.network.attributes import unsupported
from hypersonic.hls.network.base import Layer, Multiplying
from hypersonic.hls.network.collect import collect
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf import stages, wires
from hypersonic.hls.rf.parts.limits import MAX_CAST_WIDTH, Width
from hypersonic.hls.rf.stage import Stage
from hypersonic.hls.rf.stage_type import LayerPlan, Sharing, StageType

STAGES = {
    **collect(stages, pkgutil.iter_modules(stages.__path__), "STAGE", StageType),
    **collect(wires, pkgutil.iter_modules(wires.__path__), "STAGE", StageType),
}

_BY_MODULE = {module: kind for kind in STAGES.values() for module in kind.modules}
_PLANS: dict[type, LayerPlan[Any]] = {kind.layer.noun: kind.layer for kind in STAGES.values() if kind.layer}


def layer_plan(layer: Layer) -> LayerPlan[Any]:
    """Return the LayerPlan of a layer, by its class. Raises UnsupportedLayerError, with the layer's name, if it has none."""
    if (found := _PLANS.get(type(layer))) is None:
        raise unsupported(layer.name, f"the rf core has no {type(layer).__name__}")
    return found


def sharing(layer: Multiplying) -> Sharing[Any]:
    """Return how the layer's multiplications share multipliers. Raises TypeError for a stage that does not define it."""
    shared = layer_plan(layer).sharing
    if shared is None:
        raise TypeError(f"layer {layer.name!r}: the stage of {type(layer).__name__} has no sharing, expected one of products")
    return shared


def stage_type(stage: Stage) -> StageType:
    """Return the StageType of a stage, by its module."""
    return _BY_MODULE[stage.module]


def has_multipliers(stage: Stage) -> bool:
    """Return whether the stage has multipliers that are shared by a reuse factor."""
    layer = stage_type(stage).layer
    return bool(layer and layer.sharing)


def _numbers(stage: Stage) -> dict[str, int]:
    return {key: int(value) for key, value in stage.parameters.items() if not isinstance(value, str)}


def stage_cost(stage: Stage) -> Amounts:
    """Return the estimated resources of a stage, with weights in block RAM, or in LUTs if there are few."""
    return stage_type(stage).cost(stage, _numbers(stage))


def check_stage(stage: Stage) -> Stage:
    """Return the stage unchanged. Raises UnsupportedLayerError if a number inside it is too wide for its module."""
    numbers, kind = _numbers(stage), stage_type(stage)
    widths = [Width(stream.precision.width, MAX_CAST_WIDTH, "a number") for stream in (*stage.inputs, *stage.outputs)]
    widths += [limit(numbers) for limit in kind.limits]
    for width, limit, what in widths:
        if width > limit:
            raise UnsupportedLayerError(
                f"layer {stage.layer!r}: {what} of {width} bits in its {stage.module}, expected up to {limit}; give the layer, "
                "or the one before it, a narrower result or accum in the model's YAML"
            )
    for key, value in numbers.items():
        if key not in kind.long and not -1 << 31 <= value < 1 << 31:
            raise UnsupportedLayerError(
                f"layer {stage.layer!r}: {key} of its {stage.module} is {value}, expected a number of 32 bits; give the layer, "
                "or the one before it, a narrower type in the model's YAML"
            )
    return stage
