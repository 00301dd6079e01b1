# SPDX-License-Identifier: Apache-2.0
"""Measures how far hls4ml's softmax is off with the types of a layer, by computing it for drawn numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.closeness.difference import NUMBERS, Judged, Kind
from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.fixed import MAX_WIDTH
from hypersonic.hls.frontend.softmax.faults import Tables, reachable, tables_of
from hypersonic.hls.model_graph import MOVES, input_precision
from hypersonic.hls.network.tables import exp_values, inverse_values

_ROWS = 2000

#: numbers of usual size in front of a softmax are within this
USUAL = 8.0

Numbers = NDArray[np.float64]


def probability_errors(layer: Any) -> tuple[float, float]:
    """Return the largest error of a probability found in drawn rows: within +-USUAL, and over all that can reach the layer.

    The rows are the same in every run. A sum is cast once, at its end, and not after each addition.
    """
    tables, x = tables_of(layer), input_precision(layer)
    shape = _ROWS, int(layer.get_input_variable(layer.inputs[0]).shape[-1])
    low, high = reachable(layer)
    rng = np.random.default_rng(0)
    errors = []
    for least, most in ((max(low, -USUAL), min(high, USUAL)), (low, high)):
        drawn = rng.uniform(least, most, shape)
        rows = x.to_float(x.from_float(drawn)) if x.width <= MAX_WIDTH else drawn
        errors.append(float(np.abs(computed(tables, rows) - _softmax(rows)).max()))
    return errors[0], max(errors)


def judged_outputs(graph: Any) -> tuple[Judged, ...]:
    """Return how the answers of each output of a ModelGraph are judged: as numbers, a softmax's probabilities, or classes."""
    made_by = {tensor: layer for layer in graph.get_layers() for tensor in layer.outputs}
    return tuple(_judged(made_by[tensor]) for tensor in graph.outputs)


def _judged(layer: Any) -> Judged:
    while layer.class_name in MOVES or (layer.class_name == "Activation" and layer.get_attr("activation") == "linear"):
        layer = layer.get_input_node(layer.inputs[0])
    if layer.class_name != "Softmax":
        return NUMBERS
    classes = int(layer.get_output_variable().shape[-1])
    if str(layer.get_attr("implementation")).lower() == "argmax":
        return Judged(Kind.CLASSES, classes=classes)
    try:
        return Judged(Kind.PROBABILITIES, probability_errors(layer)[1], classes)
    except UnsupportedLayerError:  # tables that only hls4ml's C++ has
        return Judged(Kind.PROBABILITIES, classes=classes)


def computed(tables: Tables, rows: Numbers) -> Numbers:
    """Return hls4ml's probabilities.

    Args:
        rows: (rows, classes) numbers of the input's type.
    """
    best = rows == rows.max(axis=1, keepdims=True)
    if tables.kind == "argmax":
        return np.asarray(best & (np.cumsum(best, axis=1) == 1), dtype=np.float64)
    stable = tables.kind == "stable"
    exp = exp_values(tables.address, tables.sizes[0], tables.exp, negative=stable)
    inverse = inverse_values(tables.inv_inp, tables.sizes[1], tables.inv)
    at = rows.max(axis=1, keepdims=True) - rows if stable else rows
    address = tables.address.from_float(at) >> (tables.address.width - _bits(tables.sizes[0]))
    table = np.ldexp(exp.raw.astype(np.float64), -exp.fraction)
    e = tables.accum.to_float(tables.accum.from_float(table[address & (tables.sizes[0] - 1)]))
    total = tables.accum.to_float(tables.accum.from_float(e.sum(axis=1, keepdims=True)))
    index = tables.inv_inp.from_float(total) >> (tables.inv_inp.width - _bits(tables.sizes[1]))
    factor = np.ldexp(inverse.raw.astype(np.float64), -inverse.fraction)[index & (tables.sizes[1] - 1)]
    return tables.result.to_float(tables.result.from_float(e * factor))


def _bits(entries: int) -> int:
    return entries.bit_length() - 1


def _softmax(rows: Numbers) -> Numbers:
    e = np.exp(rows - rows.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True), dtype=np.float64)
