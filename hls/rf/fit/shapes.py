# SPDX-License-Identifier: Apache-2.0
"""How many multipliers each layer gets, from its reuse factor.

A reuse factor is hls4ml's: the multiplications of one vector (one window) that share a multiplier. A Dense of n_in x n_out with
reuse factor R has n_in * n_out / R multipliers, P * Q as P inputs times Q outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import isqrt

from hypersonic.hls.rf.layers import Dense, Depthwise, Layer, RfNetwork


@dataclass(frozen=True)
class Shape:
    """What a product layer gets: P inputs times Q outputs a clock; reuse_factor: clocks of one vector."""

    p: int
    q: int
    reuse_factor: int


@cache
def divisors(n: int) -> tuple[int, ...]:
    """In ascending order."""
    low = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return tuple(sorted({*low, *(n // d for d in low)}))


def dense_shapes(dense: Dense) -> Mapping[int, Shape]:
    """The shapes there are, by their reuse factor; of those with the same one the cheapest.

    An output costs an accumulator and a cast, an input an operand register: outputs are spared first.
    """
    kernel_rows = dense.window.kernel[0] if dense.window else 1
    return _shapes(dense.n_in, dense.n_out, kernel_rows, dense.x.channels if dense.window else dense.n_in)


@cache
def _shapes(n_in: int, n_out: int, kernel_rows: int, lanes: int) -> dict[int, Shape]:
    inputs = [kernel_rows * each for each in divisors(lanes)]
    found = [Shape(p, q, (n_in // p) * (n_out // q)) for p in inputs for q in divisors(n_out)]
    cheapest: dict[int, Shape] = {}
    for shape in sorted(found, key=lambda shape: 3 * shape.q + shape.p):
        cheapest.setdefault(shape.reuse_factor, shape)
    return cheapest


def dense_shape(dense: Dense) -> Shape:
    """The P and Q whose clocks come nearest to the reuse factor, the faster of two as near."""
    wanted = dense.reuse_factor
    return min(dense_shapes(dense).values(), key=lambda shape: (abs(shape.reuse_factor - wanted), shape.reuse_factor))


def depthwise_lanes(layer: Depthwise) -> int:
    """Lanes whose clocks per pixel come nearest to the reuse factor: channels / lanes * kernel columns."""
    columns, channels = layer.window.kernel[1], layer.x.channels
    return min(divisors(channels), key=lambda lanes: (abs(channels // lanes * columns - layer.reuse_factor), -lanes))


def interval(network: RfNetwork) -> int:
    """Clocks a row takes in the layer that takes longest."""
    return max((_layer_clocks(layer) for layer in network.layers), default=1)


def _layer_clocks(layer: Layer) -> int:
    if isinstance(layer, Dense):
        return layer.vectors * taken_reuse(layer)
    if isinstance(layer, Depthwise):
        return layer.y.size // layer.y.channels * taken_reuse(layer)
    return 1


def taken_reuse(layer: Dense | Depthwise) -> int:
    """Clocks of one vector, or of one pixel's channels."""
    if isinstance(layer, Dense):
        return dense_shape(layer).reuse_factor
    return layer.x.channels // depthwise_lanes(layer) * layer.window.kernel[1]


def notes(network: RfNetwork) -> tuple[str, ...]:
    """What the user asked for and did not get."""
    return tuple(text for layer in network.layers if (text := _reuse_note(layer)))


def _reuse_note(layer: Layer) -> str:
    if not isinstance(layer, Dense | Depthwise) or taken_reuse(layer) == layer.requested:
        return ""
    return (
        f"layer {layer.name!r}: ReuseFactor is {layer.requested}, hls4ml takes {layer.reuse_factor}, the core "
        f"{taken_reuse(layer)}, the nearest that it can do"
    )
