# SPDX-License-Identifier: Apache-2.0
"""Softmax over the last dimension."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from hypersonic.hls.fixed import Constants, FixedPoint, Overflow
from hypersonic.hls.network.attributes import NONE, fixed, precision, refuse
from hypersonic.hls.network.base import OneInput, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.raw import Integers, cast, confine
from hypersonic.hls.network.tables import exp_values, inverse_values


class SoftmaxKind(StrEnum):
    """hls4ml's names of its implementations."""

    STABLE = "stable"
    LATENCY = "latency"
    ARGMAX = "argmax"


@dataclass(frozen=True, eq=False)
class Softmax(OneInput):
    """Softmax over the last dimension; softmax_stable, softmax_latency and softmax_argmax of nnet_activation.h.

    stable: d = max(x) - x, cast to `normalised`; e = accum(exp_table[top bits of d]). latency: e = accum(exp_table[top bits of
    x]). For both, the sum of e is cast to accum at every step of a balanced tree, then to `inverse_input`, and y = result(e *
    inv_table[top bits of the sum]). argmax: 1 at the first maximum, 0 elsewhere.

    Attributes:
        exp_table, inv_table: raw integers of their own types.
    """

    kind: SoftmaxKind
    normalised: FixedPoint
    accum: FixedPoint
    inverse_input: FixedPoint
    exp_table: Constants
    inv_table: Constants


# ---------------------------------------------------------------- in hls4ml's graph
def _read(layer: Any, x: Tensor, y: Tensor) -> Softmax:
    """Read hls4ml's Softmax over the last dimension, with the tables' types and sizes that its template gives."""
    kind = _kind(layer, x)
    if kind is SoftmaxKind.ARGMAX:
        one = FixedPoint.with_fraction(1, 0, False)
        return Softmax(layer.name, x, y, kind, one, one, one, NONE, NONE)
    size = int(layer.get_attr("table_size") or 1024)
    exp_size, inv_size = (int(layer.get_attr(f"{name}_table_size") or size) for name in ("exp", "inv"))
    exp_type, inv_type, accum = (precision(layer, name) for name in ("exp_table_t", "inv_table_t", "accum_t"))
    inverse = exp_type if layer.get_attr("inv_inp_t").name == "model_default_t" else precision(layer, "inv_inp_t")
    for what, table in (("exp_table_t", exp_type), ("inv_table_t", inv_type)):
        fixed(layer, table, what)
    normalised, exp_size = _normalised(layer, x.precision, kind, (exp_size, inv_size))
    for what, entries, width in (("exp", exp_size, normalised.width), ("inv", inv_size, inverse.width)):
        if entries & (entries - 1) or entries > 1 << width:
            raise refuse(layer, f"its {what} table has {entries} entries, expected a power of two up to {1 << width}")
    scale = float(layer.get_attr("exp_scale", 1.0) or 1.0)
    exp = exp_values(normalised, exp_size, exp_type, negative=kind is SoftmaxKind.STABLE, scale=scale)
    _check_exponentials(layer, exp, exp_type, accum, x.channels)
    return Softmax(layer.name, x, y, kind, normalised, accum, inverse, exp, inverse_values(inverse, inv_size, inv_type))


def _kind(layer: Any, x: Tensor) -> SoftmaxKind:
    """Return the implementation. Raises UnsupportedLayerError for options that rf_softmax lacks or that do not compile."""
    kind = str(layer.get_attr("implementation")).lower()
    if kind not in tuple(SoftmaxKind):
        raise refuse(layer, f"implementation is {kind}, expected {', '.join(SoftmaxKind)}")
    if int(layer.get_attr("n_inner", 1) or 1) != 1 or str(layer.get_attr("axis", -1)) not in ("-1", str(len(x.shape))):
        raise refuse(layer, f"axis is {layer.get_attr('axis')}, expected the last one")
    if str(layer.get_attr("activation")) != "softmax":
        raise refuse(layer, "hls4ml 1.3.0 writes C++ for a Softmax layer that does not compile; use Activation('softmax')")
    return SoftmaxKind(kind)


def _normalised(layer: Any, x: FixedPoint, kind: SoftmaxKind, sizes: tuple[int, int]) -> tuple[FixedPoint, int]:
    """Return the type that addresses the table of exponentials, and the table's size.

    Args:
        sizes: of both tables.
    """
    if kind is SoftmaxKind.LATENCY:
        return x, sizes[0]
    if layer.get_attr("inp_norm_t") is not None:
        return precision(layer, "inp_norm_t"), sizes[0]
    width = x.width - x.signed
    return FixedPoint.with_fraction(width, x.fraction, signed=False), min(sizes[1], 1 << width) if x.signed else sizes[0]


def _check_exponentials(layer: Any, exp: Constants, exp_type: FixedPoint, accum: FixedPoint, classes: int) -> None:
    """Raise UnsupportedLayerError if the result depends on the order of the sum."""
    if accum.overflow is Overflow.WRAP:
        return
    greatest = accum.cast(int(exp.raw.max()), exp.fraction)
    if accum.overflow is Overflow.SAT_ZERO and greatest * classes > accum.max_raw:
        raise refuse(layer, f"accum is {accum} and the sum of {classes} exponentials can leave its range: use AP_SAT")
    if int(exp.raw.min()) < 0:
        raise refuse(layer, f"its table of exponentials wraps in {exp_type}: give exp_table more integer bits, or AP_SAT")


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Softmax, x: Integers) -> Integers:
    rows, to = x.reshape(-1, layer.x.channels), layer.y.precision
    if layer.kind is SoftmaxKind.ARGMAX:
        y = np.full(rows.shape, to.cast(0, 0), dtype=object)
        y[np.arange(len(rows)), rows.argmax(axis=1)] = to.cast(1, 0)
        return y
    address, kind = rows, layer.x.precision
    if layer.kind is SoftmaxKind.STABLE:
        address, kind = cast(rows.max(axis=1, keepdims=True) - rows, kind.fraction, layer.normalised), layer.normalised
    powers = cast(_entries(layer.exp_table, address, kind), layer.exp_table.fraction, layer.accum)
    total = cast(confine(powers.sum(axis=1), layer.accum), layer.accum.fraction, layer.inverse_input)
    inverse = _entries(layer.inv_table, total, layer.inverse_input)[:, None]
    return cast(powers * inverse, layer.accum.fraction + layer.inv_table.fraction, to)


def _entries(table: Constants, values: Integers, kind: FixedPoint) -> Integers:
    """Return the entries of a table that the top bits of numbers of a type address."""
    bits = (values % (1 << kind.width)).astype(np.int64)
    entries: Integers = table.raw.astype(object)[bits >> (kind.width - (len(table.raw).bit_length() - 1))]
    return entries


LAYER = LayerType(Softmax, _evaluate, readers={"Softmax": _read}, by_image=True)
