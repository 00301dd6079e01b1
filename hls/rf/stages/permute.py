# SPDX-License-Identifier: Apache-2.0
"""Layers that move elements, or leave some out, as rf_permute: Permute, Cropping, and the reversed steps of a Bidirectional."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import flow_cost, memory_cost, roms_cost
from hypersonic.hls.rf.layers import Layer, OneInput, Tensor
from hypersonic.hls.rf.needs import divisors
from hypersonic.hls.rf.parts.attributes import refuse
from hypersonic.hls.rf.parts.limits import NO_LIMIT, Numbers
from hypersonic.hls.rf.parts.maps import linear
from hypersonic.hls.rf.stage import Memory, Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerType, Planner, StageType

#: clocks from the edge that accepts a row's last beat to the edge at which its first result can be accepted
_CLOCKS = 4


@dataclass(frozen=True, eq=False)
class Permute(OneInput):
    """y[i] = x[places[i]]; nnet_transpose.h, nnet_cropping.h. places: (elements of y,). The types are equal."""

    places: NDArray[np.int64]


# ---------------------------------------------------------------- in hls4ml's graph
def moved_places(layer: Any) -> NDArray[np.int64]:
    """Return the elements of its input that a Transpose or a Cropping passes on, in order."""
    shape = [int(size) for size in layer.get_input_variable().shape]
    image = np.arange(prod(shape), dtype=np.int64).reshape(shape)
    if layer.class_name == "Transpose":
        return image.transpose([int(axis) for axis in layer.get_attr("perm")]).reshape(-1)
    if str(layer.get_attr("data_format", "channels_last")) != "channels_last":
        raise refuse(layer, "data_format is channels_first, expected channels_last")
    out = [int(size) for size in layer.get_output_variable().shape]
    first = [int(layer.get_attr(f"crop_{side}", 0) or 0) for side in ("top", "left")][2 - (len(shape) - 1) :]
    return image[tuple(slice(start, start + size) for start, size in zip(first, out, strict=False))].reshape(-1)


def transposed_places(layer: Any, shape: str, axes: str) -> NDArray[np.int64]:
    """Return the elements of a tensor in the order in which a transposition reads them. shape, axes: the layer's attributes."""
    sizes = [int(size) for size in layer.get_attr(shape)]
    order = [int(axis) for axis in layer.get_attr(axes)]
    return np.arange(prod(sizes), dtype=np.int64).reshape(sizes).transpose(order).reshape(-1)


def _read(layer: Any, x: Tensor, y: Tensor) -> tuple[Layer, ...]:
    """Read it, with a cast behind it if its result has another type."""
    places = moved_places(layer)
    typed = Tensor(y.name, y.shape, x.precision)
    if x.precision != y.precision:
        typed = Tensor(f"{y.name}_moved", y.shape, x.precision)
    moved = Permute(layer.name, x, typed, places)
    return (moved,) if x.precision == y.precision else (moved, linear(layer.name, typed, y))


# ---------------------------------------------------------------- in RTL
def _plan(plan: Planner, layer: Permute) -> None:
    plan.offer(layer.y, permuted(plan, layer))


def permuted(plan: Planner, layer: Permute) -> Stream:
    """Return a stream of the layer's result for one reader, through an rf_permute if an element moves."""
    if len(layer.places) == layer.x.size and (layer.places == np.arange(layer.x.size)).all():
        return plan.take(layer.x)
    lanes = widest_run(layer.places, layer.x.size)
    x = plan.with_lanes(plan.take(layer.x), lanes, layer.name)
    y = plan.result(layer, lanes)
    plan.add(permute_stage(plan.stage_name(layer.name), layer, x, y))
    return y


def widest_run(places: NDArray[np.int64], size: int) -> int:
    """Return the most elements that always move together: whole beats of the input, which has `size` elements."""

    def together(lanes: int) -> bool:
        beats = places.reshape(-1, lanes)
        return bool((beats == beats[:, :1] + np.arange(lanes)).all() and (beats[:, 0] % lanes == 0).all())

    return max(lanes for lanes in divisors(int(np.gcd(len(places), size))) if together(lanes))


def permute_stage(name: str, layer: Permute, x: Stream, y: Stream) -> Stage:
    """Return the rf_permute stage; its beats are groups of elements that move together."""
    width = max(x.beats - 1, 1).bit_length()
    memory = Memory(f"{name}.places.mem", layer.places.reshape(y.beats, x.lanes)[:, :1] // x.lanes, (width,))
    parameters: dict[str, Value] = {"WIDTH": x.width, "IN_BEATS": x.beats, "OUT_BEATS": y.beats, "FILE": memory.file}
    needs = np.full(y.beats, x.beats - 1, dtype=np.int64)
    timing = Timing((needs,), _CLOCKS, 1, max(x.beats, y.beats))
    bits = (2 << width) * x.width
    return Stage(name, "rf_permute", layer.name, parameters, (x,), (y,), timing, (memory,), ram_bits=bits)


def _cost(stage: Stage, numbers: Numbers) -> Amounts:
    places = max(numbers["IN_BEATS"] - 1, 1).bit_length()
    memories = memory_cost(2 << places, numbers["WIDTH"]) + roms_cost(memory.shape for memory in stage.memories)
    return memories + flow_cost(numbers["WIDTH"], 1) + Amounts(lut=3 * places + 10, ff=2 * places + 8)


STAGE = StageType(
    ("rf_permute",),
    _cost,
    NO_LIMIT,
    LayerType(Permute, _plan, dict.fromkeys(("Transpose", "Cropping1D", "Cropping2D"), _read)),
)
