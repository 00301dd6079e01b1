# SPDX-License-Identifier: Apache-2.0
"""Reads hls4ml's ModelGraph as a network that the rf core computes: layers without a stage are replaced by others, and zero
padding is folded into the windows behind it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from hypersonic.hls.fixed import Constants
from hypersonic.hls.network.attributes import unsupported
from hypersonic.hls.network.base import Layer, Network, Tensor
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.depthwise import Depthwise
from hypersonic.hls.network.layers.dot import Dot
from hypersonic.hls.network.layers.garnet import GarNet
from hypersonic.hls.network.layers.merge import Merge, MergeOperation
from hypersonic.hls.network.layers.zero_pad import ZeroPad
from hypersonic.hls.network.read import distinct, read_network
from hypersonic.hls.rf.registry import layer_plan


def read_rf_network(model: Any) -> Network:
    """Return the network of a ModelGraph. Raises UnsupportedLayerError, which names the layer."""
    return for_rf(read_network(model))


def for_rf(network: Network) -> Network:
    """Return a network as the rf core computes it. Raises UnsupportedLayerError for a layer that it cannot compute exactly."""
    taken = {tensor.name for tensor in (*network.inputs, *(layer.y for layer in network.layers))}
    layers = tuple(each for layer in network.layers for each in distinct(tuple(_steps(layer)), taken))
    for layer in layers:
        layer_plan(layer).check(layer)
    return replace(network, layers=fold_padding(layers, network.outputs))


def _steps(layer: Layer) -> Iterator[Layer]:
    """Yield the layers that compute a layer in the rf core."""
    match layer:
        case GarNet():
            raise unsupported(
                layer.name,
                "it sums distances in ap_fixed<12,4>, which saturates after each product, and the multipliers sum in another "
                "order; take the da core",
            )
        case Dot():
            products = Tensor(f"{layer.name}_products", layer.a.shape, layer.accum)
            ones, zero = Constants(np.ones((layer.a.size, 1), np.int64), 0), Constants(np.zeros(1, np.int64), 0)
            yield Merge(layer.name, layer.a, layer.b, products, MergeOperation.MULTIPLY)
            yield Dense(layer.name, products, layer.y, ones, zero, layer.accum, layer.reuse_factor, layer.requested)
        case _:
            yield layer


def fold_padding(layers: tuple[Layer, ...], outputs: tuple[Tensor, ...]) -> tuple[Layer, ...]:
    """Return the layers with zero padding that only one convolution reads folded into the padding of its window.

    That saves a stage, and the line buffer is smaller.
    """
    readers = [tensor.name for layer in layers for tensor in layer.inputs] + [tensor.name for tensor in outputs]
    pads = {layer.y.name: layer for layer in layers if isinstance(layer, ZeroPad) and readers.count(layer.y.name) == 1}
    folded_layers: list[Layer] = []
    for layer in layers:
        pad = pads.get(layer.x.name) if isinstance(layer, Dense | Depthwise) and layer.window else None
        folded = _folded(layer, pad) if pad and isinstance(layer, Dense | Depthwise) else None
        folded_layers += [layer] if folded is None else [folded]
        if pad and folded is not None:
            folded_layers.remove(pad)
    return tuple(folded_layers)


def _folded(layer: Dense | Depthwise, pad: ZeroPad) -> Layer | None:
    """Return the layer with the input of the pad and its padding; None if rf_window cannot pad so or the pad casts."""
    seen, (top, bottom, left, right) = layer.window, pad.pad
    if seen is None or seen.padded or top >= seen.kernel[0] or left >= seen.kernel[1] or pad.x.precision != pad.y.precision:
        return None
    return replace(layer, x=pad.x, window=replace(seen, pad_top=top, pad_bottom=bottom, pad_left=left, pad_right=right))
