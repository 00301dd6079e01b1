# SPDX-License-Identifier: Apache-2.0
"""Draws QuantizeLinear and DequantizeLinear, as onnxruntime's static quantisation (QDQ) and Brevitas' QCDQ write them.

A pair of them rounds numbers to a grid. Where its scale is a power of two and its integers are those of an ap_fixed, the pair
is a linear activation of that type. Every other pair is three layers: a normalisation to steps of the grid, a linear
activation that rounds these to integers, and a normalisation back. Constants behind a DequantizeLinear are folded (graph.py).

https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hypersonic.hls.frontend.onnx.layers import (
    Drawing,
    Value,
    affine,
    constant,
    layers,
    refuse,
    value,
)
from hypersonic.hls.frontend.onnx.nodes import Array, attributes

#: the integers of ONNX's attribute output_dtype (TensorProto.DataType)
_BY_NUMBER = {2: (0, 255), 3: (-128, 127), 4: (0, 65535), 5: (-32768, 32767), 21: (0, 15), 22: (-8, 7)}


@dataclass(frozen=True)
class Grid:
    """Numbers scale * n with n from low to high.

    Attributes:
        scale: one, or one for each index of the tensor's axis `axis`.
    """

    scale: Array
    low: int
    high: int
    axis: int

    @property
    def bits(self) -> int:
        """The width of a type that counts the integers."""
        return int(self.high - self.low).bit_length()

    @property
    def shift(self) -> int:
        """The number that makes the integers those of an ap_fixed when it is added; 0 if they are already."""
        return 0 if self.low in (0, -self.high - 1, -self.high) else -self.low

    def kind(self, exponent: int = 0) -> str:
        """Return hls4ml's type of the integers, shifted, times 2 ** exponent."""
        signed = self.low + self.shift < 0
        saturation = "AP_SAT_SYM" if signed and self.low == -self.high else "AP_SAT"
        return f"ap_{'' if signed else 'u'}fixed<{self.bits},{self.bits + exponent},AP_RND_CONV,{saturation}>"

    @property
    def exponent(self) -> int | None:
        """The scale's exponent, if it is one power of two."""
        exponents = np.log2(self.scale.reshape(-1))
        return int(exponents[0]) if (exponents == np.rint(exponents[0])).all() else None


def quantised(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw QuantizeLinear with every DequantizeLinear that reads it, directly or behind a Clip. `name`: of QuantizeLinear."""
    graph, x = drawing.graph, value(drawing, node)
    for index, (reader, bounds) in enumerate(_readers(drawing, node, name)):
        grid = _grid(drawing, node, name, bounds)
        back = _grid(drawing, reader, name, bounds)
        if (grid.low, grid.high, grid.axis) != (back.low, back.high, back.axis) or not np.array_equal(grid.scale, back.scale):
            raise refuse(name, f"its scale or zero point is not that of the DequantizeLinear {reader.name!r} behind it",
                         "quantise with one scale and zero point for both")  # fmt: skip
        own = name if index == 0 else f"{name}_{index}"
        rows = graph.shapes[node.input[0]]
        drawing.values[reader.output[0]] = _rounded(drawing, own, x, grid, rows)
    return x


def _rounded(drawing: Drawing, name: str, x: Value, grid: Grid, rows: tuple[int, ...]) -> Value:
    """Draw the rounding to a grid.

    Args:
        rows: the shape of the tensor in the file.
    """
    exponent = grid.exponent
    if exponent is not None and not grid.shift:
        drawing.types[name] = {"result": grid.kind(exponent)}
        return Value(layers().Activation("linear", name=name)(x.tensor), x.image, x.flat)
    scale = _along(grid.scale, rows, grid.axis)
    steps = affine(drawing, f"{name}_steps", x, 1 / scale, np.full(scale.shape, float(grid.shift)))
    drawing.types[name] = {"result": grid.kind()}
    whole = Value(layers().Activation("linear", name=name)(steps.tensor), steps.image, steps.flat)
    return affine(drawing, f"{name}_back", whole, scale, -grid.shift * scale)


def _along(scale: Array, rows: tuple[int, ...], axis: int) -> Array:
    """The scale of every number of a row."""
    shape = [1] * len(rows)
    if scale.size > 1:
        shape[axis] = -1
    row: Array = np.broadcast_to(scale.reshape(shape), rows)[0]
    return row


def _readers(drawing: Drawing, node: Any, name: str) -> list[tuple[Any, tuple[float, float]]]:
    """Each DequantizeLinear that reads a QuantizeLinear, with the bounds of the Clip between them."""
    found = list[tuple[Any, tuple[float, float]]]()
    for reader in drawing.graph.readers(node.output[0]):
        bounds, behind = (-np.inf, np.inf), [reader]
        if reader.op_type == "Clip":
            low, high = (constant(drawing, reader, at, what, name) for at, what in ((1, "min"), (2, "max")))
            bounds = (-np.inf if low is None else float(low), np.inf if high is None else float(high))
            behind = drawing.graph.readers(reader.output[0])
            drawing.values[reader.output[0]] = value(drawing, node)
        if {each.op_type for each in behind} != {"DequantizeLinear"} or node.output[0] in drawing.graph.outputs:
            what = ", ".join(each.op_type for each in behind if each.op_type != "DequantizeLinear") or "an output"
            remedy = "quantise with QuantFormat.QDQ, in which a DequantizeLinear reads them"
            raise refuse(name, f"its integers are read by {what}", remedy)
        found += [(each, bounds) for each in behind]
    return found


def integers(drawing: Drawing, node: Any, name: str) -> Value:
    """Refuse a DequantizeLinear whose integers no QuantizeLinear makes."""
    del drawing, node
    raise refuse(name, "its integers come from no QuantizeLinear", "quantise with QuantFormat.QDQ, which writes them in pairs")


def _grid(drawing: Drawing, node: Any, name: str, bounds: tuple[float, float]) -> Grid:
    scale, zero = constant(drawing, node, 1, "scale", name), constant(drawing, node, 2, "zero point", name)
    options, rank = attributes(node), len(drawing.graph.shapes[node.input[0]])
    if scale is None or options.get("block_size", 0):
        raise refuse(name, f"{node.op_type} in blocks", "expected a scale for the tensor or for each index of one axis")
    if zero is not None and zero.dtype.kind not in "iu":
        raise refuse(name, f"{node.op_type} with a zero point of {zero.dtype}", "expected integers")
    first = _BY_NUMBER.get(int(options.get("output_dtype", 0)), (0, 255))
    low, high = first if zero is None else _ends(zero.dtype)
    zeros = {0} if zero is None else {int(one) for one in np.asarray(zero, np.int64).reshape(-1)}
    if len(zeros) > 1:
        raise refuse(name, f"{node.op_type} with {len(zeros)} different zero points", "expected one for all channels")
    (offset,) = zeros
    low, high = (int(np.clip(end, *bounds)) - offset for end in (low, high))
    count = high - low + 1
    if count & (count - 1) and not (low == -high and count & (count + 1) == 0):
        remedy = "expected all integers of their type, or a narrow range such as -127 to 127 with the zero point 0"
        raise refuse(name, f"its integers run from {low + offset} to {high + offset}, and its zero point is {offset}", remedy)
    scale = np.asarray(scale, np.float64)
    return Grid(scale, low, high, int(options.get("axis", 1)) % rank if scale.size > 1 else 0)


def _ends(dtype: Any) -> tuple[int, int]:
    names = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}
    if dtype.name in names:
        return names[dtype.name]
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)
