# SPDX-License-Identifier: Apache-2.0
"""EinsumDense and Einsum, as hls4ml's C++ computes them after its transpositions (nnet_einsum_dense.h, nnet_einsum.h).

Both are read from the attributes that hls4ml's backend derives from the equation: `in place` axes are in both operands and in
the result, `contracted` ones are summed over, `free` ones are in one operand and in the result.
"""

from __future__ import annotations

from math import prod
from typing import Any

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.network import Dense, Einsum, EinsumDense
from hypersonic.hls.da.numbers import Number, Numbers, product, summed
from hypersonic.hls.da.products import check_count, dense
from hypersonic.hls.fixed import Constants
from hypersonic.hls.model_graph import precision_of, result_precision, written_constants
from hypersonic.hls.rf.stages.permute import transposed_places


def read_einsum_dense(layer: Any, sources: tuple[str, ...]) -> EinsumDense:
    """Read hls4ml's EinsumDense. Raises UnsupportedLayerError for one that is too large to unroll."""
    in_place, free, out, terms = _sizes(layer, "n_inplace", "n_free_data", "n_free_kernel", "n_contract")
    weight, bias = written_constants(layer, "weight"), written_constants(layer, "bias")
    return EinsumDense(
        layer.name,
        sources[0],
        transposed_places(layer, "inp_shape", "inp_tpose_idxs").reshape(in_place, free, terms),
        Constants(weight.raw.reshape(in_place, terms, out), weight.fraction),
        Constants(bias.raw.reshape(in_place, free, out), bias.fraction),
        transposed_places(layer, "out_interpert_shape", "out_tpose_idxs"),
        _accum(layer),
        result_precision(layer),
    )


def read_einsum(layer: Any, sources: tuple[str, ...]) -> Einsum:
    """Read hls4ml's Einsum of two tensors. Raises UnsupportedLayerError for one that is too large to unroll."""
    in_place, first, second, terms = _sizes(layer, "n_inplace", "n_free0", "n_free1", "n_contract")
    a, b = sources
    return Einsum(
        layer.name,
        (a, b),
        transposed_places(layer, "inp0_shape", "inp0_tpose_idxs").reshape(in_place, first, terms),
        transposed_places(layer, "inp1_shape", "inp1_tpose_idxs").reshape(in_place, second, terms),
        transposed_places(layer, "out_interpert_shape", "out_tpose_idxs"),
        _accum(layer),
        result_precision(layer),
    )


def _sizes(layer: Any, *names: str) -> list[int]:
    sizes = [int(layer.get_attr(name)) for name in names]
    check_count(layer.name, prod(sizes))
    return sizes


def _accum(layer: Any) -> Any:
    return precision_of(layer.get_attr("accum_t").precision, f"layer {layer.name!r}: accum")


def einsum_dense(graph: AdderGraph, layer: EinsumDense, x: Numbers) -> list[Number]:
    """Return the numbers in the layer's accumulator, before the cast to its result."""
    y: list[Number] = []
    for at, vectors in enumerate(layer.places):
        weight = Constants(layer.weight.raw[at], layer.weight.fraction)
        for vector, row in zip(vectors, layer.bias.raw[at], strict=True):
            matrix = Dense(layer.name, "", weight, Constants(row, layer.bias.fraction), layer.accum, layer.result)
            y += dense(graph, matrix, [x[place] for place in vector])
    return [y[place] for place in layer.order]


def einsum(graph: AdderGraph, layer: Einsum, a: Numbers, b: Numbers) -> list[Number]:
    """Return the numbers in the layer's accumulator, before the cast to its result."""
    y = [
        summed(graph, [product(graph, a[i], b[j]) for i, j in zip(left, right, strict=True)], layer.accum)
        for lefts, rights in zip(layer.places_a, layer.places_b, strict=True)
        for left in lefts
        for right in rights
    ]
    return [y[place] for place in layer.order]
