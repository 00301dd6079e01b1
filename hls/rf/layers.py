# SPDX-License-Identifier: Apache-2.0
"""Networks as the rf core computes them, bit for bit as hls4ml 1.3.0's C++ does: tensors, windows, layers.

Every number is an integer `raw` worth raw * 2**-fraction. A cast into a type is ap_fixed's assignment (Precision.cast): rounded
by the type's own mode, then wrapped or saturated by its own. Sources: hls4ml's nnet_utils, named at each layer in its stage's
file (hls/rf/stages/). The order of tensors' elements is C order, channels last; a tensor of shape (L, C) is an image one pixel
wide: a line buffer then holds a few steps, not the whole sequence.

In all products of Dense and Depthwise the C++ forms the exact product, casts it to accum_t, and adds it to an accum_t by an
assignment (exact sum, cast to accum_t). Where accum_t wraps, the order of the sum does not matter and one wrap at the end is
the same. Where it saturates, the same holds as long as no partial sum in any order can leave its range; rf/parts/products.py
proves that from the weights, or refuses. Padding is zero, and a product with zero is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from hypersonic.hls.fixed import Constants, FixedPoint


@dataclass(frozen=True)
class Tensor:
    """A value between layers: its name in hls4ml's graph, its shape per row, and the type of every element."""

    name: str
    shape: tuple[int, ...]
    precision: FixedPoint

    @property
    def size(self) -> int:
        """Elements in one row."""
        return prod(self.shape)

    @property
    def channels(self) -> int:
        """The last dimension."""
        return self.shape[-1]

    @property
    def image(self) -> tuple[int, int, int]:
        """(height, width, channels); (L, C) is (L, 1, C), (N,) is (1, 1, N)."""
        if len(self.shape) == 2:
            return self.shape[0], 1, self.shape[1]
        height, width, channels = (1, 1, *self.shape)[-3:]
        return height, width, channels


@dataclass(frozen=True)
class Window:
    """Where a layer looks: output pixel (oy, ox) sees input rows oy * stride - pad_top + 0..kernel-1, columns alike."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad_top: int = 0
    pad_bottom: int = 0
    pad_left: int = 0
    pad_right: int = 0

    @property
    def size(self) -> int:
        """Pixels in one window."""
        return self.kernel[0] * self.kernel[1]

    @property
    def is_pixel(self) -> bool:
        """Whether every output pixel is the input pixel at the same place."""
        return self.kernel == (1, 1) and self.stride == (1, 1) and not self.padded

    @property
    def padded(self) -> bool:
        return bool(self.pad_top or self.pad_bottom or self.pad_left or self.pad_right)


class WeightsIn(StrEnum):
    """Where a layer's weights are."""

    LUT = "LUT"  # what becomes of BRAM where they are few
    BRAM = "BRAM"  # filled from a file
    URAM = "URAM"  # which has no initial contents: loaded from the card's memory after a reset
    DRAM = "DRAM"  # the card's DDR or HBM, from which they come for every vector


@dataclass(frozen=True, eq=False)
class OneInput:
    """A layer that makes y of x. What each computes stands in its stage's file, hls/rf/stages/."""

    name: str
    x: Tensor
    y: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that it reads, in order."""
        return (self.x,)


@dataclass(frozen=True, eq=False)
class TwoInputs:
    """A layer that makes y of a and b."""

    name: str
    a: Tensor
    b: Tensor
    y: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that it reads, in order."""
        return (self.a, self.b)


Layer = OneInput | TwoInputs


@dataclass(frozen=True, eq=False)
class Products(OneInput):
    """A layer of sums of products with trained weights.

    weight: as the layer has it. bias: an output each. accum: the type of the sums. reuse_factor: multiplications of a vector
    that share a multiplier; requested: the user's figure, before hls4ml took the nearest it can do.
    """

    weight: Constants
    bias: Constants
    accum: FixedPoint
    reuse_factor: int
    requested: int


@dataclass(frozen=True)
class RfNetwork:
    """Layers in an order in which every input is there before it is read; tensors are known by their names.

    Raises ValueError where two of them have one name.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        names = [tensor.name for tensor in (*self.inputs, *(layer.y for layer in self.layers))]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"network {self.name!r}: the tensors {', '.join(map(repr, twice))} are made twice, expected once")
