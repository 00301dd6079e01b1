# SPDX-License-Identifier: Apache-2.0
"""Products of two tensors: an Einsum, as in an attention head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.network.attributes import check_parallel, precision, refuse
from hypersonic.hls.network.base import Layer, PairProducts, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.layers.permute import Permute, transposed_places
from hypersonic.hls.network.products import reuse
from hypersonic.hls.network.raw import Integers, cast, plus


@dataclass(frozen=True, eq=False)
class Matmul(PairProducts):
    """y[i][v][j] = result(sum over c of a[i][v][c] * b[places[i][j][c]]), each sum in accum after every product; nnet_einsum.h.

    a: (matrices * vectors, n_in). y: (matrices * vectors, n_out).

    Attributes:
        places: (matrices, n_out, n_in), of elements of b. accum rounds a product as it rounds the sum with it, because its
            earlier sums are on its own grid.
    """

    places: NDArray[np.int64]

    @property
    def n_in(self) -> int:
        """Products of a sum."""
        return int(self.places.shape[2])

    @property
    def n_out(self) -> int:
        """Sums of a vector."""
        return int(self.places.shape[1])

    @property
    def vectors(self) -> int:
        """Number of vectors per row, of all matrices."""
        return self.y.size // self.n_out


# ---------------------------------------------------------------- in hls4ml's graph
def _read(layer: Any, a: Tensor, b: Tensor, y: Tensor) -> tuple[Layer, ...]:
    """Read hls4ml's Einsum: axes `in place` count the matrices, free ones the vectors and the results of a vector."""
    check_parallel(layer)
    if str(strategy := layer.get_attr("strategy")).lower() != "latency":
        raise refuse(layer, f"its Strategy is {strategy}, expected Latency")
    names = ("n_inplace", "n_free0", "n_free1", "n_contract")
    matrices, free, out, terms = (int(layer.get_attr(name)) for name in names)
    accum = precision(layer, "accum_t")
    rows = Tensor(f"{layer.name}_rows", (matrices * free, terms), a.precision)
    sums = Tensor(f"{layer.name}_sums", (matrices * free, out), y.precision)
    places = transposed_places(layer, "inp1_shape", "inp1_tpose_idxs").reshape(matrices, out, terms)
    return (
        Permute(layer.name, a, rows, transposed_places(layer, "inp0_shape", "inp0_tpose_idxs")),
        Matmul(layer.name, rows, b, sums, accum, *reuse(layer), places),
        Permute(layer.name, sums, y, transposed_places(layer, "out_interpert_shape", "out_tpose_idxs")),
    )


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Matmul, a: Integers, b: Integers) -> Integers:
    rows = a.reshape(len(a), len(layer.places), -1, 1, layer.n_in)
    columns = b[:, layer.places][:, :, None]
    accum, fraction = layer.accum, layer.a.precision.fraction + layer.b.precision.fraction
    sums = np.zeros(np.broadcast_shapes(rows.shape, columns.shape)[:-1], dtype=object)
    for term in range(layer.n_in):
        sums = plus(sums, rows[..., term] * columns[..., term], fraction, accum)
    return cast(sums, accum.fraction, layer.y.precision)


LAYER = LayerType(Matmul, _evaluate, readers={"Einsum": _read})
