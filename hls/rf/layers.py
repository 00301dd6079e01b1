# SPDX-License-Identifier: Apache-2.0
"""What each layer of an rf core computes and in which types, bit for bit as hls4ml 1.3.0's C++ does.

Every number is an integer `raw` worth raw * 2**-fraction. A cast into a type is ap_fixed's assignment (Precision.cast): rounded
by the type's own mode, then wrapped or saturated by its own. Sources: hls4ml's nnet_utils, named at each layer. The order of
tensors' elements is C order, channels last; a tensor of shape (L, C) is an image one pixel wide: a line buffer then holds a few
steps, not the whole sequence.

In all of the products below the C++ forms the exact product, casts it to accum_t, and adds it to an accum_t by an assignment
(exact sum, cast to accum_t). Where accum_t wraps, the order of the sum does not matter and one wrap at the end is the same.
Where it saturates, the same holds as long as no partial sum in any order can leave its range; graph.py proves that from the
weights, or refuses. Padding is zero, and a product with zero is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from hypersonic.hls.fixed import Constants, Precision


@dataclass(frozen=True)
class Tensor:
    """A value between layers: its name in hls4ml's graph, its shape per row, and the type of every element."""

    name: str
    shape: tuple[int, ...]
    precision: Precision

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
class Dense:
    """Each vector of n_in numbers becomes n_out:  y[j] = result(accum(bias[j]) + sum_i accum(x[i] * weight[i][j])).

    nnet_dense_latency.h, nnet_dense_resource.h (all three forms; hls4ml transposes the weights for Strategy Resource, graph.py
    transposes them back), nnet_conv1d/2d_latency.h, _resource.h, _stream.h and pointwise_conv: a convolution is this on each
    window, the vector's elements in the order (kernel row, kernel column, channel). The last dimension of x is n_in where there
    is no window, so a Dense on (L, C) is one on each of L vectors.

    weight: (n_in, n_out). bias: (n_out,). reuse_factor: multiplications of a vector that share a multiplier; requested: the
    user's figure, before hls4ml took the nearest it can do.
    """

    name: str
    x: Tensor
    y: Tensor
    weight: Constants
    bias: Constants
    accum: Precision
    reuse_factor: int
    requested: int
    window: Window | None = None
    weights_in: WeightsIn = WeightsIn.BRAM

    @property
    def n_in(self) -> int:
        return int(self.weight.raw.shape[0])

    @property
    def n_out(self) -> int:
        return int(self.weight.raw.shape[1])

    @property
    def vectors(self) -> int:
        """Vectors in one row."""
        return self.y.size // self.n_out


@dataclass(frozen=True, eq=False)
class Depthwise:
    """Each channel c by itself:  y[p][c] = result(accum(bias[c]) + sum_k accum(x[window p, k][c] * weight[k][c])).

    nnet_sepconv2d_latency.h, nnet_depthwise_product.h (depth multiplier 1). hls4ml splits a SeparableConv into this and a 1x1
    convolution. weight: (kernel pixels, channels), kernel pixels in the order (row, column). bias: (channels,).
    """

    name: str
    x: Tensor
    y: Tensor
    weight: Constants
    bias: Constants
    accum: Precision
    reuse_factor: int
    requested: int
    window: Window


class PoolOperation(StrEnum):
    MAX = "max"
    AVERAGE = "average"


@dataclass(frozen=True)
class Pool:
    """Each window of each channel becomes one number.

    nnet_pooling.h: max is the greatest x, cast to accum, then to result; a padded place holds the bit pattern 10...0, the least
    number of a signed type (and 2**(width-1) of an unsigned one, as the C++ has it). average: sum in accum by assignments,
    divided by the pixels of the window inside the image (all of them when count_pad) towards zero, in accum; then to result.
    nnet_pooling_stream.h (io_stream; no padding): every x is cast to accum first, then the same.
    """

    name: str
    x: Tensor
    y: Tensor
    operation: PoolOperation
    window: Window
    accum: Precision
    count_pad: bool = False


@dataclass(frozen=True)
class GlobalPool:
    """Each channel becomes one number over all pixels: Pool with the whole image as its window."""

    name: str
    x: Tensor
    y: Tensor
    operation: PoolOperation
    accum: Precision


class MapFunction(StrEnum):
    """Element by element; the comments are y before the cast to result, all exact."""

    LINEAR = "linear"  # x
    RELU = "relu"  # x where x > 0, else 0
    LEAKY = "leaky"  # x where x > 0, else scale * x  (LeakyReLU one alpha, PReLU one for each element)
    AFFINE = "affine"  # scale * x + bias  (BatchNormalization, ApplyAlpha)
    CAP = "cap"  # x where 0 <= x <= bias, 0 below, bias above  (relu6, relu1)
    THRESHOLD = "threshold"  # x where x > bias, else 0
    HARD_SIGMOID = "hard_sigmoid"  # min(max(scale * x + bias, 0), 1)
    HARD_TANH = "hard_tanh"  # 2 * hard_sigmoid - 1


@dataclass(frozen=True, eq=False)
class Map:
    """y[i] = result(f(x[i])); nnet_activation.h, nnet_batchnorm.h.

    scale, bias: one number, one for each channel, or one for each element of a row; empty arrays where f has none.
    """

    name: str
    x: Tensor
    y: Tensor
    function: MapFunction
    scale: Constants
    bias: Constants


@dataclass(frozen=True, eq=False)
class Table:
    """A curve by a table of `size` entries over span = 2**span_log2 units of x; nnet_activation.h, rf/parts/tables.py.

    sigmoid, tanh, softplus, softsign: y = values[min(max(int(x * size / span) + size / 2, 0), size - 1)], int() towards zero.
    elu, selu (negative_only): y = result(scale * x) where x >= 0, else values[min(int(-x * size / span), size - 1)].
    values: (size,) raw integers of y's type, the table's own type already passed through. scale: one number.
    """

    name: str
    x: Tensor
    y: Tensor
    values: Constants
    span_log2: int
    negative_only: bool
    scale: Constants


class SoftmaxKind(StrEnum):
    STABLE = "stable"
    LATENCY = "latency"
    ARGMAX = "argmax"


@dataclass(frozen=True, eq=False)
class Softmax:
    """Over the last dimension; nnet_activation.h softmax_stable, softmax_latency, softmax_argmax.

    stable: d = max(x) - x cast to `normalised`; e = accum(exp_table[top bits of d]); latency: e = accum(exp_table[top bits of
    x]). sum: of e, cast to accum at every step of the balanced tree, then to `inverse_input`; y = result(e * inv_table[top bits
    of the sum]). argmax: 1 at the first greatest, else 0.
    exp_table, inv_table: raw integers of their own types.
    """

    name: str
    x: Tensor
    y: Tensor
    kind: SoftmaxKind
    normalised: Precision
    accum: Precision
    inverse_input: Precision
    exp_table: Constants
    inv_table: Constants


class MergeOperation(StrEnum):
    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    AVERAGE = "average"  # (a + b) * 0.5, exact
    MAXIMUM = "maximum"
    MINIMUM = "minimum"


@dataclass(frozen=True)
class Merge:
    """y[i] = result(a[i] op b[i]), the operation exact; nnet_merge.h. Equal shapes."""

    name: str
    a: Tensor
    b: Tensor
    y: Tensor
    operation: MergeOperation


@dataclass(frozen=True)
class Concatenate:
    """Rows, columns or channels of a, then of b, each cast to result; nnet_merge.h. axis: of the shape per row, from 0."""

    name: str
    a: Tensor
    b: Tensor
    y: Tensor
    axis: int


@dataclass(frozen=True)
class Reshape:
    """The same elements in the same order."""

    name: str
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Upsample:
    """Each pixel `factor` times down and across; nnet_image.h resize_nearest."""

    name: str
    x: Tensor
    y: Tensor
    factor: tuple[int, int]


@dataclass(frozen=True)
class ZeroPad:
    """Zeros around the image; nnet_padding.h. pad: (top, bottom, left, right)."""

    name: str
    x: Tensor
    y: Tensor
    pad: tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class Embedding:
    """Each x, an integer below the vocabulary, becomes its row of the table; nnet_embed.h.

    table: (vocabulary, n_out) raw integers of y's type.
    """

    name: str
    x: Tensor
    y: Tensor
    table: Constants


Layer = (
    Dense
    | Depthwise
    | Pool
    | GlobalPool
    | Map
    | Table
    | Softmax
    | Merge
    | Concatenate
    | Reshape
    | Upsample
    | ZeroPad
    | Embedding
)


def layer_inputs(layer: Layer) -> tuple[Tensor, ...]:
    """What a layer reads, in order."""
    return (layer.a, layer.b) if isinstance(layer, Merge | Concatenate) else (layer.x,)


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
        made = [tensor.name for tensor in (*self.inputs, *(layer.y for layer in self.layers))]
        if twice := sorted({name for name in made if made.count(name) > 1}):
            raise ValueError(f"network {self.name!r}: the tensors {', '.join(map(repr, twice))} are made twice, expected once")
