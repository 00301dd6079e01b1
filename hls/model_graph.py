# SPDX-License-Identifier: Apache-2.0
"""Reads types, weights and shapes from hls4ml's ModelGraph after its optimisers, for every core and check.

hls4ml is not imported here: the caller passes the graph (hls/convert.py, hls/plugin/hls4ml_backend.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hypersonic.hls.errors import Edit, UnsupportedLayerError
from hypersonic.hls.fixed import MAX_WIDTH, Constants, FixedPoint, Overflow, PrecisionError, Rounding

#: layers whose results are their input's numbers, possibly in another order
MOVES = ("Reshape", "Clone", "Repack", "Transpose")

#: layers that read bits of the XNOR type as -1 and 1, if they pad nothing
PRODUCTS_OF_BITS = ("Dense", "Conv1D", "Conv2D", "Conv2DBatchnorm", "PointwiseConv1D", "PointwiseConv2D")

#: layers that move bits of the XNOR type
_MOVES_BITS = (*MOVES, "Flatten")

#: layers whose maximum of bits of the XNOR type is one of them
_POOLS = ("Pooling1D", "Pooling2D", "GlobalPooling1D", "GlobalPooling2D")

#: layers whose results are some of their input's bits
COPYING = (*_MOVES_BITS, *_POOLS)

#: hls4ml's class of the two layers around those that it computes for each step
TIME_DISTRIBUTED = "TimeDistributed"


def model_settings(graph: Any) -> Mapping[str, Any]:
    """Return the section Model of the configuration that a ModelGraph was made with."""
    return graph.config.config.get("HLSConfig", {}).get("Model") or {}


def is_build(graph: Any) -> bool:
    """Return whether a ModelGraph is one of a build, whose backend is Vitis, and not the plugin's."""
    return bool(graph.config.backend.name == "Vitis")


@dataclass(frozen=True)
class TensorType:
    """An input or output of a ModelGraph.

    Attributes:
        layer: the name of the layer that computes it.
        shape: per row, without the batch.
    """

    layer: str
    shape: tuple[int, ...]
    fixed: FixedPoint


def tensor_types(model: Any, *, wide_outputs: bool = False) -> tuple[tuple[TensorType, ...], tuple[TensorType, ...]]:
    """Return the graph's inputs and outputs, each in the order of the C++ function's arguments.

    Args:
        wide_outputs: outputs may be wider than MAX_WIDTH.

    Raises:
        UnsupportedLayerError: For a type that is not fixed point or is wider than that.
    """
    made_by = {tensor: layer for layer in model.get_layers() for tensor in layer.outputs}
    inputs = tuple(_tensor_type(made_by[tensor], tensor, "input", wide=False) for tensor in model.inputs)
    return inputs, tuple(_tensor_type(made_by[tensor], tensor, "output", wide=wide_outputs) for tensor in model.outputs)


def _tensor_type(layer: Any, tensor: str, role: str, *, wide: bool) -> TensorType:
    fixed = result_precision(layer)
    if not wide:
        fixed = edge(fixed, f"the {role} {tensor!r}")
    return TensorType(layer.name, tuple(int(size) for size in layer.get_output_variable().shape), fixed)


def count_multiplications(model: Any) -> int:
    """Return the number of multiplications per row: each weight of a matrix or filter, times the positions it is applied at."""
    inside = steps_of(model.get_layers())
    return sum(
        constants.data.size * prod(int(size) for size in layer.get_output_variable().shape[:-1]) * inside.get(layer.name, 1)
        for layer in model.get_layers()
        if layer.class_name != "Embedding"
        for constants in layer.weights.values()
        if constants.data.ndim > 1
    )


def steps_of(layers: Iterable[Any]) -> Mapping[str, int]:
    """Return layer name -> steps, for each layer inside a TimeDistributed.

    Args:
        layers: of a ModelGraph, in order.

    Raises:
        UnsupportedLayerError: With the layer's name, for one that also reads a tensor from outside.
    """
    known: dict[str, int] = {}
    inside: dict[str, int] = {}
    for layer in layers:
        read = {known.get(name, 0) for name in layer.inputs}
        steps = max(read, default=0)
        begins = layer.class_name == TIME_DISTRIBUTED and not is_end(layer)
        if steps and begins:
            raise UnsupportedLayerError(f"layer {layer.name!r}: it is inside another TimeDistributed; take the inner one out")
        if steps and len(read) > 1:
            raise UnsupportedLayerError(
                f"layer {layer.name!r}: it reads tensors from inside and from outside a TimeDistributed; put it behind that"
            )
        if begins:
            steps = int(layer.get_attr("n_time_steps"))
        elif layer.class_name == TIME_DISTRIBUTED:
            steps = 0
        elif steps:
            inside[layer.name] = steps
        known |= dict.fromkeys((layer.name, *layer.outputs), steps)
    return inside


def is_end(layer: Any) -> bool:
    """Return whether a TimeDistributed of hls4ml's graph is the second of its two layers."""
    return str(layer.name).endswith("_end") and layer.get_attr("wrapped_layer").name == layer.name.removesuffix("_end")


def vocabulary_sizes(model: Any) -> tuple[int, ...]:
    """Return, for each input, the rows of the Embedding table that it indexes (the smallest of several), or 0 if it is not an
    index."""
    sizes: dict[str, list[int]] = {tensor: [] for tensor in model.inputs}
    holds = {tensor: tensor for tensor in model.inputs}
    for layer in model.get_layers():
        source = holds.get(layer.inputs[0]) if layer.inputs else None
        if source is not None and layer.class_name in MOVES:
            holds.update(dict.fromkeys(layer.outputs, source))
        elif source is not None and layer.class_name == "Embedding":
            sizes[source].append(int(layer.get_attr("vocab_size")))
    return tuple(min(sizes[tensor], default=0) for tensor in model.inputs)


def check_merge(layer: Any) -> None:
    """Refuse a merge of two shapes: hls4ml 1.3.0 compares sizes as text, so that 10 elements and 5 make 5.

    Raises UnsupportedLayerError if the shapes differ.
    """
    a, b = (tuple(int(size) for size in layer.get_input_variable(tensor).shape) for tensor in layer.inputs)
    if a != b:
        raise UnsupportedLayerError(
            f"layer {layer.name!r}: it merges the shapes {a} and {b}, and hls4ml's C++ leaves elements out where they differ; "
            "give both the same shape"
        )


def check_arrays(layer: Any) -> None:
    """Refuse a layer in io_stream whose C++ hls4ml 1.3.0 has for arrays alone. Raises UnsupportedLayerError."""
    if is_streamed(layer):
        raise UnsupportedLayerError(
            f"layer {layer.name!r} ({layer.class_name}): hls4ml 1.3.0 has no C++ for it in io_stream; use IOType io_parallel",
            (Edit(("hls4ml", "IOType"), None),),
        )


def result_precision(layer: Any) -> FixedPoint:
    """Return the type of a layer's result. Raises UnsupportedLayerError if it is not fixed point."""
    return precision_of(layer.get_output_variable().type.precision, f"layer {layer.name!r}: result")


def written_constants(layer: Any, name: str) -> Constants:
    """Return a layer's weight array, of its own shape, as the C++ gets it.

    Binary weights are -1 and 1. hls4ml writes each number in decimal, with `fraction` digits after the point, and ap_fixed
    converts the resulting double.
    Raises UnsupportedLayerError for a type that this project does not read.
    """
    variable = layer.weights[name]
    what = f"layer {layer.name!r}: {name}"
    if type(variable.type).__name__ in ("CompressedType", "ExponentType"):
        raise UnsupportedLayerError(
            f"{what} is stored as {type(variable.type).__name__}; switch Compression and po2 quantisers off"
        )
    precision = precision_of(variable.type.precision, what)
    numbers = np.array([float(text) for text in variable], dtype=np.float64)
    try:
        raw = precision.from_float(numbers)
    except PrecisionError as error:
        raise UnsupportedLayerError(f"{what}: {error}; give it fewer bits in the model's YAML") from error
    if str(variable.type.precision).startswith("int<2") and (raw == -2).any():
        raise UnsupportedLayerError(f"{what} is {precision} and holds -2, which hls4ml's ternary product reads as +1")
    if not is_binary(variable):
        return Constants(raw, precision.fraction)
    if name != "weight" and raw.any():
        raise UnsupportedLayerError(f"{what} has the XNOR type, which only the weights of a Dense or a convolution can have")
    return Constants(2 * raw - 1 if name == "weight" else raw, 0)


def is_binary(variable: Any) -> bool:
    """Return whether hls4ml's variable has the XNOR type: bits, which a product reads as 1 and -1 (for 0)."""
    return type(variable.type.precision).__name__.endswith("XnorPrecisionType")


def precision_of(precision: Any, what: str) -> FixedPoint:
    """Convert hls4ml's FixedPrecisionType, IntegerPrecisionType or XnorPrecisionType, which is a bit.

    Args:
        what: the start of the error message.

    Raises:
        UnsupportedLayerError: For other types, for the mode WRAP_SM and for saturation bits.
    """
    kind = type(precision).__name__
    if kind.endswith(("IntegerPrecisionType", "XnorPrecisionType")):
        return FixedPoint(int(precision.width), int(precision.width), bool(precision.signed))
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
    return FixedPoint(int(precision.width), int(precision.integer), bool(precision.signed), rounding, overflow)


def element_types(layer: Any, size: int) -> tuple[FixedPoint | None, ...]:
    """Return the type of each of the `size` elements of a FixedPointQuantizer, hls4ml's layer for a quantiser of HGQ2.

    None: the element has no bits and is 0. Raises UnsupportedLayerError for a mode that this project does not read.
    """
    shape = tuple(int(length) for length in layer.get_output_variable().shape)
    try:
        rounding, overflow = Rounding(f"AP_{layer.RND}"), Overflow(f"AP_{layer.SAT}")
    except ValueError as error:
        raise UnsupportedLayerError(f"layer {layer.name!r}: {error}; expected a mode of ap_fixed other than WRAP_SM") from error
    signed, widths, integers = (
        np.broadcast_to(part[0] if part.ndim > 1 else part, shape).reshape(-1) for part in layer.mask_kbi
    )
    return tuple(
        FixedPoint(int(width), int(integer), bool(sign), rounding, overflow) if width > 0 else None
        for sign, width, integer in zip(signed[:size], widths[:size], integers[:size], strict=True)
    )


def input_precision(layer: Any) -> FixedPoint:
    """Return the type of a layer's first input. Raises UnsupportedLayerError if it is not fixed point."""
    return precision_of(layer.get_input_variable(layer.inputs[0]).type.precision, f"layer {layer.name!r}: its input")


def retype(graph: Any, kind: Any, precision: str) -> None:
    """Set the precision of one tensor.

    Other layers keep theirs.

    Args:
        kind: the type object of a layer's output variable.
    """
    kind.precision = copy(kind.precision)  # other layers may share the object
    vars(kind.precision).update(vars(graph.config.backend.convert_precision_string(precision)))


def is_streamed(layer: Any) -> bool:
    """Return whether the layer's graph was converted with IOType io_stream."""
    return bool(layer.model.config.get_config_value("IOType") == "io_stream")


def strategy_of(layer: Any) -> str:
    """Return the Strategy that hls4ml chose for the layer, in lower case."""
    return str(layer.get_attr("strategy")).lower()


def number_of(layer: Any, name: str, default: int = 0) -> int:
    """Return a layer's attribute as an integer, or `default` if it is missing, None or 0."""
    return int(layer.get_attr(name, default) or default)


def edge(precision: FixedPoint, what: str) -> FixedPoint:
    """Check the type of an input or output and return it.

    Args:
        what: such as "the input 'x'".

    Raises:
        UnsupportedLayerError: If it is wider than MAX_WIDTH.
    """
    try:
        return precision.checked()
    except PrecisionError as error:
        raise UnsupportedLayerError(
            f"{what} is {precision}, {precision.width} bits, expected up to {MAX_WIDTH}, which a row carries; give it fewer: "
            f"{what.split()[1]}.precision in the model's YAML, or Precision.result of its layer in hls4ml's configuration"
        ) from error


def takes_bits(layer: Any) -> bool:
    """Return whether the layer reads an input of the XNOR type as hls4ml's C++ should: as -1 and 1, or to move the bits."""
    if layer.class_name in PRODUCTS_OF_BITS:
        return not pads(layer)
    maximum = layer.class_name in _POOLS and str(layer.get_attr("pool_op")).lower() == "max"
    return (maximum or layer.class_name in _MOVES_BITS) and is_binary(layer.get_output_variable())


def pads(layer: Any) -> bool:
    """Return whether the layer pads its input."""
    return any(int(layer.get_attr(f"pad_{side}", 0) or 0) for side in ("top", "bottom", "left", "right"))
