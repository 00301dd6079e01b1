# SPDX-License-Identifier: Apache-2.0
"""Draws LSTM and GRU with the rows as the first dimension (see batch.py) as Keras layers. They start from 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.frontend.onnx.batch import ALL_STEPS
from hypersonic.hls.frontend.onnx.layers import (
    Drawing,
    Value,
    constant,
    layers,
    plain,
    refuse,
    value,
)
from hypersonic.hls.frontend.onnx.nodes import attributes

#: ONNX's gates in Keras' order
_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (0, 1, 2)}
_FUNCTIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"]}


def check_form(node: Any, name: str) -> None:
    """Raise UnsupportedLayerError for an LSTM or GRU with an option, or in a form, that is not supported."""
    for why, remedy in _faults(attributes(node), node.op_type):
        raise refuse(name, f"{node.op_type} {why}", remedy)


def recurrent(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw a node of rows_first (batch.py), which check_form does not refuse, as Keras' LSTM or GRU."""
    options, kind = attributes(node), node.op_type
    if any(i < len(node.input) and node.input[i] in drawing.values for i in range(1, 8)):
        raise refuse(name, f"{kind} whose weights or first state are computed", "expected constants")
    states = [constant(drawing, node, i, "first state", name) for i in (5, 6)]
    if any(state is not None and state.any() for state in states):
        raise refuse(name, f"{kind} with a first state other than 0", "start from 0")
    weight, again = constant(drawing, node, 1, "W", name), constant(drawing, node, 2, "R", name)
    if weight is None or again is None:
        raise refuse(name, f"{kind} without weights", "expected them in the file")
    given = constant(drawing, node, 3, "bias", name)
    units = again.shape[-1]
    every = {"return_sequences": True} if options[ALL_STEPS] else {}
    both = len(weight) == 2
    layer = getattr(layers(), kind)(units, name=f"{name}_forward" if both else name, **every)
    layer = layers().Bidirectional(layer, name=name) if both else layer
    x = plain(value(drawing, node), f"{name}_before")
    parts = zip(weight, again, [None] * len(weight) if given is None else given, strict=True)
    drawing.weights[name] = [numbers for part in parts for numbers in _weights(kind, *part)]
    return Value(layer(x.tensor))


def _weights(kind: str, weight: NDArray[Any], again: NDArray[Any], given: NDArray[Any] | None) -> list[NDArray[Any]]:
    """The weights of one direction as Keras has them."""
    units, gates = again.shape[-1], _GATES[kind]
    both = np.zeros((2, len(gates), units)) if given is None else given.reshape(2, len(gates), units)
    both = both[:, gates]
    bias = both.sum(axis=0).reshape(-1) if kind == "LSTM" else both.reshape(2, -1)
    return [*(_by_gates(part, gates, units) for part in (weight, again)), bias]


def _by_gates(weight: NDArray[Any], gates: Sequence[int], units: int) -> NDArray[Any]:
    """ONNX's (gates * units, inputs) as Keras' (inputs, gates * units)."""
    parts = weight.reshape(len(gates), units, -1)[list(gates)]
    return np.asarray(parts.reshape(len(gates) * units, -1).T)


def _faults(options: Mapping[str, Any], kind: str) -> list[tuple[str, str]]:
    directions = 2 if options.get("direction") == "bidirectional" else 1
    functions = [
        f.decode() if isinstance(f, bytes) else str(f) for f in options.get("activations", _FUNCTIONS[kind] * directions)
    ]
    found = []
    if options.get("direction", "forward") not in ("forward", "bidirectional"):
        found.append((f"with the direction {options['direction']}", "expected forward or bidirectional"))
    elif ALL_STEPS not in options:
        remedy = (
            "write it as torch.nn.LSTM(..., batch_first=True) or GRU, and read its output, or its last state without the layers"
        )
        found.append(("whose steps are not the second dimension of its input, or whose results are read otherwise", remedy))
    if functions != _FUNCTIONS[kind] * directions:
        expected = ", ".join(_FUNCTIONS[kind] * directions)
        found.append((f"with the activations {', '.join(functions)}", f"expected {expected}"))
    if kind == "GRU" and not options.get("linear_before_reset", 0):
        found.append(("with linear_before_reset 0, which hls4ml's C++ ignores", "expected 1, as torch writes it"))
    if options.get("clip") or options.get("input_forget") or options.get("layout"):
        found.append(("with clip, input_forget or layout", "expected none of them"))
    return found
