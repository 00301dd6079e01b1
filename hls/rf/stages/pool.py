# SPDX-License-Identifier: Apache-2.0
"""hls4ml's pooling layers, and what of nnet_pooling.h and nnet_pooling_stream.h comes out the same in any order."""

from __future__ import annotations

from typing import Any

import numpy as np

from hypersonic.hls.fixed import Constants, Overflow, Precision
from hypersonic.hls.rf.layers import GlobalPool, Layer, Map, MapFunction, Pool, PoolOperation, Tensor
from hypersonic.hls.rf.parts.attributes import SHIFT_INVARIANT, precision, refuse, window

_NONE = Constants(np.zeros(0, dtype=np.int64), 0)


def read_pool(layer: Any, x: Tensor, y: Tensor) -> tuple[Layer, ...]:
    """A Pooling1D or Pooling2D: a cast into accum where the C++ casts every number, and the pool."""
    seen, operation = window(layer, "pool"), _operation(layer)
    streamed = _streamed(layer)
    if streamed and (seen.padded or seen.kernel != seen.stride):
        raise refuse(
            layer, f"{seen} in io_stream, where hls4ml takes no padding and a stride equal to the pool: use io_parallel"
        )
    accum = precision(layer, "accum_t")
    before, source = _before(layer, x, operation, accum, seen.size, streamed=streamed)
    made, after = _after(layer, source, y, operation, accum)
    return (*before, Pool(layer.name, source, made, operation, seen, accum, bool(layer.get_attr("count_pad", False))), *after)


def read_global_pool(layer: Any, x: Tensor, y: Tensor) -> tuple[Layer, ...]:
    """A GlobalPooling1D or GlobalPooling2D."""
    operation, accum = _operation(layer), precision(layer, "accum_t")
    height, width, _ = x.image
    before, source = _before(layer, x, operation, accum, height * width, streamed=_streamed(layer))
    made, after = _after(layer, source, y, operation, accum)
    return (*before, GlobalPool(layer.name, source, made, operation, accum), *after)


def _operation(layer: Any) -> PoolOperation:
    return PoolOperation(str(layer.get_attr("pool_op")).lower())


def _streamed(layer: Any) -> bool:
    return bool(layer.model.config.get_config_value("IOType") == "io_stream")


def _before(
    layer: Any, x: Tensor, operation: PoolOperation, accum: Precision, count: int, *, streamed: bool
) -> tuple[tuple[Layer, ...], Tensor]:
    """The cast in front of a pool, where there is one, and what the pool then reads."""
    if operation is PoolOperation.MAX:
        if not streamed or _holds(accum, x.precision):
            return (), x
        return _cast(layer, x, accum)  # the stream's version compares numbers already cast
    _check_sum(layer, x.precision, accum, count)
    if accum.fraction >= x.precision.fraction and not streamed:
        return (), x
    return ((), x) if _holds(accum, x.precision) else _cast(layer, x, accum)


def _after(layer: Any, x: Tensor, y: Tensor, operation: PoolOperation, accum: Precision) -> tuple[Tensor, tuple[Layer, ...]]:
    """What a pool makes, and the casts behind it: a maximum goes by way of accum, where that changes it."""
    if operation is PoolOperation.AVERAGE or _holds(accum, x.precision):
        return y, ()
    greatest = Tensor(f"{y.name}_greatest", y.shape, x.precision)
    cast = Tensor(f"{y.name}_accum", y.shape, accum)
    steps = ((f"{layer.name}_accum", greatest, cast), (f"{layer.name}_result", cast, y))
    return greatest, tuple(Map(name, a, b, MapFunction.LINEAR, _NONE, _NONE) for name, a, b in steps)


def _holds(outer: Precision, inner: Precision) -> bool:
    """Whether every number of `inner` is one of `outer`."""
    shift = outer.fraction - inner.fraction
    return shift >= 0 and outer.low <= inner.low << shift and inner.high << shift <= outer.high


def _cast(layer: Any, x: Tensor, accum: Precision) -> tuple[tuple[Layer, ...], Tensor]:
    cast = Tensor(f"{x.name}_{layer.name}_accum", x.shape, accum)
    return (Map(f"{layer.name}_accum", x, cast, MapFunction.LINEAR, _NONE, _NONE),), cast


def _check_sum(layer: Any, x: Precision, accum: Precision, count: int) -> None:
    """Raises UnsupportedLayerError where the order of the sum would show."""
    shift = accum.fraction - x.fraction
    if shift < 0 and accum.rounding not in SHIFT_INVARIANT:
        raise refuse(layer, f"accum is {accum} and cuts {-shift} bits of a running sum, expected AP_TRN or AP_RND")
    if accum.overflow is Overflow.WRAP:
        return
    least, most = (count * min(0, x.low) - count, count * x.high + count)
    scaled = [value << shift if shift >= 0 else value >> -shift for value in (least, most)]
    if scaled[0] < accum.low or scaled[1] > accum.high:
        raise refuse(layer, f"accum is {accum} and a sum of {count} of {x} can leave its range: give it more integer bits")
