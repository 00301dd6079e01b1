# SPDX-License-Identifier: Apache-2.0
"""Products of two tensors, as rf_matmul between rf_permute."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.network.base import Tensor
from hypersonic.hls.network.layers.matmul import Matmul
from hypersonic.hls.network.layers.permute import Permute
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import memory_cost, roms_cost
from hypersonic.hls.rf.needs import vectors
from hypersonic.hls.rf.parts.casts import accumulator_parameters, result_parameters
from hypersonic.hls.rf.parts.limits import MAX_CAST_WIDTH, Numbers, Width, accumulator, shift
from hypersonic.hls.rf.parts.products import check_pair_accumulator
from hypersonic.hls.rf.stage import Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, Sharing, StageType
from hypersonic.hls.rf.stages.dense import MAC_CLOCKS, Shape, mac_cost, matrix_shapes, nearest_shape, tree_registers
from hypersonic.hls.rf.stages.permute import permuted


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
    matrices = memory_cost(2 << address, p * q * w)
    zeros = roms_cost([(groups, q * numbers["ACC_WIDTH"])])
    counts = 2 * address + (numbers["VECTORS"] - 1).bit_length()
    engine = mac_cost({**numbers, "W_WIDTH": _weight(numbers)})
    return engine + matrices + zeros + Amounts(lut=2 * counts + 10, ff=counts + 6)


def _product(numbers: Numbers) -> Width:
    return Width(numbers["X_WIDTH"] + _weight(numbers), MAX_CAST_WIDTH, "a product")


def _check(layer: Matmul) -> None:
    check_pair_accumulator(layer.name, layer.a.precision, layer.b.precision, layer.n_in, layer.accum)


STAGE = StageType(
    ("rf_matmul",),
    _cost,
    (_product, accumulator, shift),
    LayerPlan(
        Matmul,
        _plan,
        check=_check,
        sharing=Sharing(lambda layer: _shape(layer).reuse_factor, lambda layer: layer.vectors, _choices),
    ),
)
