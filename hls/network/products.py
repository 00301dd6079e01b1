# SPDX-License-Identifier: Apache-2.0
"""Sums of products in hls4ml's graph: reuse factors, and what is summed."""

from __future__ import annotations

from typing import Any

import numpy as np

from hypersonic.hls.fixed import Overflow
from hypersonic.hls.network.attributes import refuse, streamed
from hypersonic.hls.network.base import Products, Window
from hypersonic.hls.network.raw import Integers, cast, cast_all, confine

#: hls4ml strategies that compute the same sums
_STRATEGIES = ("latency", "resource", "resource_unrolled")


def reuse(layer: Any) -> tuple[int, int]:
    """Return the reuse factor per window that hls4ml chose, and the one that the user asked for.

    ParallelizationFactor windows in parallel have the same multipliers and clocks as one window with a reuse factor that is
    smaller by that factor.
    """
    taken = int(layer.get_attr("reuse_factor") or 1)
    asked = int(layer.model.config.get_reuse_factor(layer) or taken)
    windows = int(layer.get_attr("parallelization_factor", 1) or 1) if "Conv" in layer.class_name else 1
    return max(1, taken // windows), max(1, asked // windows)


def check_strategy(layer: Any) -> bool:
    """Return whether hls4ml has transposed the weights. Raises UnsupportedLayerError for other strategies than these."""
    strategy = str(layer.get_attr("strategy")).lower()
    if strategy not in _STRATEGIES:
        raise refuse(layer, f"Strategy is {strategy}, expected Latency, Resource or ResourceUnrolled")
    return bool(layer.get_attr("_weights_transposed", False))


def check_one_row(layer: Any, seen: Window) -> None:
    """Raise UnsupportedLayerError for a convolution whose vertical stride hls4ml 1.3.0's io_stream C++ ignores."""
    pointwise = layer.class_name.startswith("Pointwise")
    if streamed(layer) and layer.class_name.endswith("2D") and seen.kernel[0] == 1 < seen.stride[0] and not pointwise:
        raise refuse(
            layer,
            f"its kernel is {seen.kernel[0]}x{seen.kernel[1]} with stride {seen.stride[0]} from row to row, which hls4ml's "
            "io_stream leaves out: use io_parallel",
        )


def accumulated(layer: Products, vectors: Integers, weight: Integers) -> Integers:
    """Return sums of products in accum, with the bias, as numbers of y: (rows, vectors, outputs).

    Args:
        vectors: (rows, vectors, n_in, 1 or outputs), raw.
        weight: what each of them is multiplied by.
    """
    products = cast(vectors * weight, layer.x.precision.fraction + layer.weight.fraction, layer.accum)
    bias = cast_all(layer.bias, layer.accum)
    rows, count, terms, outputs = products.shape
    sums = np.broadcast_to(np.resize(bias, (count, outputs)), (rows, count, outputs))
    if layer.accum.overflow is Overflow.WRAP:
        sums = confine(sums + products.sum(axis=2), layer.accum)
    else:
        for term in range(terms):
            sums = confine(sums + products[:, :, term], layer.accum)
    return cast(sums, layer.accum.fraction, layer.y.precision)
