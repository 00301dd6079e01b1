# SPDX-License-Identifier: Apache-2.0
"""A trained network after hls4ml's optimisers, as the da core needs it: layers with integer weights and fixed-point types.

The classes describe, bit for bit, what hls4ml's C++ computes (nnet_dense_latency.h, nnet_batchnorm.h, nnet_activation.h,
nnet_merge.h). An arrow is a cast:

    dense          each product -> accum, bias -> accum, sum in accum -> result
    scaling        data * scale + bias, exact -> result     (BatchNormalization, ApplyAlpha)
    activation     relu or identity -> result
    merge          a + b, a - b, mean, maximum or minimum, exact -> result
    concatenation  the elements of two layers -> result
    dot            each product -> accum, sum in accum -> result
    einsum dense   as dense, for vectors of a tensor -> result
    einsum         each sum of products -> accum, after every product -> result
    wiring         elements of a layer in another order, or zeros -> result        (Transpose, Cropping)
    garnet         as nnet_garnet.h, whose sums, means and outputs have types of their own -> result
    unrolled       a layer of the rf core, computed at once (hls/da/unroll.py)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.rf.layers import Layer as RfLayer


@dataclass(frozen=True)
class Source:
    """An input of the network: `size` elements of type `result`."""

    name: str
    size: int
    result: FixedPoint


@dataclass(frozen=True)
class Dense:
    """y = x @ weight + bias. source: the name of the layer that gives x. weight: (n_in, n_out). bias: (n_out,)."""

    name: str
    source: str
    weight: Constants
    bias: Constants
    accum: FixedPoint
    result: FixedPoint


@dataclass(frozen=True)
class Scaling:
    """y = x * scale + bias, elementwise. scale, bias: (n,)."""

    name: str
    source: str
    scale: Constants
    bias: Constants
    result: FixedPoint


@dataclass(frozen=True)
class Activation:
    """y = max(x, 0) if relu, otherwise x."""

    name: str
    source: str
    relu: bool
    result: FixedPoint


class MergeOperation(StrEnum):
    """The operation of a Merge, by hls4ml's name."""

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    AVERAGE = "average"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"


@dataclass(frozen=True)
class Merge:
    """y = operation(a, b), elementwise, for two layers of the same size."""

    name: str
    sources: tuple[str, str]
    operation: MergeOperation
    result: FixedPoint


@dataclass(frozen=True)
class Concatenation:
    """y = both sources, concatenated along an axis.

    runs: the elements of each source that are contiguous in y; runs of the two sources alternate.
    """

    name: str
    sources: tuple[str, str]
    runs: tuple[int, int]
    result: FixedPoint


@dataclass(frozen=True)
class Dot:
    """y = the sum of a[i] * b[i], one number: each product is cast to accum, and so is each sum (nnet_merge.h dot1d)."""

    name: str
    sources: tuple[str, str]
    accum: FixedPoint
    result: FixedPoint


@dataclass(frozen=True, eq=False)
class EinsumDense:
    """y[order] = vectors of x, each times a matrix, plus a bias (nnet_einsum_dense.h); each product is cast to accum.

    places: elements of x (matrices, vectors, n_in). weight: (matrices, n_in, n_out). bias: (matrices, vectors, n_out).
    order: for each element of y, its place among (matrices, vectors, n_out).
    """

    name: str
    source: str
    places: NDArray[np.int64]
    weight: Constants
    bias: Constants
    order: NDArray[np.int64]
    accum: FixedPoint
    result: FixedPoint


@dataclass(frozen=True, eq=False)
class Einsum:
    """y[order] = sums of products of two tensors (nnet_einsum.h); each sum is cast to accum after every product.

    places_a, places_b: elements of the sources (groups, vectors, terms). order: for each element of y, its place among
    (groups, vectors of a, vectors of b).
    """

    name: str
    sources: tuple[str, str]
    places_a: NDArray[np.int64]
    places_b: NDArray[np.int64]
    order: NDArray[np.int64]
    accum: FixedPoint
    result: FixedPoint


@dataclass(frozen=True, eq=False)
class GarNetStep:
    """The constants of a GarNet, or of one of those in a GarNetStack, as hls4ml contracts them.

    distance: (aggregators, features), with its bias (aggregators,). weight: (outputs, aggregators, features), with its bias
    (outputs, aggregators). offset: (outputs,), of type offset_type.
    """

    distance: Constants
    distance_bias: Constants
    weight: Constants
    bias: Constants
    offset: Constants
    offset_type: FixedPoint


@dataclass(frozen=True, eq=False)
class GarNet:
    """GarNets in a row, and the mean of the last one's outputs over all vertices (nnet_garnet.h).

    sources: the features of the vertices, and how many of the vertices there are. blocks: groups of vertices that are summed
    on their own. data, edge, edge_sum, aggregate: the types of the features, the edge weights, their sums and all other sums.
    """

    name: str
    sources: tuple[str, str]
    vertices: int
    blocks: int
    steps: tuple[GarNetStep, ...]
    data: FixedPoint
    edge: FixedPoint
    edge_sum: FixedPoint
    aggregate: FixedPoint
    result: FixedPoint


@dataclass(frozen=True)
class Wiring:
    """y[i] = source[places[i]], or 0 where places[i] is negative."""

    name: str
    source: str
    places: tuple[int, ...]
    result: FixedPoint


@dataclass(frozen=True)
class Unrolled:
    """A layer as the rf core has it (hls/rf/layers.py): the noun in the file of its stage says what it computes.

    sources: the layers that give its inputs, in order.
    """

    name: str
    sources: tuple[str, ...]
    read: RfLayer

    @property
    def result(self) -> FixedPoint:
        """The type of its elements."""
        return self.read.y.precision


Layer = Dense | Scaling | Activation | Merge | Concatenation | Dot | EinsumDense | Einsum | GarNet | Wiring | Unrolled


@dataclass(frozen=True)
class Network:
    """A network. layers: each after those that it reads. outputs: names of layers. inputs, outputs: in the model's order."""

    name: str
    inputs: tuple[Source, ...]
    layers: tuple[Layer, ...]
    outputs: tuple[str, ...]

    @property
    def results(self) -> dict[str, FixedPoint]:
        """The type of the elements of each input and layer, by name."""
        return {node.name: node.result for node in (*self.inputs, *self.layers)}

    @property
    def sizes(self) -> dict[str, int]:
        """The number of elements of each input and layer, by name."""
        sizes: dict[str, int] = {}
        for node in (*self.inputs, *self.layers):
            sizes[node.name] = _size(node, sizes)
        return sizes

    @property
    def input_types(self) -> tuple[FixedPoint, ...]:
        """The type of every element of a row, all inputs in order."""
        return tuple(source.result for source in self.inputs for _ in range(source.size))

    @property
    def output_types(self) -> tuple[FixedPoint, ...]:
        """The type of every element of a result, all outputs in order."""
        results, sizes = self.results, self.sizes
        return tuple(results[name] for name in self.outputs for _ in range(sizes[name]))


def _size(node: Source | Layer, sizes: dict[str, int]) -> int:  # noqa: PLR0911 - one for each layer
    match node:
        case Source(size=size):
            return size
        case Dense(weight=weight):
            return int(weight.raw.shape[1])
        case Concatenation(sources=(a, b)):
            return sizes[a] + sizes[b]
        case Dot():
            return 1
        case EinsumDense(order=order) | Einsum(order=order):
            return len(order)
        case GarNet(steps=steps):
            return len(steps[-1].offset.raw)
        case Wiring(places=places):
            return len(places)
        case Unrolled(read=read):
            return read.y.size
        case Scaling(source=source) | Activation(source=source) | Merge(sources=(source, _)):
            return sizes[source]
