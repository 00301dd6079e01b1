# SPDX-License-Identifier: Apache-2.0
"""hls4ml's ModelGraph, after its optimisers, as a Network; whatever a core cannot compute exactly is refused by name.

Nothing of hls4ml is imported here: the graph comes from whoever has it (hls/convert.py, hls/backend.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hypersonic.hls.da.network import Activation, Concatenation, Dense, Layer, Merge, MergeOperation, Network, Scaling, Source
from hypersonic.hls.errors import INSTEAD, UnsupportedLayerError
from hypersonic.hls.fixed import Constants, FixedPoint, Overflow, Precision, Rounding, edge

#: layers that leave every element where and what it is
_TRANSPARENT = ("Reshape", "Clone")

#: layers whose results are their input's numbers, in an order of their own
_MOVES = (*_TRANSPARENT, "Repack", "Transpose")

_SUPPORTED = (
    "Dense, BatchNormalization, Activation (relu, linear), ReLU, quantisers, Add, Subtract, Average, Maximum, Minimum, "
    "Concatenate, Flatten and Reshape"
)


@dataclass(frozen=True)
class TensorType:
    """An input or output of a ModelGraph: the layer it is the result of, its shape per row and its type."""

    layer: str
    shape: tuple[int, ...]
    fixed: FixedPoint


def read_network(model: Any) -> Network:
    """ModelGraph -> Network. Raises UnsupportedLayerError naming the layer that does not fit the da core."""
    if model.config.get_config_value("IOType") != "io_parallel":
        raise UnsupportedLayerError(f"io_type is {model.config.get_config_value('IOType')}, the da core takes io_parallel")
    inputs: dict[str, Source] = {}
    layers: list[Layer] = []
    #: tensor -> the layer whose numbers it holds
    holder: dict[str, str] = {}
    for layer in model.get_layers():
        if layer.outputs[0] in model.inputs:
            inputs[layer.outputs[0]] = Source(layer.name, _size(layer.get_output_variable()), _result(layer))
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


def tensor_types(model: Any) -> tuple[tuple[TensorType, ...], tuple[TensorType, ...]]:
    """The inputs and the outputs, each in the order of the C++ function's arguments. Raises UnsupportedLayerError."""
    made_by = {tensor: layer for layer in model.get_layers() for tensor in layer.outputs}
    inputs = tuple(_tensor_type(made_by[tensor], tensor, "input") for tensor in model.inputs)
    return inputs, tuple(_tensor_type(made_by[tensor], tensor, "output") for tensor in model.outputs)


def multiplications(model: Any) -> int:
    """Of a row: each weight of a matrix or filter once, or once for each place of the layer's output."""
    return sum(
        constants.data.size * prod(int(size) for size in layer.get_output_variable().shape[:-1])
        for layer in model.get_layers()
        if layer.class_name != "Embedding"
        for constants in layer.weights.values()
        if constants.data.ndim > 1
    )


def vocabularies(model: Any) -> tuple[int, ...]:
    """How many rows the table has that each input is an index of, the smallest of several; 0 for an input that is none."""
    found: dict[str, list[int]] = {tensor: [] for tensor in model.inputs}
    holds = {tensor: tensor for tensor in model.inputs}
    for layer in model.get_layers():
        source = holds.get(layer.inputs[0]) if layer.inputs else None
        if source is not None and layer.class_name in _MOVES:
            holds.update(dict.fromkeys(layer.outputs, source))
        elif source is not None and layer.class_name == "Embedding":
            found[source].append(int(layer.get_attr("vocab_size")))
    return tuple(min(found[tensor], default=0) for tensor in model.inputs)


def _tensor_type(layer: Any, tensor: str, role: str) -> TensorType:
    fixed = edge(_result(layer), f"the {role} {tensor!r}")
    return TensorType(layer.name, tuple(int(size) for size in layer.get_output_variable().shape), fixed)


def _holder(layer: Any, tensor: str, holder: dict[str, str]) -> str:
    try:
        return holder[tensor]
    except KeyError as error:
        raise UnsupportedLayerError(
            f"layer {layer.name!r}: reads {tensor!r}, which no layer before it makes, expected layers in order"
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
            return Scaling(layer.name, sources[0], scale, bias, _result(layer))
        case "Activation":
            function = str(layer.get_attr("activation")).lower()
            if function in ("relu", "linear"):
                return Activation(layer.name, sources[0], function == "relu", _result(layer))
            raise UnsupportedLayerError(
                f"layer {layer.name!r}: activation is {function}, the da core computes relu and linear; {INSTEAD}"
            )
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
        _result(layer),
    )


def check_merge(layer: Any) -> None:
    """Refuse broadcasting: hls4ml 1.3.0 takes the greater size as the later text, so that 10 elements and 5 make 5.

    Raises UnsupportedLayerError.
    """
    a, b = (tuple(int(size) for size in layer.get_input_variable(tensor).shape) for tensor in layer.inputs)
    if a != b:
        raise UnsupportedLayerError(
            f"layer {layer.name!r}: it merges the shapes {a} and {b}, and hls4ml's C++ leaves elements out where they differ; "
            "give both the same shape"
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
    return Merge(layer.name, (a, b), known, _result(layer))


def _concatenation(layer: Any, sources: tuple[str, ...]) -> Concatenation:
    """Of each source, the axis and all after it lie in one piece."""
    a, b = sources
    shapes = [tuple(int(size) for size in layer.get_input_variable(tensor).shape) for tensor in layer.inputs]
    axis = int(layer.get_attr("axis"))
    if not -len(shapes[0]) <= axis <= len(shapes[0]) or axis == 0:
        raise UnsupportedLayerError(f"layer {layer.name!r}: axis is {axis}, expected one of a row of shape {list(shapes[0])}")
    first = axis - 1 if axis > 0 else axis + len(shapes[0])  # hls4ml counts the rows as dimension 0
    runs = tuple(prod(shape[first:]) for shape in shapes)
    return Concatenation(layer.name, (a, b), (runs[0], runs[1]), _result(layer))


def _result(layer: Any) -> Precision:
    return precision_of(layer.get_output_variable().type.precision, f"layer {layer.name!r}: result")


def written_constants(layer: Any, name: str) -> Constants:
    """A weight array as the C++ gets it: hls4ml writes each number with `fraction` decimals and ap_fixed reads the double."""
    variable = layer.weights[name]
    what = f"layer {layer.name!r}: {name}"
    if type(variable.type).__name__ in ("CompressedType", "ExponentType"):
        raise UnsupportedLayerError(
            f"{what} is stored as {type(variable.type).__name__}; switch Compression and po2 quantisers off"
        )
    precision = precision_of(variable.type.precision, what)
    numbers = np.array([float(text) for text in variable], dtype=np.float64)
    raw = _fixed(precision, what).from_float(numbers)
    if str(variable.type.precision).startswith("int<2") and (raw == -2).any():
        raise UnsupportedLayerError(f"{what} is {precision} and holds -2, which hls4ml's ternary product reads as +1")
    return Constants(raw, precision.fraction)


def _repeated(constants: Constants, size: int) -> Constants:
    """One number per channel as one per element: hls4ml begins again with the first channel where they end."""
    return Constants(np.resize(constants.raw.reshape(-1), size), constants.fraction)


def _fixed(precision: Precision, what: str) -> FixedPoint:
    try:
        return precision.fixed
    except ValueError as error:
        raise UnsupportedLayerError(f"{what}: {error}; give it fewer bits in the model's YAML") from error


def precision_of(precision: Any, what: str) -> Precision:
    """hls4ml's FixedPrecisionType or IntegerPrecisionType. Raises UnsupportedLayerError for other types and modes."""
    kind = type(precision).__name__
    if kind.endswith("IntegerPrecisionType"):
        return Precision(int(precision.width), 0, bool(precision.signed))
    if not kind.endswith("FixedPrecisionType"):
        raise UnsupportedLayerError(f"{what} is {precision} ({kind}), expected ap_fixed, ap_ufixed or an integer")
    try:
        rounding = Rounding(f"AP_{precision.rounding_mode}")
        overflow = Overflow(f"AP_{precision.saturation_mode}")
    except ValueError as error:
        raise UnsupportedLayerError(
            f"{what} is {precision}: {error}; expected a mode of ap_fixed other than WRAP_SM"
        ) from error
    if precision.saturation_bits:
        raise UnsupportedLayerError(f"{what} is {precision}: {precision.saturation_bits} saturation bits, expected 0")
    width, integer = int(precision.width), int(precision.integer)
    return Precision(width, width - integer, bool(precision.signed), rounding, overflow)
