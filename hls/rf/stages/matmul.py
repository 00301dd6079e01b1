# SPDX-License-Identifier: Apache-2.0
"""Products of two tensors (an Einsum, as in an attention head), as rf_matmul between rf_permute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import memory_cost, roms_cost
from hypersonic.hls.rf.layers import Layer, PairProducts, Tensor
from hypersonic.hls.rf.needs import vectors
from hypersonic.hls.rf.parts.attributes import precision, refuse, streamed
from hypersonic.hls.rf.parts.casts import accumulator_parameters, result_parameters
from hypersonic.hls.rf.parts.limits import MAX_CAST_WIDTH, Numbers, Width, accumulator, shift
from hypersonic.hls.rf.parts.products import check_pair_accumulator, reuse
from hypersonic.hls.rf.stage import Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerType, Planner, Sharing, StageType
from hypersonic.hls.rf.stages.dense import MAC_CLOCKS, Shape, mac_cost, matrix_shapes, nearest_shape, tree_registers
from hypersonic.hls.rf.stages.permute import Permute, permuted, transposed_places


@dataclass(frozen=True, eq=False)
class Matmul(PairProducts):
    """y[i][v][j] = result(sum over c of a[i][v][c] * b[places[i][j][c]]), each sum in accum after every product; nnet_einsum.h.

    a: (matrices * vectors, n_in). y: (matrices * vectors, n_out). places: (matrices, n_out, n_in), of elements of b. accum
    rounds a product as it rounds the sum with it, because its earlier sums are on its own grid.
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
    if streamed(layer):
        raise refuse(layer, "hls4ml 1.3.0 has no C++ for it in io_stream: use io_parallel")
    if str(strategy := layer.get_attr("strategy")).lower() != "latency":
        raise refuse(layer, f"its Strategy is {strategy}, expected Latency")
    names = ("n_inplace", "n_free0", "n_free1", "n_contract")
    matrices, free, out, terms = (int(layer.get_attr(name)) for name in names)
    accum = precision(layer, "accum_t")
    check_pair_accumulator(layer, a.precision, b.precision, terms, accum)
    rows = Tensor(f"{layer.name}_rows", (matrices * free, terms), a.precision)
    sums = Tensor(f"{layer.name}_sums", (matrices * free, out), y.precision)
    places = transposed_places(layer, "inp1_shape", "inp1_tpose_idxs").reshape(matrices, out, terms)
    return (
        Permute(layer.name, a, rows, transposed_places(layer, "inp0_shape", "inp0_tpose_idxs")),
        Matmul(layer.name, rows, b, sums, accum, *reuse(layer), places),
        Permute(layer.name, sums, y, transposed_places(layer, "out_interpert_shape", "out_tpose_idxs")),
    )


# ---------------------------------------------------------------- in RTL
def _shape(layer: Matmul) -> Shape:
    return nearest_shape(matrix_shapes(layer.n_in, layer.n_out), layer.reuse_factor)


def _choices(layer: Matmul) -> dict[int, int]:
    return {factor: layer.vectors * factor for factor in matrix_shapes(layer.n_in, layer.n_out)}


def _plan(plan: Planner, layer: Matmul) -> None:
    shape = _shape(layer)
    a = plan.with_lanes(plan.take(layer.a), shape.p, layer.name)
    places = in_words(layer.places, shape.p, shape.q)
    words = Permute(layer.name, layer.b, Tensor(f"{layer.name}_words", (len(places),), layer.b.precision), places)
    b = plan.with_lanes(permuted(plan, words), shape.p * shape.q, layer.name)
    a, b = (plan.buffered(stream, layer.name, side) for stream, side in ((a, "a"), (b, "b")))
    plan.finish(layer, matmul_stage(plan.stage_name(layer.name), layer, a, b, plan.result(layer, shape.q)))


def in_words(places: NDArray[np.int64], p: int, q: int) -> NDArray[np.int64]:
    """Return the places (matrices, n_out, n_in) in the order of rf_mac's words, flat."""
    matrices, n_out, n_in = places.shape
    return places.reshape(matrices, n_out // q, q, n_in // p, p).transpose(0, 1, 3, 2, 4).reshape(-1)


def matmul_stage(name: str, layer: Matmul, a: Stream, b: Stream, y: Stream) -> Stage:
    """Return the rf_matmul stage. a.lanes elements of a vector and y.lanes results are processed per clock."""
    p, q, matrices = a.lanes, y.lanes, len(layer.places)
    blocks, groups = layer.n_in // p, layer.n_out // q
    fraction, accum = a.precision.fraction + b.precision.fraction, layer.accum
    each = layer.vectors // matrices
    parameters: dict[str, Value] = {
        "N_IN": layer.n_in, "N_OUT": layer.n_out, "P": p, "Q": q, "VECTORS": each,
        "X_WIDTH": a.precision.width, "X_SIGNED": int(a.precision.signed),
        "W_WIDTH": b.precision.width, "W_SIGNED": int(b.precision.signed),
        **accumulator_parameters(fraction, accum), **result_parameters(accum.fraction, y.precision),
    }  # fmt: skip
    tree = tree_registers(p, a.precision.width, _weight(parameters), fraction - accum.fraction, accum)
    # the first vector of a matrix waits for the words of each result, the others have them all
    last = np.minimum(np.arange(each * groups) + 1, groups) * blocks - 1
    words = (np.arange(matrices)[:, None] * blocks * groups + last).reshape(-1)
    timing = Timing(
        (vectors(layer.vectors, blocks, groups), words), MAC_CLOCKS + 1 + tree, blocks, layer.vectors * blocks * groups
    )
    address = max(blocks * groups - 1, 1).bit_length()
    bits = (2 << address) * b.width + (2 * layer.n_in * a.precision.width if groups > 1 else 0)
    return Stage(
        name, "rf_matmul", layer.name, parameters, (a, b), (y,), timing,
        multipliers=p * q, multiplications=layer.vectors * layer.n_in * layer.n_out, ram_bits=bits,
    )  # fmt: skip


def _weight(numbers: Any) -> int:
    """Bits of an element of b in two's complement."""
    return int(numbers["W_WIDTH"]) + (not numbers["W_SIGNED"])


def _cost(_stage: Stage, numbers: Numbers) -> Amounts:
    p, q, w = numbers["P"], numbers["Q"], numbers["W_WIDTH"]
    blocks, groups = numbers["N_IN"] // p, numbers["N_OUT"] // q
    address = max(blocks * groups - 1, 1).bit_length()
    matrices = memory_cost(2 << address, p * q * w) + Amounts(ff=-p * q * w)  # its read register is one of mac_cost's
    zeros = roms_cost([(groups, q * numbers["ACC_WIDTH"])])
    counts = 2 * address + (numbers["VECTORS"] - 1).bit_length()
    engine = mac_cost({**numbers, "W_WIDTH": _weight(numbers)})
    return engine + matrices + zeros + Amounts(lut=2 * counts + 10, ff=counts + 6)


def _product(numbers: Numbers) -> Width:
    return Width(numbers["X_WIDTH"] + _weight(numbers), MAX_CAST_WIDTH, "a product")


STAGE = StageType(
    ("rf_matmul",),
    _cost,
    (_product, accumulator, shift),
    LayerType(
        Matmul,
        _plan,
        {"Einsum": _read},
        sharing=Sharing(lambda layer: _shape(layer).reuse_factor, lambda layer: layer.vectors, _choices),
    ),
)
