# SPDX-License-Identifier: Apache-2.0
"""Elementwise layers with a table: sigmoid, tanh, ELU, SELU, softplus, softsign; SiLU, GELU and hard SiLU.

The last three are the sum of a ReLU and of such a table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.network.attributes import NONE, fixed, number, parameter, precision, refuse, streamed
from hypersonic.hls.network.base import OneInput, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.layers.map import Map, MapFunction
from hypersonic.hls.network.layers.merge import Merge, MergeOperation
from hypersonic.hls.network.raw import Integers, cast_all, raw_array
from hypersonic.hls.network.tables import CURVES, SELU_LAMBDA, SELU_SCALE, curve_values


@dataclass(frozen=True, eq=False)
class Table(OneInput):
    """A function tabulated in `size` entries over span = 2**span_log2 units of x; nnet_activation.h, network/tables.py.

    sigmoid, tanh, softplus, softsign: y = values[min(max(int(x * size / span) + size / 2, 0), size - 1)], int() towards zero.
    elu, selu (negative_only): y = result(scale * x) where x >= 0, else values[min(int(-x * size / span), size - 1)].

    Attributes:
        values: (size,) raw integers of y's type, cast from the table's own type.
        scale: one constant.
    """

    values: Constants
    span_log2: int
    negative_only: bool
    scale: Constants


def table_value(layer: Table, kind: FixedPoint, raw: int) -> int:
    """Return the raw result that the C++ gives for one raw input of type `kind`."""
    size, to = len(layer.values.raw), layer.y.precision
    if layer.negative_only and raw >= 0:
        return to.cast(raw * int(layer.scale.raw[0]), kind.fraction + layer.scale.fraction)
    steps, unit = abs(raw) * size, kind.fraction + layer.span_log2
    index = steps >> unit if unit >= 0 else steps << -unit
    if not layer.negative_only:
        index = (index if raw >= 0 else -index) + size // 2
    return int(layer.values.raw[min(max(index, 0), size - 1)])


# ---------------------------------------------------------------- in hls4ml's graph
def _read(layer: Any, x: Tensor, y: Tensor) -> Table | tuple[Map, Table, Merge]:
    function = str(layer.get_attr("activation")).lower()
    if not CURVES[function].dip:
        return curve_table(layer, function, x, y)
    kind = precision(layer, "table_t")
    above, dip = (
        replace(y, name=f"{layer.name}_above", precision=x.precision),
        replace(y, name=f"{layer.name}_dip", precision=kind),
    )
    return (
        Map(layer.name, x, above, MapFunction.RELU, NONE, NONE),
        curve_table(layer, function, x, dip),
        Merge(layer.name, above, dip, y, MergeOperation.ADD),
    )


def curve_table(layer: Any, function: str, x: Tensor, y: Tensor) -> Table:
    """Return the table of a function, a key of CURVES, with the layer's table_size and table_t."""
    size, curve, table = int(layer.get_attr("table_size")), CURVES[function], precision(layer, "table_t")
    if x.precision.width - x.precision.fraction + size.bit_length() - 1 > 31 + curve.span_log2:
        raise refuse(layer, f"its input is {x.precision}, whose index of {size} entries does not fit the C++'s int")
    fixed(layer, table, "table_t")
    values, scale = curve_values(function, size, table), number(1)
    if function == "selu":
        scale = _selu_scale(layer, x.precision)
    elif function == "elu":
        alpha = parameter(layer, "activ_param", "param_t")
        values = Constants(values.raw.astype(object) * int(alpha.raw[0]), values.fraction + alpha.fraction)
    final = Constants(raw_array(cast_all(values, y.precision), y.precision.width), y.precision.fraction)
    return Table(layer.name, x, y, final, curve.span_log2, curve.negative_only, scale)


def _selu_scale(layer: Any, x: FixedPoint) -> Constants:
    """Return the factor for positive x: an ap_ufixed<16,1> in io_parallel, a number of x's type in io_stream."""
    if not streamed(layer):
        return SELU_SCALE
    return Constants(fixed(layer, x, "its input").from_float(SELU_LAMBDA).reshape(1), x.fraction)


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Table, x: Integers) -> Integers:
    return table_values(layer, x)


def table_values(layer: Table, x: Integers) -> Integers:
    """Return table_value of each number of an array of any shape."""
    values: Integers = np.frompyfunc(lambda value: table_value(layer, layer.x.precision, int(value)), 1, 1)(x)
    return values


LAYER = LayerType(Table, _evaluate, activations=dict.fromkeys(CURVES, _read), by_image=True)
