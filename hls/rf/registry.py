# SPDX-License-Identifier: Apache-2.0
"""The stages there are, by layer, by module and by hls4ml's names: every file of hls/rf/stages/ has a STAGE."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType
from typing import Any

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf import stages
from hypersonic.hls.rf.layers import Layer, Products, TwoInputs
from hypersonic.hls.rf.parts.limits import MAX_CAST_WIDTH, Width
from hypersonic.hls.rf.stage import Stage
from hypersonic.hls.rf.stage_type import LayerType, Reader, Sharing, StageType


def collect(package: ModuleType) -> dict[str, StageType]:
    """File name -> its STAGE. Raises ImportError where there is no file, or one without."""
    modules = [import_module(f"{package.__name__}.{module.name}") for module in pkgutil.iter_modules(package.__path__)]
    if not modules:
        raise ImportError(f"{package.__name__} has no modules, expected one for each stage of the rf core")
    types = {module.__name__.rpartition(".")[2]: getattr(module, "STAGE", None) for module in modules}
    if without := [name for name, kind in types.items() if not isinstance(kind, StageType)]:
        raise ImportError(f"{package.__name__}: {', '.join(without)} has no STAGE, expected a StageType in every file")
    return {name: kind for name, kind in types.items() if kind}


STAGES = collect(stages)

_BY_MODULE = {module: kind for kind in STAGES.values() for module in kind.modules}
_LAYERS: dict[type, LayerType[Any]] = {kind.layer.noun: kind.layer for kind in STAGES.values() if kind.layer}

#: hls4ml's class names of layers -> how they are read, but for activations
READERS: dict[str, Reader] = {name: reader for layer in _LAYERS.values() for name, reader in layer.readers.items()}
#: those of layers with two inputs
JOINS = frozenset(name for noun, layer in _LAYERS.items() if issubclass(noun, TwoInputs) for name in layer.readers)
#: hls4ml's names of functions
ACTIVATIONS: dict[str, Reader] = {name: reader for layer in _LAYERS.values() for name, reader in layer.activations.items()}
#: class names whose attribute `activation` is one of them
ACTIVATION_CLASSES = ("Activation", "ParametrizedActivation", "HardActivation", "PReLU")


def layer_type(layer: Layer) -> LayerType[Any]:
    """The type of a layer's noun."""
    return _LAYERS[type(layer)]


def sharing(layer: Products) -> Sharing[Any]:
    """How the layer's multiplications share multipliers."""
    shared = layer_type(layer).sharing
    if shared is None:
        raise TypeError(f"layer {layer.name!r}: the stage of {type(layer).__name__} has no sharing, expected one of Products")
    return shared


def stage_type(stage: Stage) -> StageType:
    """The type of a stage's module."""
    return _BY_MODULE[stage.module]


def has_multipliers(stage: Stage) -> bool:
    """Whether it has multipliers that a reuse factor shares."""
    layer = stage_type(stage).layer
    return bool(layer and layer.sharing)


def _numbers(stage: Stage) -> dict[str, int]:
    return {key: int(value) for key, value in stage.parameters.items() if not isinstance(value, str)}


def stage_cost(stage: Stage) -> Amounts:
    """Weights in block RAM, or LUTs where they are few."""
    return stage_type(stage).cost(stage, _numbers(stage))


def check_stage(stage: Stage) -> Stage:
    """The stage itself. Raises UnsupportedLayerError where a number inside it would not fit."""
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
