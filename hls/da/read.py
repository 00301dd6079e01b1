# SPDX-License-Identifier: Apache-2.0
"""Reads hls4ml's ModelGraph, after its optimisers, as a Network. Layers that the core cannot compute exactly are refused.

hls4ml is not imported here (see hls/model_graph.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from hypersonic.hls.da.einsum import read_einsum, read_einsum_dense
from hypersonic.hls.da.garnet import read_garnet
from hypersonic.hls.da.network import (
    Activation,
    Concatenation,
    Dense,
    Dot,
    Layer,
    Merge,
    MergeOperation,
    Network,
    Scaling,
    Source,
    Unrolled,
    Wiring,
)
from hypersonic.hls.errors import INSTEAD, UnsupportedLayerError
from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.model_graph import (
    TIME_DISTRIBUTED,
    check_merge,
    precision_of,
    result_precision,
    steps_of,
    written_constants,
)
from hypersonic.hls.rf.layers import Layer as RfLayer
from hypersonic.hls.rf.layers import Tensor
from hypersonic.hls.rf.parts.attributes import tensor
from hypersonic.hls.rf.parts.binary import reads_bits
from hypersonic.hls.rf.parts.merges import Merge as RfMerge
from hypersonic.hls.rf.registry import ACTIVATION_CLASSES, ACTIVATIONS, READERS
from hypersonic.hls.rf.stages.concatenate import Concatenate
from hypersonic.hls.rf.stages.permute import Permute, moved_places
from hypersonic.hls.rf.steps import check_inside, check_passed, over_steps

#: layers that do not change any element or its position
_TRANSPARENT = ("Reshape", "Clone")

_SUPPORTED = ", ".join(
    sorted({*READERS, *ACTIVATION_CLASSES, "Dot", "Einsum", "EinsumDense", "GarNet", "GarNetStack"} - {"Repack"})
)


def read_network(model: Any) -> Network:
    """Read a ModelGraph. Raises UnsupportedLayerError, with the layer's name, for a layer that the da core cannot compute."""
    if model.config.get_config_value("IOType") != "io_parallel":
        raise UnsupportedLayerError(f"io_type is {model.config.get_config_value('IOType')}, the da core takes io_parallel")
    inputs: dict[str, Source] = {}
    layers: list[Layer] = []
    #: tensor -> the layer whose numbers it holds
    holder: dict[str, str] = {}
    inside = steps_of(model.get_layers())
    for layer in model.get_layers():
        if layer.outputs[0] in model.inputs:
            inputs[layer.outputs[0]] = Source(layer.name, _size(layer.get_output_variable()), result_precision(layer))
            holder[layer.outputs[0]] = layer.name
            continue
        sources = tuple(_holder(layer, tensor, holder) for tensor in layer.inputs if tensor)
        types = {node.name: node.result for node in (*inputs.values(), *layers)}
        if layer.class_name in (*_TRANSPARENT, TIME_DISTRIBUTED):
            holder.update(dict.fromkeys(layer.outputs, sources[0]))
            if layer.class_name == TIME_DISTRIBUTED:
                y = tensor(layer.get_output_variable(), layer.name, layer)
                check_passed(layer, replace(y, precision=types[sources[0]]), y)
        else:
            layers += _layers(layer, sources, types, inside.get(layer.name, 0))
            holder[layer.outputs[0]] = layers[-1].name
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


def _layers(layer: Any, sources: tuple[str, ...], types: dict[str, FixedPoint], steps: int) -> tuple[Layer, ...]:
    if steps:
        return _unrolled(layer, sources, types, steps)
    function, bits = str(layer.get_attr("activation")).lower(), reads_bits(layer)
    if layer.class_name == "Activation" and function in ("relu", "linear"):
        return (Activation(layer.name, sources[0], function == "relu", result_precision(layer)),)
    if layer.class_name in _OWN and not (bits and layer.class_name == "Dense"):
        return (_OWN[layer.class_name](layer, sources),)
    return _unrolled(layer, sources, types)


def _unrolled(layer: Any, sources: tuple[str, ...], types: dict[str, FixedPoint], steps: int = 0) -> tuple[Layer, ...]:
    """The layer as a stage of the rf core reads it, in one step or in several. steps: of the TimeDistributed around it."""
    function = str(layer.get_attr("activation")).lower()
    reader = ACTIVATIONS.get(function) if layer.class_name in ACTIVATION_CLASSES else READERS.get(layer.class_name)
    if reader is None and layer.class_name in ACTIVATION_CLASSES:
        raise UnsupportedLayerError(
            f"layer {layer.name!r}: activation is {function}, the da core computes {', '.join(sorted(ACTIVATIONS))}; {INSTEAD}"
        )
    if reader is None:
        raise UnsupportedLayerError(
            f"layer {layer.name!r}: {layer.class_name} is not in the da core, which computes {_SUPPORTED}; {INSTEAD}"
        )
    variables = [layer.get_input_variable(tensor) for tensor in layer.inputs if tensor]
    inputs = [
        over_steps(Tensor(source, tuple(int(size) for size in variable.shape), types[source]), steps)
        for source, variable in zip(sources, variables, strict=True)
    ]
    y = over_steps(tensor(layer.get_output_variable(), layer.name, layer), steps)
    read = reader(layer, *inputs, y)
    parts = read if isinstance(read, tuple) else (read,)
    if steps:
        check_inside(layer, parts)
    return tuple(map(_step, parts))


def _step(step: RfLayer) -> Layer:
    """A step of such a layer, those that move numbers as the da core has them."""
    sources = tuple(one.name for one in step.inputs)
    match step:
        case Permute():
            return Wiring(step.y.name, sources[0], tuple(map(int, step.places)), step.y.precision)
        case Concatenate():
            runs = prod(step.a.shape[step.axis :]), prod(step.b.shape[step.axis :])
            return Concatenation(step.y.name, (sources[0], sources[1]), runs, step.y.precision)
        case RfMerge():
            return Merge(step.y.name, (sources[0], sources[1]), MergeOperation(step.operation), step.y.precision)
    return Unrolled(step.y.name, sources, step)


def _dot(layer: Any, sources: tuple[str, ...]) -> Dot:
    a, b = sources
    accum = precision_of(layer.get_attr("accum_t").precision, f"layer {layer.name!r}: accum")
    return Dot(layer.name, (a, b), accum, result_precision(layer))


def _wiring(layer: Any, sources: tuple[str, ...]) -> Wiring:
    return Wiring(layer.name, sources[0], tuple(map(int, moved_places(layer))), result_precision(layer))


def _scaling(layer: Any, sources: tuple[str, ...]) -> Scaling:
    size = _size(layer.get_output_variable())
    scale, bias = (_repeated(written_constants(layer, name), size) for name in ("scale", "bias"))
    return Scaling(layer.name, sources[0], scale, bias, result_precision(layer))


def _dense(layer: Any, sources: tuple[str, ...]) -> Dense:
    n_in, n_out = int(layer.get_attr("n_in")), int(layer.get_attr("n_out"))
    weight = written_constants(layer, "weight")
    transposed = bool(layer.get_attr("_weights_transposed", False))  # by hls4ml, for Strategy Resource
    matrix = weight.raw.reshape(n_out, n_in).T if transposed else weight.raw.reshape(n_in, n_out)
    accum = precision_of(layer.get_attr("accum_t").precision, f"layer {layer.name!r}: accum")
    return Dense(
        layer.name,
        sources[0],
        Constants(matrix, weight.fraction),
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


#: readers of layers that are not read as a stage of the rf core
_OWN: dict[str, Callable[[Any, tuple[str, ...]], Layer]] = {
    "Dense": _dense,
    **dict.fromkeys(("BatchNormalization", "ApplyAlpha"), _scaling),
    "Merge": _merge,
    "Concatenate": _concatenation,
    "Dot": _dot,
    "EinsumDense": read_einsum_dense,
    "Einsum": read_einsum,
    **dict.fromkeys(("GarNet", "GarNetStack"), read_garnet),
    **dict.fromkeys(("Transpose", "Cropping1D", "Cropping2D"), _wiring),
}
