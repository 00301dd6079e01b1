# SPDX-License-Identifier: Apache-2.0
"""Draws ONNX nodes that read tensors with the channels first, such as convolutions and pools, as Keras layers (see draw.py).

The functions that draw a node have the arguments, result and error of those in layers.py. ConvTranspose becomes a convolution
of its input with zeros between the numbers, by the kernel turned around. The zeros are padding of the input in other shapes, so
that they need no arithmetic.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hypersonic.hls.frontend.keras.convolutions import dilated_kernel, spread
from hypersonic.hls.frontend.onnx.layers import (
    Drawing,
    Value,
    affine,
    constant,
    image,
    layers,
    plain,
    refuse,
    scaled,
    value,
)
from hypersonic.hls.frontend.onnx.nodes import PASSING, attributes

_FLATTENING = ("Flatten", "Reshape", "Squeeze")


def convolution(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw Conv with one group, or with one group for each channel."""
    x, weight = image(value(drawing, node), name), constant(drawing, node, 1, "weight", name)
    bias = constant(drawing, node, 2, "bias", name)
    if weight is None or x.shape[-1] % weight.shape[1]:
        raise refuse(name, "Conv without constant weights", "expected them in the file")
    filters, (channels, group) = weight.shape[0], (x.shape[-1], attributes(node).get("group", 1))
    if group not in (1, channels) or (group == channels > 1 and filters != channels):
        raise refuse(
            name,
            f"Conv with group={group}, {channels} channels and {filters} filters, for which hls4ml has no C++",
            f"expected group 1, or {channels} with as many filters",
        )
    places = weight.ndim - 2
    kernel = dilated_kernel(np.moveaxis(weight, (0, 1), (-1, -2)), attributes(node).get("dilations", [1] * places))
    size = kernel.shape[:places]
    x, padding = padded(node, name, x, size)
    options = {"strides": _strides(node, places), "padding": padding, "use_bias": bias is not None, "name": name}
    if group == channels > 1:
        kernel = np.swapaxes(kernel, -1, -2)
        layer = getattr(layers(), f"DepthwiseConv{places}D")(size, **options)
    else:
        layer = getattr(layers(), f"Conv{places}D")(filters, size, **options)
    drawing.weights[name] = [kernel, *([] if bias is None else [bias])]
    drawing.typed(name, weight=node.input[1], **({"bias": node.input[2]} if bias is not None else {}))
    return Value(layer(x.tensor), image=True)


def pool(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw MaxPool or AveragePool."""
    x, options = image(value(drawing, node), name), attributes(node)
    size = tuple(options["kernel_shape"])
    pads, strides = _pads(node, name, x, size), _strides(node, len(size))
    if options.get("ceil_mode", 0):
        sizes = [whole + sum(sides) - part for whole, part, sides in zip(x.shape, size, pads, strict=False)]
        if any(left % step for left, step in zip(sizes, strides, strict=True)):
            raise refuse(name, f"{node.op_type} with ceil_mode 1, which hls4ml does not have", "expected 0")
    padding = "same" if any(map(any, pads)) else "valid"
    if padding == "same" and _zeros_do(drawing, node):
        x, padding = _zeros(name, x, pads), "valid"
    kind = "Max" if node.op_type == "MaxPool" else "Average"
    pooling = getattr(layers(), f"{kind}Pooling{len(size)}D")
    if padding == "same" and _same(x, size, strides) != pads:
        if _same(x, size, (1,) * len(size)) != pads:
            remedy = "expected half of a window of odd size on each side, none, or a Relu before it"
            raise refuse(name, f"{node.op_type} with pads {pads}, which hls4ml's pools do not have", remedy)
        every = pooling(size, strides=1, padding="same", name=f"{name}_every")(
            x.tensor
        )  # at each place, of which some are kept
        return Value(getattr(layers(), f"MaxPooling{len(size)}D")(1, strides=strides, name=name)(every), image=True)
    return Value(pooling(size, strides=strides, padding=padding, name=name)(x.tensor), image=True)


def _zeros_do(drawing: Drawing, node: Any) -> bool:
    """Return whether zeros around the input have the effect of the pool's padding.

    They do if an average counts them, or if no input of a maximum is below zero.
    """
    if node.op_type == "AveragePool":
        return bool(attributes(node).get("count_include_pad", 0))
    tensor = node.input[0]
    makers = {made: maker for maker in drawing.graph.nodes for made in maker.output}
    while tensor in makers and makers[tensor].op_type in PASSING:
        tensor = makers[tensor].input[0]
    before = makers.get(tensor)
    if before is not None and before.op_type == "Clip":
        least = drawing.graph.constants.get(before.input[1]) if len(before.input) > 1 else None
        return bool((least if least is not None else np.float64(attributes(before).get("min", -1))) >= 0)
    return before is not None and before.op_type in ("Relu", "Sigmoid", "HardSigmoid")


def global_pool(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw GlobalAveragePool or GlobalMaxPool."""
    return _over_places(drawing, node, name, image(value(drawing, node), name), "Max" if "Max" in node.op_type else "Average")


def reduced(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw ReduceMean, ReduceSum or ReduceMax over all spatial axes of an image, over all axes but the last, or a mean or sum
    over the last."""
    x, options = value(drawing, node), attributes(node)
    rank = len(drawing.graph.shapes[node.input[0]])
    given = constant(drawing, node, 1, "axes", name)
    axes = sorted(int(axis) % rank for axis in (options.get("axes", range(rank)) if given is None else given.reshape(-1)))
    kind = node.op_type.removeprefix("Reduce").replace("Mean", "Average").replace("Sum", "Average")
    count = prod(drawing.graph.shapes[node.input[0]][axis] for axis in axes) if node.op_type == "ReduceSum" else 1
    own = name if count == 1 else f"{name}_mean"
    if axes == list(range(2, rank)) and rank in (3, 4):
        return scaled(drawing, name, _over_places(drawing, node, own, image(x, name), kind), float(count), 0.0)
    if axes == list(range(1, rank - 1)) and rank in (3, 4):
        pooled = Value(getattr(layers(), f"Global{kind}Pooling{rank - 2}D")(name=own)(plain(x, name).tensor))
        return Value(_shaped(drawing, node, name, scaled(drawing, name, pooled, float(count), 0.0).tensor))
    if axes == [rank - 1] and kind == "Average":
        size = drawing.graph.shapes[node.input[0]][-1]
        drawing.weights[name] = [np.full((size, 1), 1.0 if node.op_type == "ReduceSum" else 1 / size)]
        return Value(_shaped(drawing, node, name, layers().Dense(1, use_bias=False, name=name)(plain(x, name).tensor)))
    remedy = "expected an image's spatial axes, all but the last axis, or for a mean or sum the last"
    raise refuse(name, f"{node.op_type} along axes {axes} of {rank}", remedy)


def _over_places(drawing: Drawing, node: Any, name: str, x: Value, kind: str) -> Value:
    readers = drawing.graph.readers(node.output[0])
    shapes = drawing.graph.shapes
    flat = all(reader.op_type in _FLATTENING and len(shapes[reader.output[0]]) == 2 for reader in readers)
    vector = len(shapes[node.output[0]]) == 2 or flat
    layer = getattr(layers(), f"Global{kind}Pooling{len(x.shape) - 1}D")(keepdims=not vector, name=name)
    return Value(layer(x.tensor), image=not vector)


def _shaped(drawing: Drawing, node: Any, name: str, tensor: Any) -> Any:
    shape = drawing.graph.shapes[node.output[0]][1:] or (1,)
    return tensor if tuple(tensor.shape[1:]) == shape else layers().Reshape(shape, name=f"{name}_shape")(tensor)


def normalised(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw BatchNormalization in inference mode, folded to one scale and one shift per channel."""
    scale, shift, mean, variance = (constant(drawing, node, i, "parameter", name) for i in range(1, 5))
    if scale is None or shift is None or mean is None or variance is None:
        raise refuse(name, "BatchNormalization without its four constants", "export the model for inference")
    factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + attributes(node).get("epsilon", 1e-5))
    x, shape = value(drawing, node), drawing.graph.shapes[node.input[0]]
    along = (-1, *[1] * (len(shape) - 2))
    row = [np.broadcast_to(part.reshape(along), shape[1:]) for part in (factor, shift - mean * factor)]
    return affine(drawing, name, x, row[0], row[1])


def zero_padded(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw Pad with zeros along the spatial axes."""
    x, options = value(drawing, node), attributes(node)
    given = constant(drawing, node, 1, "pads", name)
    pads = [int(pad) for pad in (options.get("pads", options.get("paddings", [])) if given is None else given)]
    filled = constant(drawing, node, 2, "value", name)
    number = options.get("value", 0.0) if filled is None else float(filled.reshape(-1)[0])
    rank = len(drawing.graph.shapes[node.input[0]])
    if len(node.input) > 3 or options.get("mode", "constant") != "constant" or number or len(pads) != 2 * rank:
        raise refuse(name, "Pad other than with zeros along all axes", "expected mode constant, value 0 and no axes")
    x = image(x, name)
    sides = list(zip(pads[:rank], pads[rank:], strict=True))
    if any(map(any, sides[:2])) or min(pads) < 0:
        raise refuse(name, f"Pad with pads {pads}, along rows or channels or negative", "expected 0 or more, spatial axes only")
    return _zeros(name, x, sides[2:])


def resized(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw Resize or Upsample, nearest, by integer factors."""
    x, options = image(value(drawing, node), name), attributes(node)
    shape = drawing.graph.shapes[node.output[0]]
    factors = [out / size for out, size in zip(shape[2:], x.shape, strict=False)]
    how = options.get("coordinate_transformation_mode", "half_pixel"), options.get("nearest_mode", "round_prefer_floor")
    if node.op_type == "Upsample":
        how = ("asymmetric", "floor")
    repeats = how in (
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_floor"),
        ("pytorch_half_pixel", "round_prefer_floor"),
    )
    whole = all(factor >= 1 and factor == int(factor) for factor in factors)
    if options.get("mode", "nearest") != "nearest" or not repeats or not whole or shape[1] != x.shape[-1]:
        raise refuse(
            name,
            f"{node.op_type} by {options.get('mode', 'nearest')} {' '.join(how)} with factors {factors}",
            "expected nearest with integer factors, which hls4ml's C++ has",
        )
    sizes = tuple(int(factor) for factor in factors)
    layer = getattr(layers(), f"UpSampling{len(sizes)}D")(sizes if len(sizes) > 1 else sizes[0], name=name)
    return Value(layer(x.tensor), image=True)


def padded(node: Any, name: str, x: Value, size: tuple[int, ...]) -> tuple[Value, str]:
    """Return a window's input and Keras' name for its padding; padding that Keras has no name for becomes a ZeroPadding layer.

    Args:
        size: the window's, along each spatial axis.

    Raises:
        UnsupportedLayerError: As _pads does.
    """
    pads = _pads(node, name, x, size)
    if not any(map(any, pads)):
        return x, "valid"
    if _same(x, size, _strides(node, len(size))) == pads:
        return x, "same"
    return _zeros(name, x, pads), "valid"


def _zeros(name: str, x: Value, pads: list[tuple[int, int]]) -> Value:
    layer = getattr(layers(), f"ZeroPadding{len(pads)}D")
    return Value(layer(tuple(pads) if len(pads) > 1 else pads[0], name=f"{name}_zeros")(x.tensor), image=True)


def _strides(node: Any, places: int) -> tuple[int, ...]:
    return tuple(attributes(node).get("strides", [1] * places))


def _pads(node: Any, name: str, x: Value, size: tuple[int, ...]) -> list[tuple[int, int]]:
    """The padding (before, after) along each spatial axis. Refuses a pool with dilations, which hls4ml ignores."""
    options, places = attributes(node), len(size)
    if node.op_type != "Conv" and any(step != 1 for step in options.get("dilations", [])):
        raise refuse(name, f"{node.op_type} with dilations {options['dilations']}, which hls4ml ignores", "expected 1")
    if places not in (1, 2) or len(x.shape) != places + 1:
        raise refuse(name, f"{node.op_type} over {places} dimensions", "expected one or two")
    match options.get("auto_pad", "NOTSET"):
        case "SAME_UPPER":
            return _same(x, size, _strides(node, places))
        case "SAME_LOWER":
            return [(after, before) for before, after in _same(x, size, _strides(node, places))]
        case "VALID":
            return [(0, 0)] * places
        case _:
            pads = options.get("pads", [0] * 2 * places)
            return list(zip(pads[:places], pads[places:], strict=True))


def _same(x: Value, size: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """The padding (before, after) along each spatial axis with Keras' `same`."""
    wanted = [
        max((-(-whole // step) - 1) * step + part - whole, 0) for whole, part, step in zip(x.shape, size, strides, strict=False)
    ]
    return [(total // 2, total - total // 2) for total in wanted]


def transposed_convolution(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw ConvTranspose of one group over one or two spatial axes."""
    options, x = attributes(node), image(value(drawing, node), name)
    weight, bias = constant(drawing, node, 1, "weight", name), constant(drawing, node, 2, "bias", name)
    if weight is None or weight.ndim not in (3, 4):
        raise refuse(name, "ConvTranspose without constant weights, or over three dimensions", "expected one or two")
    places, size = weight.ndim - 2, weight.shape[2:]
    _check(options, name)
    strides, more = (options.get(what, [default] * places) for what, default in (("strides", 1), ("output_padding", 0)))
    pads = options.get("pads", [0] * 2 * places)
    sides = [
        (part - 1 - before, part - step + extra - after)
        for part, step, extra, before, after in zip(size, strides, more, pads[:places], pads[places:], strict=True)
    ]
    tensor = x.tensor
    for number, part in enumerate(spread(x.shape, strides, sides)):
        tensor = getattr(layers(), part.kind)(**part.options, name=f"{name}_zeros_{number}")(tensor)
    kernel = np.flip(np.moveaxis(weight, (0, 1), (-2, -1)), axis=tuple(range(places)))
    layer = getattr(layers(), f"Conv{places}D")(weight.shape[1], size, use_bias=bias is not None, name=name)
    drawing.weights[name] = [kernel, *([] if bias is None else [bias])]
    drawing.typed(name, weight=node.input[1], **({"bias": node.input[2]} if bias is not None else {}))
    return Value(layer(tensor), image=True)


def _check(options: dict[str, Any], name: str) -> None:
    if options.get("group", 1) != 1 or any(step != 1 for step in options.get("dilations", [])):
        raise refuse(name, f"ConvTranspose with group {options.get('group', 1)} and dilations {options.get('dilations', 1)}",
                     "expected 1")  # fmt: skip
    if options.get("auto_pad", "NOTSET") != "NOTSET" or options.get("output_shape"):
        raise refuse(name, "ConvTranspose with auto_pad or output_shape", "give its pads as numbers")
