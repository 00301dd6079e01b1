# SPDX-License-Identifier: Apache-2.0
"""Reads hls4ml's ModelGraph, after its optimisers, as a Network. Layers that the core cannot compute exactly are refused.

hls4ml is not imported here (see hls/model_graph.py).
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hypersonic.hls.da.network import (
    Activation,
    Concatenation,
    Dense,
    Layer,
    Merge,
    MergeOperation,
    Network,
    Quantiser,
    Scaling,
    Source,
)
from hypersonic.hls.errors import INSTEAD, UnsupportedLayerError
from hypersonic.hls.fixed import Constants
from hypersonic.hls.model_graph import check_merge, element_types, precision_of, result_precision, written_constants

#: layers that do not change any element or its position
_TRANSPARENT = ("Reshape", "Clone")

_SUPPORTED = (
    "Dense, BatchNormalization, Activation (relu, linear), ReLU, quantisers, Add, Subtract, Average, Maximum, Minimum, "
    "Concatenate, Flatten and Reshape"
)


def read_network(model: Any) -> Network:
    """Read a ModelGraph. Raises UnsupportedLayerError, with the layer's name, for a layer that the da core cannot compute."""
    if model.config.get_config_value("IOType") != "io_parallel":
        raise UnsupportedLayerError(f"io_type is {model.config.get_config_value('IOType')}, the da core takes io_parallel")
    inputs: dict[str, Source] = {}
    layers: list[Layer] = []
    #: tensor -> the layer whose numbers it holds
    holder: dict[str, str] = {}
    for layer in model.get_layers():
        if layer.outputs[0] in model.inputs:
            inputs[layer.outputs[0]] = Source(layer.name, _size(layer.get_output_variable()), result_precision(layer))
            holder[layer.outputs[0]] = layer.name
            continue
        sources = tuple(_holder(layer, tensor, holder) for tensor in layer.inputs if tensor)
        if layer.class_name in _TRANSPARENT:
            holder.update(dict.fromkeys(layer.outputs, sources[0]))
        else:
            layers.append(_layer(layer, sources))
            holder[layer.outputs[0]] = layer.name
    outputs = tuple(holder[tensor] for tensor in model.outputs)
    return Network(model.config.get_project_name(), tuple(inputs[tensor] for tensor in model.inputs), tuple(layers), outputs)


def _holder(layer: Any, tensor: str, holder: dict[str, str]) -> str:
    try:
        return holder[tensor]
    except KeyError as error:
        raise UnsupportedLayerError(
            f"layer {layer.name!r}: reads {tensor!r}, which no earlier layer computes, expected layers in order"
        ) from error


def _size(variable: Any) -> int:
    return prod(int(size) for size in variable.shape)


def _layer(layer: Any, sources: tuple[str, ...]) -> Layer:
    match layer.class_name:
        case "Dense":
            return _dense(layer, sources[0])
        case "BatchNormalization" | "ApplyAlpha":
            size = _size(layer.get_output_variable())
            scale, bias = (_repeated(written_constants(layer, name), size) for name in ("scale", "bias"))
            return Scaling(layer.name, sources[0], scale, bias, result_precision(layer))
        case "Activation":
            function = str(layer.get_attr("activation")).lower()
            if function in ("relu", "linear"):
                return Activation(layer.name, sources[0], function == "relu", result_precision(layer))
            raise UnsupportedLayerError(
                f"layer {layer.name!r}: activation is {function}, the da core computes relu and linear; {INSTEAD}"
            )
        case "FixedPointQuantizer":
            size = _size(layer.get_output_variable())
            return Quantiser(layer.name, sources[0], element_types(layer, size), result_precision(layer))
        case "Merge":
            return _merge(layer, sources)
        case "Concatenate":
            return _concatenation(layer, sources)
        case other:
            raise UnsupportedLayerError(
                f"layer {layer.name!r}: {other} is not in the da core, which computes {_SUPPORTED}; {INSTEAD}"
            )


def _dense(layer: Any, source: str) -> Dense:
    n_in, n_out = int(layer.get_attr("n_in")), int(layer.get_attr("n_out"))
    weight = written_constants(layer, "weight")
    accum = precision_of(layer.get_attr("accum_t").precision, f"layer {layer.name!r}: accum")
    return Dense(
        layer.name,
        source,
        Constants(weight.raw.reshape(n_in, n_out), weight.fraction),
        written_constants(layer, "bias"),
        accum,
        result_precision(layer),
    )


def _merge(layer: Any, sources: tuple[str, ...]) -> Merge:
    operation = str(layer.get_attr("op")).lower()
    try:
        known = MergeOperation(operation)
    except ValueError as error:
        raise UnsupportedLayerError(
            f"layer {layer.name!r}: it merges by {operation}, the da core by {', '.join(MergeOperation)}; {INSTEAD}"
        ) from error
    check_merge(layer)
    a, b = sources
    return Merge(layer.name, (a, b), known, result_precision(layer))


def _concatenation(layer: Any, sources: tuple[str, ...]) -> Concatenation:
    """The runs of a source are its elements along the axis and all axes after it, which are contiguous."""
    a, b = sources
    shapes = [tuple(int(size) for size in layer.get_input_variable(tensor).shape) for tensor in layer.inputs]
    axis = int(layer.get_attr("axis"))
    if not -len(shapes[0]) <= axis <= len(shapes[0]) or axis == 0:
        raise UnsupportedLayerError(
            f"layer {layer.name!r}: axis is {axis}, expected an axis of a row of shape {list(shapes[0])}"
        )
    first = axis - 1 if axis > 0 else axis + len(shapes[0])  # hls4ml counts the rows as dimension 0
    runs = tuple(prod(shape[first:]) for shape in shapes)
    return Concatenation(layer.name, (a, b), (runs[0], runs[1]), result_precision(layer))


def _repeated(constants: Constants, size: int) -> Constants:
    """Expand one number per channel to one per element, by repeating the channels, as hls4ml does."""
    return Constants(np.resize(constants.raw.reshape(-1), size), constants.fraction)
