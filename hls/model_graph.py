# SPDX-License-Identifier: Apache-2.0
"""hls4ml's ModelGraph, after its optimisers, as a Network; whatever a core cannot compute exactly is refused by name.

Nothing of hls4ml is imported here: the graph comes from whoever has it (hls/convert.py, hls/backend.py).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.network import (
    INSTEAD,
    Activation,
    Constants,
    Dense,
    Layer,
    Network,
    Precision,
    Scaling,
    UnsupportedLayerError,
)

#: hls4ml strategies that unroll a layer completely
_UNROLLED = ("latency", "distributed_arithmetic")

_SUPPORTED = "Dense, BatchNormalization, Activation (relu, linear), ReLU and quantisers"


def read_network(model: Any) -> Network:
    """ModelGraph -> Network. Raises UnsupportedLayerError naming the layer that does not fit the da core."""
    layers = list(model.get_layers())
    _check_chain(model, layers)
    read = tuple(_layer(layer) for layer in layers[1:])  # first, so that a convolution is refused by its own name
    first = layers[0]
    shape = first.get_output_variable().shape
    if len(shape) != 1:
        raise UnsupportedLayerError(f"layer {first.name!r}: input shape is {list(shape)}, the da core takes one dimension")
    return Network(model.config.get_project_name(), _result(first), int(shape[0]), read)


def tensor_types(model: Any) -> tuple[Precision, Precision, tuple[int, ...]]:
    """Types of the input and the output, and the output's shape per row. Raises UnsupportedLayerError."""
    layers = list(model.get_layers())
    first, last = layers[0], next(layer for layer in layers if model.outputs[0] in layer.outputs)
    return _result(first), _result(last), tuple(int(size) for size in last.get_output_variable().shape)


def _check_chain(model: Any, layers: list[Any]) -> None:
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise UnsupportedLayerError(
            f"the model has inputs {model.inputs} and outputs {model.outputs}, the da core takes one of each"
        )
    if model.config.get_config_value("IOType") != "io_parallel":
        raise UnsupportedLayerError(f"io_type is {model.config.get_config_value('IOType')}, the da core takes io_parallel")
    if len(layers) < 2:
        raise UnsupportedLayerError("the model has no layers after its input")
    for before, layer in pairwise(layers):
        if list(layer.inputs) != [before.outputs[0]]:
            raise UnsupportedLayerError(
                f"layer {layer.name!r}: its inputs are {list(layer.inputs)}, the da core takes a plain chain of layers"
            )


def _layer(layer: Any) -> Layer:
    match layer.class_name:
        case "Dense":
            return _dense(layer)
        case "BatchNormalization" | "ApplyAlpha":
            return Scaling(layer.name, _constants(layer, "scale"), _constants(layer, "bias"), _result(layer))
        case "Activation":
            function = str(layer.get_attr("activation")).lower()
            if function in ("relu", "linear"):
                return Activation(layer.name, function == "relu", _result(layer))
            raise UnsupportedLayerError(
                f"layer {layer.name!r}: activation is {function}, the da core computes relu and linear; {INSTEAD}"
            )
        case other:
            raise UnsupportedLayerError(
                f"layer {layer.name!r}: {other} is not in the da core, which computes {_SUPPORTED}; {INSTEAD}"
            )


def _dense(layer: Any) -> Dense:
    strategy = str(layer.get_attr("strategy")).lower()
    if strategy not in _UNROLLED:
        raise UnsupportedLayerError(
            f"layer {layer.name!r}: Strategy is {strategy}, the da core unrolls a layer: set Latency or distributed_arithmetic"
        )
    n_in, n_out = int(layer.get_attr("n_in")), int(layer.get_attr("n_out"))
    weight = _constants(layer, "weight")
    accum = _precision(layer.get_attr("accum_t").precision, f"layer {layer.name!r}: accum")
    return Dense(
        layer.name,
        Constants(weight.raw.reshape(n_in, n_out), weight.fraction),
        _constants(layer, "bias"),
        accum,
        _result(layer),
    )


def _result(layer: Any) -> Precision:
    return _precision(layer.get_output_variable().type.precision, f"layer {layer.name!r}: result")


def _constants(layer: Any, name: str) -> Constants:
    """A weight array as the C++ gets it: hls4ml writes each number with `fraction` decimals and ap_fixed reads the double."""
    variable = layer.weights[name]
    what = f"layer {layer.name!r}: {name}"
    if type(variable.type).__name__ in ("CompressedType", "ExponentType"):
        raise UnsupportedLayerError(
            f"{what} is stored as {type(variable.type).__name__}; switch Compression and po2 quantisers off"
        )
    precision = _precision(variable.type.precision, what)
    numbers = np.array([float(text) for text in variable], dtype=np.float64)
    raw = _fixed(precision, what).from_float(numbers)
    if str(variable.type.precision).startswith("int<2") and (raw == -2).any():
        raise UnsupportedLayerError(f"{what} is {precision} and holds -2, which hls4ml's ternary product reads as +1")
    return Constants(raw, precision.fraction)


def _fixed(precision: Precision, what: str) -> FixedPoint:
    try:
        return precision.fixed
    except ValueError as error:
        raise UnsupportedLayerError(f"{what}: {error}") from error


def _precision(precision: Any, what: str) -> Precision:
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
