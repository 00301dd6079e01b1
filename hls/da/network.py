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

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import MAX_WIDTH, FixedPoint, Overflow, PrecisionError, Rounding
from hypersonic.hls.project import ConversionError

#: what is left to do with a layer that no core computes
INSTEAD = "a build with --target sw_emu runs the model's own C++"


class UnsupportedLayerError(ConversionError):
    """A layer that this project does not compute exactly: which layer, what it asks for, what to do instead."""


@dataclass(frozen=True)
class Precision:
    """An ap_fixed type of any width, as between layers; the number is raw * 2**-fraction."""

    width: int
    fraction: int
    signed: bool = True
    rounding: Rounding = Rounding.TRN
    overflow: Overflow = Overflow.WRAP

    @property
    def low(self) -> int:
        """The least raw value."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        """The greatest raw value."""
        return (1 << (self.width - self.signed)) - 1

    @property
    def fixed(self) -> FixedPoint:
        """The same as a FixedPoint. Raises PrecisionError for more than 62 bits."""
        return FixedPoint(self.width, self.width - self.fraction, self.signed, self.rounding, self.overflow)

    def __str__(self) -> str:
        kind = "ap_fixed" if self.signed else "ap_ufixed"
        return f"{kind}<{self.width},{self.width - self.fraction},{self.rounding},{self.overflow}>"

    def cast(self, value: int, fraction: int) -> int:
        """The raw value of value * 2**-fraction in this type, exactly as ap_fixed assigns it."""
        return self.confine(shift_right(value, fraction - self.fraction, self.rounding))

    def confine(self, raw: int) -> int:
        """A raw value of any size brought into this type's range by its overflow mode."""
        if self.overflow is not Overflow.WRAP:
            return self._saturate(raw)
        low_bits = raw & ((1 << self.width) - 1)
        return low_bits - (1 << self.width) if low_bits > self.high else low_bits

    def _saturate(self, raw: int) -> int:
        if self.overflow is Overflow.SAT_ZERO:
            return raw if self.low <= raw <= self.high else 0
        low = -self.high if self.signed and self.overflow is Overflow.SAT_SYM else self.low
        return min(max(raw, low), self.high)


def shift_right(value: int, bits: int, rounding: Rounding) -> int:
    """value * 2**-bits as an integer, by the rounding mode; a negative number of bits shifts left, exactly."""
    if bits <= 0:
        return value << -bits
    half = 1 << (bits - 1)
    added = {
        Rounding.TRN: 0,
        Rounding.RND: half,
        Rounding.RND_CONV: half - 1 + ((value >> bits) & 1),
        Rounding.TRN_ZERO: (2 * half - 1) * (value < 0),
        Rounding.RND_ZERO: half - (value >= 0),
        Rounding.RND_INF: half - (value < 0),
        Rounding.RND_MIN_INF: half - 1,
    }
    return (value + added[rounding]) >> bits


@dataclass(frozen=True, eq=False)
class Constants:
    """Trained numbers as the C++ holds them: raw (any shape) int64, each worth raw * 2**-fraction."""

    raw: NDArray[np.int64]
    fraction: int


@dataclass(frozen=True)
class Source:
    """An input of the network: `size` elements of one type."""

    name: str
    size: int
    result: Precision


@dataclass(frozen=True)
class Dense:
    """y = x @ weight + bias. source: the layer x comes from. weight: (n_in, n_out). bias: (n_out,)."""

    name: str
    source: str
    weight: Constants
    bias: Constants
    accum: Precision
    result: Precision


@dataclass(frozen=True)
class Scaling:
    """y = x * scale + bias, element by element; both (n,)."""

    name: str
    source: str
    scale: Constants
    bias: Constants
    result: Precision


@dataclass(frozen=True)
class Activation:
    """y = max(x, 0) when relu, else x."""

    name: str
    source: str
    relu: bool
    result: Precision


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
    result: Precision


@dataclass(frozen=True)
class Concatenation:
    """y = both sources side by side along an axis: of each, in turn, so many elements (runs) as the axis takes."""

    name: str
    sources: tuple[str, str]
    runs: tuple[int, int]
    result: Precision


Layer = Dense | Scaling | Activation | Merge | Concatenation


@dataclass(frozen=True)
class Network:
    """Layers after the layers they read. outputs: names of layers. Both sides in the model's order."""

    name: str
    inputs: tuple[Source, ...]
    layers: tuple[Layer, ...]
    outputs: tuple[str, ...]

    @property
    def results(self) -> dict[str, Precision]:
        """The type of every element of each input and layer, by name."""
        return {node.name: node.result for node in (*self.inputs, *self.layers)}

    @property
    def sizes(self) -> dict[str, int]:
        """How many elements each input and layer has, by name."""
        found: dict[str, int] = {}
        for node in (*self.inputs, *self.layers):
            found[node.name] = _size(node, found)
        return found

    @property
    def input_types(self) -> tuple[Precision, ...]:
        """The type of every element of a row: all inputs, one behind another."""
        return tuple(source.result for source in self.inputs for _ in range(source.size))

    @property
    def output_types(self) -> tuple[Precision, ...]:
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


def edge(precision: Precision, what: str) -> FixedPoint:
    """The FixedPoint of an input or output; what: "the input 'x'". Raises UnsupportedLayerError when it is wider than a raw
    value."""
    try:
        return precision.fixed
    except PrecisionError as error:
        raise UnsupportedLayerError(
            f"{what} is {precision}, {precision.width} bits, expected up to {MAX_WIDTH}, which a row carries; give it fewer: "
            f"{what.split()[1]}.precision in the model's YAML, or Precision.result of its layer in hls4ml's configuration"
        ) from error
