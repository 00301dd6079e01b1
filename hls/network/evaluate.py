# SPDX-License-Identifier: Apache-2.0
"""Computes a network in exact Python integers: slow and simple, the engine with which csim and the RTL are compared."""

from __future__ import annotations

import numpy as np

from hypersonic.hls.network.base import Network
from hypersonic.hls.network.raw import Integers
from hypersonic.hls.network.registry import layer_of


def evaluate(network: Network, x: Integers) -> Integers:
    """Return the raw outputs of raw inputs.

    The result is (rows, elements of all outputs), of Python's integers.

    Args:
        x: (rows, elements of all inputs, in order).
    """
    tensors: dict[str, Integers] = {}
    at = 0
    for tensor in network.inputs:
        tensors[tensor.name] = x[:, at : at + tensor.size].astype(object)
        at += tensor.size
    for layer in network.layers:
        inputs = [tensors[tensor.name] for tensor in layer.inputs]
        tensors[layer.y.name] = layer_of(layer).evaluate(layer, *inputs).reshape(len(x), -1)
    return np.concatenate([tensors[tensor.name] for tensor in network.outputs], axis=1)
