# SPDX-License-Identifier: Apache-2.0
"""hls4ml's activations as Map, Table and Softmax layers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import Constants, Overflow, Precision
from hypersonic.hls.rf.layers import Layer, Map, MapFunction, Softmax, SoftmaxKind, Table, Tensor
from hypersonic.hls.rf.parts.attributes import constants, precision, refuse
from hypersonic.hls.rf.parts.tables import CURVES, SELU_LAMBDA, SELU_SCALE, curve_values, exp_values, inverse_values

_NONE = Constants(np.zeros(0, dtype=np.int64), 0)

#: hls4ml's names of what a Map computes: the function, and where its scale and its bias come from (attribute, its type)
_MAPS: dict[str, tuple[MapFunction, tuple[str, str] | None, tuple[str, str] | None]] = {
    "linear": (MapFunction.LINEAR, None, None),
    "relu": (MapFunction.RELU, None, None),
    "leakyrelu": (MapFunction.LEAKY, ("activ_param", "param_t"), None),
    "thresholdedrelu": (MapFunction.THRESHOLD, None, ("activ_param", "param_t")),
    "hard_sigmoid": (MapFunction.HARD_SIGMOID, ("slope", "slope_t"), ("shift", "shift_t")),
    "hard_tanh": (MapFunction.HARD_TANH, ("slope", "slope_t"), ("shift", "shift_t")),
}

_CAPS = {"relu1": 1, "relu6": 6}


def read_activation(layer: Any, x: Tensor, y: Tensor) -> Layer:
    """An Activation, ParametrizedActivation, HardActivation or PReLU of hls4ml's."""
    function = str(layer.get_attr("activation")).lower()
    if function in _MAPS:
        kind, scale, bias = _MAPS[function]
        return Map(layer.name, x, y, kind, *(_parameter(layer, *where) if where else _NONE for where in (scale, bias)))
    if function in _CAPS:
        return Map(layer.name, x, y, MapFunction.CAP, _NONE, _number(_CAPS[function]))
    if function == "prelu":
        return Map(layer.name, x, y, MapFunction.LEAKY, constants(layer, "param"), _NONE)
    if function in CURVES:
        return _table(layer, x, y, function)
    known = ", ".join(sorted({"prelu", *_MAPS, *_CAPS, *CURVES}))
    raise refuse(layer, f"the activation is {function}, the rf core computes {known}")


def _number(value: int) -> Constants:
    return Constants(np.array([value], dtype=np.int64), 0)


def _parameter(layer: Any, name: str, kind: str) -> Constants:
    """One number as the C++ gets it: a literal that its type's constructor reads."""
    to = precision(layer, kind)
    return Constants(np.array([to.fixed.from_float(float(layer.get_attr(name, 1.0)))]).reshape(1), to.fraction)


def _table(layer: Any, x: Tensor, y: Tensor, function: str) -> Table:
    size, curve, table = int(layer.get_attr("table_size")), CURVES[function], precision(layer, "table_t")
    if x.precision.width - x.precision.fraction + size.bit_length() - 1 > 31 + curve.span_log2:
        raise refuse(layer, f"its input is {x.precision}, whose index of {size} entries does not fit the C++'s int")
    values, scale = curve_values(function, size, table), _number(1)
    if function == "selu":
        scale = _selu_scale(layer, x.precision)
    elif function == "elu":
        alpha = _parameter(layer, "activ_param", "param_t")
        values = Constants(values.raw * alpha.raw[0], values.fraction + alpha.fraction)
    final = Constants(_cast(values, y.precision), y.precision.fraction)
    return Table(layer.name, x, y, final, curve.span_log2, curve.negative_only, scale)


def _selu_scale(layer: Any, x: Precision) -> Constants:
    """Of the positive side: an ap_ufixed<16,1> in io_parallel, a number of x's own type in io_stream."""
    if layer.model.config.get_config_value("IOType") != "io_stream":
        return SELU_SCALE
    return Constants(x.fixed.from_float(SELU_LAMBDA).reshape(1), x.fraction)


def _cast(values: Constants, to: Precision) -> NDArray[np.int64]:
    return np.array([to.cast(int(value), values.fraction) for value in values.raw], dtype=np.int64)


def read_softmax(layer: Any, x: Tensor, y: Tensor) -> Softmax:
    """hls4ml's Softmax over the last dimension; the tables' types and sizes as its template settles them."""
    kind = _softmax_kind(layer, x)
    if kind is SoftmaxKind.ARGMAX:
        one = Precision(1, 0, False)
        return Softmax(layer.name, x, y, kind, one, one, one, _NONE, _NONE)
    size = int(layer.get_attr("table_size") or 1024)
    exp_size, inv_size = (int(layer.get_attr(f"{name}_table_size") or size) for name in ("exp", "inv"))
    exp_type, inv_type, accum = (precision(layer, name) for name in ("exp_table_t", "inv_table_t", "accum_t"))
    inverse = exp_type if layer.get_attr("inv_inp_t").name == "model_default_t" else precision(layer, "inv_inp_t")
    normalised, exp_size = _normalised(layer, x.precision, kind, (exp_size, inv_size))
    for what, entries, width in (("exp", exp_size, normalised.width), ("inv", inv_size, inverse.width)):
        if entries & (entries - 1) or entries > 1 << width:
            raise refuse(layer, f"its {what} table has {entries} entries, expected a power of two up to {1 << width}")
    exp = exp_values(normalised, exp_size, exp_type, negative=kind is SoftmaxKind.STABLE)
    _check_exponentials(layer, exp, exp_type, accum, x.channels)
    return Softmax(layer.name, x, y, kind, normalised, accum, inverse, exp, inverse_values(inverse, inv_size, inv_type))


def _softmax_kind(layer: Any, x: Tensor) -> SoftmaxKind:
    """Raises UnsupportedLayerError for what hls4ml's softmax can do and rf_softmax cannot, or what does not compile."""
    kind = str(layer.get_attr("implementation")).lower()
    if kind not in tuple(SoftmaxKind):
        raise refuse(layer, f"implementation is {kind}, expected {', '.join(SoftmaxKind)}")
    if int(layer.get_attr("n_inner", 1) or 1) != 1 or str(layer.get_attr("axis", -1)) not in ("-1", str(len(x.shape))):
        raise refuse(layer, f"axis is {layer.get_attr('axis')}, expected the last one")
    if float(layer.get_attr("exp_scale", 1.0) or 1.0) != 1.0:
        raise refuse(layer, f"exp_scale is {layer.get_attr('exp_scale')}, expected 1")
    if str(layer.get_attr("activation")) != "softmax":
        raise refuse(layer, "hls4ml 1.3.0 writes C++ for a Softmax layer that does not compile; use Activation('softmax')")
    return SoftmaxKind(kind)


def _normalised(layer: Any, x: Precision, kind: SoftmaxKind, sizes: tuple[int, int]) -> tuple[Precision, int]:
    """The type that addresses the exponentials, and how many of them there are. sizes: of both tables."""
    if kind is SoftmaxKind.LATENCY:
        return x, sizes[0]
    if layer.get_attr("inp_norm_t") is not None:
        return precision(layer, "inp_norm_t"), sizes[0]
    width = x.width - x.signed
    return Precision(width, x.fraction, signed=False), min(sizes[1], 1 << width) if x.signed else sizes[0]


def _check_exponentials(layer: Any, exp: Constants, exp_type: Precision, accum: Precision, classes: int) -> None:
    """Raises UnsupportedLayerError where the order of the sum would show."""
    if accum.overflow is Overflow.WRAP:
        return
    greatest = accum.cast(int(exp.raw.max()), exp.fraction)
    if accum.overflow is Overflow.SAT_ZERO and greatest * classes > accum.high:
        raise refuse(layer, f"accum is {accum} and the sum of {classes} exponentials can leave its range: use AP_SAT")
    if int(exp.raw.min()) < 0:
        raise refuse(layer, f"its table of exponentials wraps in {exp_type}: give exp_table more integer bits, or AP_SAT")
