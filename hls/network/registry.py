# SPDX-License-Identifier: Apache-2.0
"""All layers, found by class and by hls4ml's names. Every file of network/layers/ defines a LAYER."""

from __future__ import annotations

import pkgutil
from typing import Any

from hypersonic.hls.network import layers
from hypersonic.hls.network.base import Layer, TwoInputs
from hypersonic.hls.network.collect import collect
from hypersonic.hls.network.layer_type import LayerType, Reader

_LAYERS = tuple(collect(layers, pkgutil.iter_modules(layers.__path__), "LAYER", LayerType).values())

#: hls4ml's class name of a layer -> its reader; activations are not included
READERS: dict[str, Reader] = {name: reader for layer in _LAYERS for name, reader in layer.readers.items()}
#: hls4ml's class names of layers with two inputs
JOINS = frozenset(name for layer in _LAYERS if issubclass(layer.noun, TwoInputs) for name in layer.readers)
#: hls4ml's name of an activation function -> its reader
ACTIVATIONS: dict[str, Reader] = {name: reader for layer in _LAYERS for name, reader in layer.activations.items()}
#: hls4ml's class names of layers whose attribute `activation` is the name of such a function
ACTIVATION_CLASSES = ("Activation", "ParametrizedActivation", "HardActivation", "PReLU")

_BY_CLASS: dict[type, LayerType[Any]] = {layer.noun: layer for layer in _LAYERS}


def layer_of(layer: Layer) -> LayerType[Any]:
    """Return the LayerType of a layer, by its class."""
    return _BY_CLASS[type(layer)]
