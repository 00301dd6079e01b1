# SPDX-License-Identifier: Apache-2.0
"""hls4ml's ModelGraph, after its optimisers, as an RfNetwork; what the rf core cannot compute exactly is refused by name.

Nothing of hls4ml is imported here. In an io_stream graph hls4ml has put a Clone where a tensor is read more than once, a Repack
for a Reshape, a ZeroPadding before a padded convolution; in an io_parallel graph none of these. Both are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.fixed import Constants
from hypersonic.hls.rf.layers import (
    Concatenate,
    Dense,
    Depthwise,
    Embedding,
    Layer,
    Map,
    MapFunction,
    Merge,
    MergeOperation,
    Reshape,
    RfNetwork,
    Tensor,
    Upsample,
    WeightsIn,
    Window,
    ZeroPad,
    layer_inputs,
)
from hypersonic.hls.rf.parts.attributes import check_accumulator, constants, precision, refuse, shape_text, tensor, window
from hypersonic.hls.rf.stages.pool import read_global_pool, read_pool
from hypersonic.hls.rf.stages.table import read_activation, read_softmax

#: hls4ml strategies that compute the same sums
_STRATEGIES = ("latency", "resource")

_Reader = Callable[[Any, Tensor, Tensor], Layer | tuple[Layer, ...]]


def read_rf_network(model: Any) -> RfNetwork:
    """ModelGraph -> RfNetwork. Raises UnsupportedLayerError naming the layer."""
    layers = list(model.get_layers())
    sources, taken = _sources(layers), {name for layer in layers for name in layer.outputs}
    tensors: dict[str, Tensor] = {}
    read: list[Layer] = []
    inputs: list[Tensor] = []
    for layer in layers:
        if layer.class_name in ("Input", "InputLayer"):
            made = tensor(layer.get_output_variable(), layer.outputs[0], layer)
            tensors[layer.outputs[0]] = made
            inputs.append(made)
        elif layer.class_name == "Clone":
            copied = _cloned(layer, tensors[layer.inputs[0]])
            read += [copied] if isinstance(copied, Map) else []
            tensors |= dict.fromkeys(layer.outputs, copied.y if isinstance(copied, Map) else copied)
        else:
            found = _read(layer, [tensors[name if name in tensors else sources[name]] for name in layer.inputs])
            read += distinct(found, taken)
            tensors[layer.outputs[0]] = found[-1].y
    ordered = [next(t for t in inputs if t.name == name) for name in model.inputs]
    outputs = tuple(tensors[_output_name(layers, name)] for name in model.outputs)
    return RfNetwork(model.config.get_project_name(), tuple(ordered), outputs, fold_padding(tuple(read), outputs))


def distinct(layers: tuple[Layer, ...], taken: set[str]) -> tuple[Layer, ...]:
    """The layers of one layer of the model, with tensors between them called as no other.

    taken: the tensors' names there are; the new ones are added.
    """
    renamed: dict[str, str] = {}
    made: list[Layer] = []
    for layer in layers:
        read = _with_tensors(layer, ("x", "a", "b"), renamed)
        if layer is not layers[-1]:
            renamed[layer.y.name] = _free(layer.y.name, taken)
            taken.add(renamed[layer.y.name])
            read = _with_tensors(read, ("y",), renamed)
        made.append(read)
    return tuple(made)


def _free(name: str, taken: set[str]) -> str:
    return name if name not in taken else next(found for n in count(2) if (found := f"{name}_{n}") not in taken)


def _with_tensors(layer: Layer, fields: tuple[str, ...], renamed: dict[str, str]) -> Layer:
    """The layer with tensors in some of its fields under other names."""
    found = {field: getattr(layer, field, None) for field in fields}
    named: dict[str, Any] = {
        field: replace(tensor, name=renamed[tensor.name])
        for field, tensor in found.items()
        if isinstance(tensor, Tensor) and tensor.name in renamed
    }
    return replace(layer, **named)


def fold_padding(layers: tuple[Layer, ...], outputs: tuple[Tensor, ...]) -> tuple[Layer, ...]:
    """Zeros around an image that only a convolution reads become that window's own padding: no stage, and fewer lines."""
    readers = [tensor.name for layer in layers for tensor in layer_inputs(layer)] + [tensor.name for tensor in outputs]
    pads = {layer.y.name: layer for layer in layers if isinstance(layer, ZeroPad) and readers.count(layer.y.name) == 1}
    made: list[Layer] = []
    for layer in layers:
        pad = pads.get(layer.x.name) if isinstance(layer, Dense | Depthwise) and layer.window else None
        folded = _folded(layer, pad) if pad and isinstance(layer, Dense | Depthwise) else None
        made += [layer] if folded is None else [folded]
        if pad and folded is not None:
            made.remove(pad)
    return tuple(made)


def _folded(layer: Dense | Depthwise, pad: ZeroPad) -> Layer | None:
    """The layer reading what the pad reads; None where rf_window cannot, or the pad changes the type."""
    seen, (top, bottom, left, right) = layer.window, pad.pad
    if seen is None or seen.padded or top >= seen.kernel[0] or left >= seen.kernel[1] or pad.x.precision != pad.y.precision:
        return None
    return replace(layer, x=pad.x, window=replace(seen, pad_top=top, pad_bottom=bottom, pad_left=left, pad_right=right))


def _sources(layers: list[Any]) -> dict[str, str]:
    """Names that stand for another: none today, but the optimisers rename a tensor by its layer."""
    return {layer.name: layer.outputs[0] for layer in layers if layer.outputs and layer.name not in layer.outputs}


def _output_name(layers: list[Any], name: str) -> str:
    known = {output for layer in layers for output in layer.outputs}
    return name if name in known else next(layer.outputs[0] for layer in layers if layer.name == name)


def _read(layer: Any, inputs: list[Tensor]) -> tuple[Layer, ...]:
    y = tensor(layer.get_output_variable(), layer.outputs[0], layer)
    if layer.class_name in ("Merge", "Concatenate") or len(inputs) == 2:
        return (_two(layer, inputs, y),)
    reader = _READERS.get(layer.class_name)
    if reader is None:
        known = ", ".join(sorted({*_READERS, "Merge", "Concatenate"}))
        raise refuse(layer, f"no stage of the rf core computes it; it computes {known}")
    if len(inputs) != 1:
        raise refuse(layer, f"it has {len(inputs)} inputs, expected 1")
    found = reader(layer, inputs[0], y)
    return found if isinstance(found, tuple) else (found,)


def _two(layer: Any, inputs: list[Tensor], y: Tensor) -> Layer:
    if len(inputs) != 2:
        raise refuse(layer, f"it has {len(inputs)} inputs, expected 2")
    a, b = inputs
    if layer.class_name == "Concatenate":
        axis = int(layer.get_attr("axis"))
        return Concatenate(layer.name, a, b, y, axis - 1 if axis > 0 else axis + len(y.shape))
    if layer.class_name != "Merge":
        raise refuse(layer, "no stage of the rf core computes it with two inputs")
    operation = str(layer.get_attr("op")).lower()
    if operation not in tuple(MergeOperation):
        raise refuse(layer, f"the operation is {operation}, expected one of {', '.join(MergeOperation)}")
    if a.shape != b.shape:
        raise refuse(layer, f"its inputs are {shape_text(a.shape)} and {shape_text(b.shape)}, expected equal shapes")
    return Merge(layer.name, a, b, y, MergeOperation(operation))


def _reuse(layer: Any) -> tuple[int, int]:
    """The reuse factor that hls4ml took, and the one asked for, of one window: ParallelizationFactor windows side by side
    have the multipliers, and take the clocks, of one with so much less reuse."""
    taken = int(layer.get_attr("reuse_factor") or 1)
    asked = int(layer.model.config.get_reuse_factor(layer) or taken)
    windows = int(layer.get_attr("parallelization_factor", 1) or 1) if "Conv" in layer.class_name else 1
    return max(1, taken // windows), max(1, asked // windows)


def _weights_in(layer: Any) -> WeightsIn:
    """The YAML's WeightsIn (hls/frontend/settings.py)."""
    return WeightsIn(str(layer.get_attr("weights_in", WeightsIn.BRAM)))


def _check_strategy(layer: Any) -> bool:
    """Whether the weights are transposed. Raises UnsupportedLayerError for a strategy whose C++ has not been compared."""
    strategy = str(layer.get_attr("strategy")).lower()
    if strategy not in _STRATEGIES:
        raise refuse(layer, f"Strategy is {strategy}, expected Latency or Resource")
    return bool(layer.get_attr("_weights_transposed", False))


def _product(layer: Any, x: Tensor, y: Tensor, shape: tuple[int, int]) -> Dense:
    transposed = _check_strategy(layer)
    flat = constants(layer, "weight")
    raw = flat.raw.reshape(shape[::-1]).T if transposed else flat.raw.reshape(shape)
    weight, bias, accum = Constants(raw, flat.fraction), constants(layer, "bias"), precision(layer, "accum_t")
    check_accumulator(layer, x.precision, weight, bias, accum)
    return Dense(layer.name, x, y, weight, bias, accum, *_reuse(layer), weights_in=_weights_in(layer))


def _dense(layer: Any, x: Tensor, y: Tensor) -> Dense:
    return _product(layer, x, y, (int(layer.get_attr("n_in")), int(layer.get_attr("n_out"))))


def _convolution(layer: Any, x: Tensor, y: Tensor) -> Dense:
    seen = window(layer, "filt")
    dense = _product(layer, x, y, (seen.size * x.channels, y.channels))
    _check_one_row(layer, seen)
    taken = int(layer.get_attr("reuse_factor") or 1)
    if not _streamed(layer) and str(layer.get_attr("strategy")).lower() == "resource" and dense.n_in % taken:
        raise refuse(
            layer,
            f"ReuseFactor is {taken} with Strategy Resource in io_parallel, whose C++ is right for divisors of "
            f"{dense.n_in} alone; take one of them, Strategy Latency, or io_stream",
        )
    return Dense(**{**_fields(dense), "window": None if seen.is_pixel else seen})


def _streamed(layer: Any) -> bool:
    return bool(layer.model.config.get_config_value("IOType") == "io_stream")


def _check_one_row(layer: Any, seen: Window) -> None:
    """Raises UnsupportedLayerError where hls4ml 1.3.0's stream version forgets the stride from row to row."""
    pointwise = layer.class_name.startswith("Pointwise")
    if _streamed(layer) and layer.class_name.endswith("2D") and seen.kernel[0] == 1 < seen.stride[0] and not pointwise:
        raise refuse(
            layer,
            f"its kernel is {seen.kernel[0]}x{seen.kernel[1]} with stride {seen.stride[0]} from row to row, which hls4ml's "
            "io_stream leaves out: use io_parallel",
        )


def _fields(dense: Dense) -> dict[str, Any]:
    return {name: getattr(dense, name) for name in dense.__dataclass_fields__}


def _depthwise(layer: Any, x: Tensor, y: Tensor) -> Depthwise:
    _check_strategy(layer)
    if y.channels != x.channels:
        raise refuse(layer, f"{x.channels} channels become {y.channels}, expected a depth multiplier of 1")
    seen, flat = window(layer, "filt"), constants(layer, "weight")
    _check_one_row(layer, seen)
    weight = Constants(flat.raw.reshape(seen.size, x.channels), flat.fraction)
    bias, accum = constants(layer, "bias"), precision(layer, "accum_t")
    check_accumulator(layer, x.precision, weight, bias, accum)
    return Depthwise(layer.name, x, y, weight, bias, accum, *_reuse(layer), seen)


def _batch_normalization(layer: Any, x: Tensor, y: Tensor) -> Map:
    return Map(layer.name, x, y, MapFunction.AFFINE, constants(layer, "scale"), constants(layer, "bias"))


def _reshape(layer: Any, x: Tensor, y: Tensor) -> Reshape:
    return Reshape(layer.name, x, Tensor(y.name, y.shape, x.precision))


def _repack(layer: Any, x: Tensor, y: Tensor) -> tuple[Layer, ...]:
    """What hls4ml makes of a Reshape in io_stream copies every number into a result of a type of its own."""
    if x.precision == y.precision:
        return (_reshape(layer, x, y),)
    copied = _copied(layer, x, Tensor(f"{y.name}_cast", x.shape, y.precision))
    return copied, _reshape(layer, copied.y, y)


def _cloned(layer: Any, x: Tensor) -> Tensor | Map:
    """The tensor itself, or the copy of it whose type hls4ml changes: that of a Repack is the model's own behind a Clone."""
    y = tensor(layer.get_output_variable(layer.outputs[0]), layer.outputs[0], layer)
    return x if x.precision == y.precision else _copied(layer, x, replace(y, shape=x.shape))


def _copied(layer: Any, x: Tensor, y: Tensor) -> Map:
    none = Constants(np.zeros(0, dtype=np.int64), 0)
    return Map(layer.name, x, y, MapFunction.LINEAR, none, none)


def _transpose(layer: Any, x: Tensor, y: Tensor) -> tuple[Layer, ...]:
    order = [int(axis) for axis in layer.get_attr("perm")]
    moved = [axis for axis in order if x.shape[axis] > 1]
    if moved != sorted(moved):
        raise refuse(layer, f"it permutes the axes to {order}, which a stream cannot without holding the whole tensor")
    return _repack(layer, x, y)


def _resize(layer: Any, x: Tensor, y: Tensor) -> Upsample:
    (height, width, _), (new_height, new_width, _) = x.image, y.image
    if str(layer.get_attr("algorithm")) != "nearest" or new_height % height or new_width % width:
        raise refuse(
            layer,
            f"it resizes {height}x{width} to {new_height}x{new_width} by {layer.get_attr('algorithm')}, expected whole "
            "factors and nearest",
        )
    return Upsample(layer.name, x, y, (new_height // height, new_width // width))


def _zero_padding(layer: Any, x: Tensor, y: Tensor) -> ZeroPad:
    if str(layer.get_attr("data_format", "channels_last")) != "channels_last":
        raise refuse(layer, "data_format is channels_first, expected channels_last")
    sides = tuple(int(layer.get_attr(f"pad_{side}", 0) or 0) for side in ("top", "bottom", "left", "right"))
    top, bottom, left, right = (*sides[2:], 0, 0) if layer.class_name.endswith("1D") else sides
    return ZeroPad(layer.name, x, y, (top, bottom, left, right))


def _embedding(layer: Any, x: Tensor, y: Tensor) -> Embedding:
    flat, n_out = constants(layer, "embeddings"), int(layer.get_attr("n_out"))
    if x.precision.fraction != 0 or x.precision.signed:
        raise refuse(
            layer, f"its input is {x.precision}: give it an unsigned type of whole numbers, as ap_ufixed<4,4> for 16 words"
        )
    cast = [y.precision.cast(int(value), flat.fraction) for value in flat.raw]
    return Embedding(layer.name, x, y, Constants(np.array(cast, dtype=np.int64).reshape(-1, n_out), y.precision.fraction))


_READERS: dict[str, _Reader] = {
    "Dense": _dense,
    "Conv1D": _convolution,
    "Conv2D": _convolution,
    "PointwiseConv1D": _convolution,
    "PointwiseConv2D": _convolution,
    "DepthwiseConv1D": _depthwise,
    "DepthwiseConv2D": _depthwise,
    "BatchNormalization": _batch_normalization,
    "ApplyAlpha": _batch_normalization,
    "Activation": read_activation,
    "ParametrizedActivation": read_activation,
    "HardActivation": read_activation,
    "PReLU": read_activation,
    "Softmax": read_softmax,
    "Pooling1D": read_pool,
    "Pooling2D": read_pool,
    "GlobalPooling1D": read_global_pool,
    "GlobalPooling2D": read_global_pool,
    "Reshape": _reshape,
    "Repack": _repack,
    "Transpose": _transpose,
    "Resize": _resize,
    "ZeroPadding1D": _zero_padding,
    "ZeroPadding2D": _zero_padding,
    "Embedding": _embedding,
}


__all__ = ["UnsupportedLayerError", "read_rf_network"]
