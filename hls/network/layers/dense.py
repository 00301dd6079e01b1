# SPDX-License-Identifier: Apache-2.0
"""Dense layers, and convolutions, whose vectors are windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hypersonic.hls.fixed import Constants
from hypersonic.hls.model_graph import precision_of
from hypersonic.hls.network.attributes import constants, precision, refuse, streamed, window
from hypersonic.hls.network.base import Products, Tensor, WeightsIn, Window
from hypersonic.hls.network.binary import binary_sums, reads_bits
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.layers.map import Map, linear
from hypersonic.hls.network.layers.permute import Permute, transposed_places
from hypersonic.hls.network.products import accumulated, check_one_row, check_strategy, reuse
from hypersonic.hls.network.raw import Integers, signed_width
from hypersonic.hls.network.windows import window_elements


@dataclass(frozen=True, eq=False)
class Dense(Products):
    """Each vector of n_in numbers becomes n_out:  y[j] = result(accum(bias[j]) + sum_i accum(x[i] * weight[i][j])).

    Sources: nnet_dense_latency.h, nnet_dense_resource.h (all three forms; hls4ml transposes the weights for Strategy Resource,
    _product transposes them back), nnet_conv1d/2d_latency.h, _resource.h, _stream.h and pointwise_conv. A convolution applies
    it to each window, with the elements of the vector in the order (kernel row, kernel column, channel). Without a window, n_in
    is the last dimension of x, so that a Dense on (L, C) is applied to each of L vectors.

    weight: (n_in, n_out), or (matrices, n_in, n_out): vector v has number v % matrices. bias: (n_out,), or (biases, n_out).

    Attributes:
        type_width: bits of a weight's declared type, as two's complement; 0 if the numbers are not in it. In a core that reads
            the weights at run time they have that width, so that other numbers of the type fit the same core; otherwise the
            fewest bits.
    """

    window: Window | None = None
    weights_in: WeightsIn = WeightsIn.BRAM
    type_width: int = 0

    @property
    def n_in(self) -> int:
        """Number of inputs of a vector."""
        return int(self.weight.raw.shape[-2])

    @property
    def n_out(self) -> int:
        """Number of outputs of a vector."""
        return int(self.weight.raw.shape[-1])

    @property
    def matrices(self) -> int:
        """Number of matrices of weights, which the vectors of a row take in turn."""
        return int(self.weight.raw.size) // (self.n_in * self.n_out)

    @property
    def biases(self) -> int:
        """Number of vectors of biases, which the vectors of a row take in turn."""
        return int(self.bias.raw.size) // self.n_out

    @property
    def vectors(self) -> int:
        """Number of vectors per row."""
        return self.y.size // self.n_out


# ---------------------------------------------------------------- in hls4ml's graph
def weight_places(layer: Any, flat: Constants, name: str = "weight") -> tuple[WeightsIn, int]:
    """Return a Dense's weights_in, the YAML's WeightsIn (hls/frontend/settings.py), and type_width.

    Args:
        flat: the numbers of `name`.
    """
    kind = precision_of(layer.weights[name].type.precision, f"layer {layer.name!r}: {name}")
    width = kind.width + (not kind.signed)
    typed = kind.fraction == flat.fraction and signed_width(flat.raw) <= width
    return WeightsIn(str(layer.get_attr("weights_in", WeightsIn.BRAM))), width if typed else 0


def _product(layer: Any, x: Tensor, y: Tensor, shape: tuple[int, int]) -> Dense:
    transposed = check_strategy(layer)
    flat = constants(layer, "weight")
    raw = flat.raw.reshape(shape[::-1]).T if transposed else flat.raw.reshape(shape)
    weight, bias, accum = Constants(raw, flat.fraction), constants(layer, "bias"), precision(layer, "accum_t")
    places, width = weight_places(layer, flat)
    return Dense(layer.name, x, y, weight, bias, accum, *reuse(layer), weights_in=places, type_width=width)


def _einsum_dense(layer: Any, x: Tensor, y: Tensor) -> tuple[Permute, Dense, Permute]:
    """Read hls4ml's EinsumDense: a Dense between two transpositions (nnet_einsum_dense.h).

    hls4ml counts vectors by the axes that the weights have too (`in place`), then by the others (`free`); here the former
    are the inner ones, so that the vectors take the matrices in turn.
    """
    names = ("n_inplace", "n_free_data", "n_free_kernel", "n_contract")
    matrices, free, out, terms = (int(layer.get_attr(name)) for name in names)
    if check_strategy(layer):
        raise refuse(layer, "its Strategy is Resource, expected Latency")
    flat, rows = constants(layer, "weight"), constants(layer, "bias")
    weight, accum = Constants(flat.raw.reshape(matrices, terms, out), flat.fraction), precision(layer, "accum_t")
    turns = rows.raw.reshape(matrices, free, out).swapaxes(0, 1)
    if (turns == turns[:1]).all():
        turns = turns[:1]
    bias = Constants(turns.reshape(-1, out), rows.fraction)
    vectors = Tensor(f"{layer.name}_vectors", (free * matrices, terms), x.precision)
    sums = Tensor(f"{layer.name}_sums", (free * matrices, out), y.precision)
    turned = np.arange(sums.size).reshape(free, matrices, out).swapaxes(0, 1).reshape(-1)
    given = transposed_places(layer, "inp_shape", "inp_tpose_idxs").reshape(matrices, free, terms).swapaxes(0, 1).reshape(-1)
    return (
        Permute(layer.name, x, vectors, given),
        Dense(layer.name, vectors, sums, weight, bias, accum, *reuse(layer), None, *weight_places(layer, flat)),
        Permute(layer.name, sums, y, turned[transposed_places(layer, "out_interpert_shape", "out_tpose_idxs")]),
    )


#: hls4ml's names of layers that are read as a convolution
_CONVOLUTIONS = ("Conv1D", "Conv2D", "Conv2DBatchnorm", "PointwiseConv1D", "PointwiseConv2D")


def _dense(layer: Any, x: Tensor, y: Tensor) -> Dense | tuple[Dense, Map]:
    dense = _product(layer, x, y, (int(layer.get_attr("n_in")), int(layer.get_attr("n_out"))))
    return _of_bits(layer, dense) if reads_bits(layer) else dense


def _of_bits(layer: Any, dense: Dense) -> Dense | tuple[Dense, Map]:
    """Return the product for an input of hls4ml's XNOR type, with a cast behind it if the C++ has one."""
    weight, bias, accum, counted = binary_sums(layer, dense.weight, dense.bias, dense.accum)
    dense = replace(dense, weight=weight, bias=bias, accum=accum, type_width=0)
    if counted is None:
        return dense
    count = Tensor(f"{layer.name}_count", dense.y.shape, counted)
    return replace(dense, y=count), linear(layer.name, count, dense.y)


def _convolution(layer: Any, x: Tensor, y: Tensor) -> Dense | tuple[Dense, Map]:
    seen = window(layer, "filt")
    dense = _product(layer, x, y, (seen.size * x.channels, y.channels))
    check_one_row(layer, seen)
    taken = int(layer.get_attr("reuse_factor") or 1)
    if not streamed(layer) and str(layer.get_attr("strategy")).lower() == "resource" and dense.n_in % taken:
        raise refuse(
            layer,
            f"ReuseFactor is {taken} with Strategy Resource in io_parallel, whose C++ is right for divisors of "
            f"{dense.n_in} alone; take one of them, Strategy Latency, or io_stream",
        )
    dense = dense if seen.is_pixel else replace(dense, window=seen)
    return _of_bits(layer, dense) if reads_bits(layer) else dense


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Dense, x: Integers) -> Integers:
    vectors = x if layer.window is None else window_elements(layer.x, layer.window, x)
    weight = np.tile(layer.weight.raw.reshape(-1, layer.n_in, layer.n_out), (layer.vectors // layer.matrices, 1, 1))
    return accumulated(layer, vectors.reshape(len(x), -1, layer.n_in, 1), weight.astype(object))


LAYER = LayerType(
    Dense,
    _evaluate,
    readers={"Dense": _dense, "EinsumDense": _einsum_dense, **dict.fromkeys(_CONVOLUTIONS, _convolution)},
    by_image=True,
)
