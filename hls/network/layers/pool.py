# SPDX-License-Identifier: Apache-2.0
"""Maximum and average pooling, and what pooling over a whole image (global_pool.py) shares with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from hypersonic.hls.fixed import FixedPoint, Overflow
from hypersonic.hls.network.attributes import SHIFT_INVARIANT, precision, refuse, streamed, window
from hypersonic.hls.network.base import Layer, OneInput, Tensor, Window
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.layers.map import linear
from hypersonic.hls.network.raw import Integers, cast, confine
from hypersonic.hls.network.windows import window_elements


class PoolOperation(StrEnum):
    """hls4ml's names of the operations."""

    MAX = "max"
    AVERAGE = "average"


@dataclass(frozen=True)
class Pool(OneInput):
    """Pooling of each window of each channel to one number.

    nnet_pooling.h: max is the largest x, cast to accum, then to the type of y. A padded pixel is the smallest number of the
    type (frontend/repairs.py). average is the sum in accum by assignments, divided towards zero in accum by the number of
    pixels of the window inside the image (by all pixels if count_pad), then cast to the type of y. nnet_pooling_stream.h
    (io_stream; no padding): the same after a cast of every x to accum.
    """

    operation: PoolOperation
    window: Window
    accum: FixedPoint
    count_pad: bool = False


# ---------------------------------------------------------------- in hls4ml's graph
def _read(layer: Any, x: Tensor, y: Tensor) -> tuple[Layer, ...]:
    """Read a Pooling1D or Pooling2D, with a cast to accum before it if the C++ casts every number."""
    seen, operation = window(layer, "pool"), pool_operation(layer)
    if streamed(layer) and (seen.padded or seen.kernel != seen.stride):
        raise refuse(
            layer, f"{seen} in io_stream, where hls4ml takes no padding and a stride equal to the pool: use io_parallel"
        )
    accum = precision(layer, "accum_t")
    before, source = cast_before(layer, x, operation, accum, seen.size, streamed=streamed(layer))
    result, after = casts_after(layer, source, y, operation, accum)
    return (*before, Pool(layer.name, source, result, operation, seen, accum, bool(layer.get_attr("count_pad", False))), *after)


def pool_operation(layer: Any) -> PoolOperation:
    """Return the operation of hls4ml's pooling layer."""
    return PoolOperation(str(layer.get_attr("pool_op")).lower())


def cast_before(
    layer: Any, x: Tensor, operation: PoolOperation, accum: FixedPoint, count: int, *, streamed: bool
) -> tuple[tuple[Layer, ...], Tensor]:
    """Return the cast that a pooling layer needs before it, if any, and the tensor that the pooling reads.

    Args:
        count: pixels of a window.

    Raises:
        UnsupportedLayerError: If an average depends on the order of its sum.
    """
    if operation is PoolOperation.MAX:
        if not streamed or _holds(accum, x.precision):
            return (), x
        return _cast(layer, x, accum)  # the stream version compares numbers after the cast
    _check_sum(layer, x.precision, accum, count)
    if accum.fraction >= x.precision.fraction and not streamed:
        return (), x
    return ((), x) if _holds(accum, x.precision) else _cast(layer, x, accum)


def casts_after(
    layer: Any, x: Tensor, y: Tensor, operation: PoolOperation, accum: FixedPoint
) -> tuple[Tensor, tuple[Layer, ...]]:
    """Return the pooling's result and the casts after it: a maximum is cast to accum first if that can change it."""
    if operation is PoolOperation.AVERAGE or _holds(accum, x.precision):
        return y, ()
    greatest = Tensor(f"{y.name}_greatest", y.shape, x.precision)
    cast = Tensor(f"{y.name}_accum", y.shape, accum)
    steps = ((f"{layer.name}_accum", greatest, cast), (f"{layer.name}_result", cast, y))
    return greatest, tuple(linear(name, a, b) for name, a, b in steps)


def _holds(outer: FixedPoint, inner: FixedPoint) -> bool:
    """Return whether the type `outer` can represent every number of the type `inner`."""
    shift = outer.fraction - inner.fraction
    return shift >= 0 and outer.min_raw <= inner.min_raw << shift and inner.max_raw << shift <= outer.max_raw


def _cast(layer: Any, x: Tensor, accum: FixedPoint) -> tuple[tuple[Layer, ...], Tensor]:
    cast = Tensor(f"{x.name}_{layer.name}_accum", x.shape, accum)
    return (linear(f"{layer.name}_accum", x, cast),), cast


def _check_sum(layer: Any, x: FixedPoint, accum: FixedPoint, count: int) -> None:
    """Raise UnsupportedLayerError if the result depends on the order of the sum."""
    shift = accum.fraction - x.fraction
    if shift < 0 and accum.rounding not in SHIFT_INVARIANT:
        raise refuse(layer, f"accum is {accum} and cuts {-shift} bits of a running sum, expected AP_TRN or AP_RND")
    if accum.overflow is Overflow.WRAP:
        return
    least, most = (count * min(0, x.min_raw) - count, count * x.max_raw + count)
    scaled = [value << shift if shift >= 0 else value >> -shift for value in (least, most)]
    if scaled[0] < accum.min_raw or scaled[1] > accum.max_raw:
        raise refuse(layer, f"accum is {accum} and a sum of {count} of {x} can leave its range: give it more integer bits")


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Pool, x: Integers) -> Integers:
    kind = layer.x.precision
    least = kind.min_raw if layer.operation is PoolOperation.MAX else 0
    pixels = window_elements(layer.x, layer.window, x, least)
    inside = window_elements(layer.x, layer.window, np.ones((1, layer.x.size), dtype=object))[0, :, :, 0].sum(axis=1)
    counts = np.full(len(inside), layer.window.size) if layer.count_pad else inside
    return pooled(layer, layer.operation, layer.accum, pixels, counts)


def pooled(layer: OneInput, operation: PoolOperation, accum: FixedPoint, pixels: Integers, counts: Integers) -> Integers:
    """Return the pooled numbers (rows, windows, channels).

    Args:
        pixels: (rows, windows, pixels, channels).
        counts: (windows,).
    """
    fraction = layer.x.precision.fraction
    if operation is PoolOperation.MAX:
        return cast(pixels.max(axis=2), fraction, layer.y.precision)
    sums = confine(pixels.sum(axis=2) << accum.fraction - fraction, accum)
    quotients = abs(sums) // counts.astype(object)[:, None] * np.sign(sums)
    return cast(quotients, accum.fraction, layer.y.precision)


LAYER = LayerType(Pool, _evaluate, readers={"Pooling1D": _read, "Pooling2D": _read}, by_image=True)
