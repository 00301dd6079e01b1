# SPDX-License-Identifier: Apache-2.0
"""All layers of the da core. Every file of da/layers/ defines an UNROLL: class -> `(graph, layer, *inputs)` -> its numbers."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable

from hypersonic.hls.da import layers
from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, Numbers
from hypersonic.hls.network.attributes import unsupported
from hypersonic.hls.network.base import Layer
from hypersonic.hls.network.collect import collect

_UNROLL: dict[type, Callable[..., Iterable[Number]]] = {
    noun: unroll
    for family in collect(layers, pkgutil.iter_modules(layers.__path__), "UNROLL", dict).values()
    for noun, unroll in family.items()
}


def unrolled(graph: AdderGraph, layer: Layer, *inputs: Numbers) -> Iterable[Number]:
    """Return the layer's numbers.

    They are returned before the cast to the layer's result type, unless that cast is a part of the layer; casting twice to one
    type changes nothing.

    They may be computed lazily, one by one.

    Args:
        inputs: those of its inputs.

    Raises:
        UnsupportedLayerError: With the layer's name, for arithmetic that adders cannot do exactly.
    """
    if (unroll := _UNROLL.get(type(layer))) is None:
        raise unsupported(layer.name, f"the da core has no {type(layer).__name__}")
    return unroll(graph, layer, *inputs)
