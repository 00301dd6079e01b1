# SPDX-License-Identifier: Apache-2.0
"""The type that describes a kind of layer. Each file of hls/network/layers/ defines a LAYER; registry.py collects these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hypersonic.hls.network.base import Layer, OneInput, TwoInputs
from hypersonic.hls.network.raw import Integers

L = TypeVar("L", bound=OneInput | TwoInputs)

#: (layer of hls4ml's ModelGraph, input tensors..., result) -> the layer, or several in sequence
Reader = Callable[..., Layer | tuple[Layer, ...]]


@dataclass(frozen=True)
class LayerType(Generic[L]):
    """A kind of layer and how it is read, and what it computes.

    Attributes:
        noun: its class.
        evaluate: (layer, the raw numbers of each input, (rows, elements)) -> the raw numbers of y, (rows, ...).
        readers: by hls4ml's class name.
        activations: readers by hls4ml's name of an activation function.
        by_image: both cores compute one image after the other, so that it may be inside a TimeDistributed.
    """

    noun: type[L]
    evaluate: Callable[..., Integers]
    readers: Mapping[str, Reader] = field(default_factory=dict)
    activations: Mapping[str, Reader] = field(default_factory=dict)
    by_image: bool = False
