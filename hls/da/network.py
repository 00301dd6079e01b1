# SPDX-License-Identifier: Apache-2.0
"""A trained network after hls4ml's optimisers: layers of integers, and what is rounded where.

These nouns hold what hls4ml's C++ computes (nnet_dense_latency.h, nnet_batchnorm.h, nnet_activation.h, nnet_merge.h), bit
for bit:

    dense          product -> accum (each one), bias -> accum, sum in accum, -> result
    scaling        data * scale + bias exactly, -> result     (BatchNormalization, ApplyAlpha)
    activation     relu or nothing, -> result
    merge          a + b, a - b, their mean, the greater or the lesser exactly, -> result
    concatenation  elements of two layers side by side, -> result
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hypersonic.hls.fixed import Constants, FixedPoint


@dataclass(frozen=True)
class Source:
    """An input of the network: `size` elements of one type."""

    name: str
    size: int
    result: FixedPoint


@dataclass(frozen=True)
class Dense:
    """y = x @ weight + bias. source: the layer x comes from. weight: (n_in, n_out). bias: (n_out,)."""

    name: str
    source: str
    weight: Constants
    bias: Constants
    accum: FixedPoint
    result: FixedPoint


@dataclass(frozen=True)
class Scaling:
    """y = x * scale + bias, element by element; both (n,)."""

    name: str
    source: str
    scale: Constants
    bias: Constants
    result: FixedPoint


@dataclass(frozen=True)
class Activation:
    """y = max(x, 0) when relu, else x."""

    name: str
    source: str
    relu: bool
    result: FixedPoint


class MergeOperation(StrEnum):
    """What a Merge does, by hls4ml's word."""

    ADD = "add"
    SUBTRACT = "subtract"
    AVERAGE = "average"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"


@dataclass(frozen=True)
class Merge:
    """y = operation(a, b), element by element; both of one size."""

    name: str
    sources: tuple[str, str]
    operation: MergeOperation
    result: FixedPoint


@dataclass(frozen=True)
class Concatenation:
    """y = both sources side by side along an axis: of each, in turn, so many elements (runs) as the axis takes."""

    name: str
    sources: tuple[str, str]
    runs: tuple[int, int]
    result: FixedPoint


Layer = Dense | Scaling | Activation | Merge | Concatenation


@dataclass(frozen=True)
class Network:
    """Layers after the layers they read. outputs: names of layers. Both sides in the model's order."""

    name: str
    inputs: tuple[Source, ...]
    layers: tuple[Layer, ...]
    outputs: tuple[str, ...]

    @property
    def results(self) -> dict[str, FixedPoint]:
        """The type of every element of each input and layer, by name."""
        return {node.name: node.result for node in (*self.inputs, *self.layers)}

    @property
    def sizes(self) -> dict[str, int]:
        """How many elements each input and layer has, by name."""
        sizes: dict[str, int] = {}
        for node in (*self.inputs, *self.layers):
            sizes[node.name] = _size(node, sizes)
        return sizes

    @property
    def input_types(self) -> tuple[FixedPoint, ...]:
        """The type of every element of a row: all inputs, one behind another."""
        return tuple(source.result for source in self.inputs for _ in range(source.size))

    @property
    def output_types(self) -> tuple[FixedPoint, ...]:
        """The type of every element of a result: all outputs, one behind another."""
        results, sizes = self.results, self.sizes
        return tuple(results[name] for name in self.outputs for _ in range(sizes[name]))


def _size(node: Source | Layer, sizes: dict[str, int]) -> int:
    match node:
        case Source(size=size):
            return size
        case Dense(weight=weight):
            return int(weight.raw.shape[1])
        case Concatenation(sources=(a, b)):
            return sizes[a] + sizes[b]
        case Scaling(source=source) | Activation(source=source) | Merge(sources=(source, _)):
            return sizes[source]
