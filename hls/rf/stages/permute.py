# SPDX-License-Identifier: Apache-2.0
"""Layers that move elements, or leave some out, as rf_permute."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.network.layers.permute import Permute
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import flow_cost, memory_cost, roms_cost
from hypersonic.hls.rf.needs import divisors
from hypersonic.hls.rf.parts.limits import NO_LIMIT, Numbers
from hypersonic.hls.rf.stage import Memory, Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, StageType

#: clocks from the edge that accepts a row's last beat to the edge at which its first result can be accepted
_CLOCKS = 4


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
    LayerPlan(Permute, _plan),
)
