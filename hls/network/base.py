# SPDX-License-Identifier: Apache-2.0
"""Networks as hls4ml 1.3.0's C++ computes them, bit for bit: tensors, windows, and what the layers have in common.

Every number is an integer `raw` with the value raw * 2**-fraction. A cast to a type is ap_fixed's assignment (FixedPoint.cast):
rounded, then wrapped or saturated, by the modes of that type. The source of each layer, in hls4ml's nnet_utils, is named in its
file (hls/network/layers/). Elements of a tensor are in C order, channels last. A tensor of shape (L, C) is an image one pixel
wide, so that a line buffer holds a few steps instead of the whole sequence.

For Dense and Depthwise the C++ forms each exact product, casts it to accum_t, and adds it to an accumulator of type accum_t by
an assignment (exact sum, cast to accum_t). If accum_t wraps, the order of the sum does not matter and a single wrap at the end
gives the same result. If it saturates, the same holds as long as no partial sum in any order can leave its range;
network/products.py proves that from the weights, or refuses the layer. Padding is zero, and a product with zero is zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from hypersonic.hls.fixed import Constants, FixedPoint


@dataclass(frozen=True)
class Tensor:
    """A value between layers: its name in hls4ml's graph, its shape per row (without the batch), and the type of its
    elements."""

    name: str
    shape: tuple[int, ...]
    precision: FixedPoint

    @property
    def size(self) -> int:
        """Number of elements per row."""
        return prod(self.shape)

    @property
    def channels(self) -> int:
        """Size of the last dimension."""
        return self.shape[-1]

    @property
    def image(self) -> tuple[int, int, int]:
        """The shape as (height, width, channels); (L, C) becomes (L, 1, C) and (N,) becomes (1, 1, N)."""
        if len(self.shape) == 2:
            return self.shape[0], 1, self.shape[1]
        height, width, channels = (1, 1, *self.shape)[-3:]
        return height, width, channels

    @property
    def images(self) -> int:
        """Number of images per row: 1, or the steps of a TimeDistributed, whose tensors have the shape `(steps, *image)`."""
        return prod(self.shape[:-3])


def element_types(tensors: Iterable[Tensor]) -> tuple[FixedPoint, ...]:
    """Return the type of every element of a row, all tensors in order."""
    return tuple(tensor.precision for tensor in tensors for _ in range(tensor.size))


@dataclass(frozen=True)
class Window:
    """The input pixels of each output pixel: (oy, ox) sees rows oy * stride - pad_top + 0..kernel-1, and columns likewise.

    Attributes:
        kernel, stride: (rows, columns).
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad_top: int = 0
    pad_bottom: int = 0
    pad_left: int = 0
    pad_right: int = 0

    @property
    def size(self) -> int:
        """Number of pixels in one window."""
        return self.kernel[0] * self.kernel[1]

    @property
    def is_pixel(self) -> bool:
        """Whether every output pixel depends only on the input pixel at the same position."""
        return self.kernel == (1, 1) and self.stride == (1, 1) and not self.padded

    @property
    def padded(self) -> bool:
        """Whether there is padding on any side."""
        return bool(self.pad_top or self.pad_bottom or self.pad_left or self.pad_right)


class WeightsIn(StrEnum):
    """The memory that holds a layer's weights (docs/rf-core.md)."""

    LUT = "LUT"  # the result of BRAM for few weights
    BRAM = "BRAM"  # filled from a file
    URAM = "URAM"  # has no initial contents; loaded from the card's memory after a reset
    DRAM = "DRAM"  # the card's DDR or HBM, from which they are read for every vector
    LOADED = "LOADED"  # block RAM or look-up tables, loaded from the card's memory after a reset


@dataclass(frozen=True, eq=False)
class OneInput:
    """A layer that computes y from x. Its file in hls/network/layers/ says how."""

    name: str
    x: Tensor
    y: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that the layer reads, in order."""
        return (self.x,)


@dataclass(frozen=True, eq=False)
class TwoInputs:
    """A layer that computes y from a and b."""

    name: str
    a: Tensor
    b: Tensor
    y: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that the layer reads, in order."""
        return (self.a, self.b)


Layer = OneInput | TwoInputs


@dataclass(frozen=True, eq=False)
class Products(OneInput):
    """A layer of sums of products with trained weights.

    Attributes:
        weight: in the shape that the layer defines.
        bias: one per output.
        accum: type of the sums.
        reuse_factor: multiplications of a vector that share a multiplier.
        requested: the user's reuse factor, before hls4ml replaced it by the nearest that it supports.
    """

    weight: Constants
    bias: Constants
    accum: FixedPoint
    reuse_factor: int
    requested: int


@dataclass(frozen=True, eq=False)
class PairProducts(TwoInputs):
    """A layer of sums of products of two tensors. The fields are those of Products."""

    accum: FixedPoint
    reuse_factor: int
    requested: int


#: a layer whose multiplications share multipliers, as its reuse factor says
Multiplying = Products | PairProducts


@dataclass(frozen=True)
class Network:
    """A network whose layers are in an order in which every tensor is computed before it is read.

    Tensors are identified by their names. Raises ValueError if two tensors have the same name.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        names = [tensor.name for tensor in (*self.inputs, *(layer.y for layer in self.layers))]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"network {self.name!r}: the tensors {', '.join(map(repr, twice))} are made twice, expected once")
