# SPDX-License-Identifier: Apache-2.0
"""A one at the maximum of each vector, as rf_argmax: hls4ml's softmax with the strategy argmax."""

from __future__ import annotations

from hypersonic.hls.network.layers.softmax import Softmax
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import fifo_cost, skid_cost
from hypersonic.hls.rf.needs import vectors
from hypersonic.hls.rf.parts.limits import MAX_BOUND_WIDTH, Numbers, Width
from hypersonic.hls.rf.stage import Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import StageType


def argmax_stage(name: str, layer: Softmax, x: Stream, y: Stream) -> Stage:
    """Return the rf_argmax stage, for each vector of the last dimension."""
    beats, levels, to = layer.x.channels // x.lanes, (x.lanes - 1).bit_length(), y.precision
    parameters: dict[str, Value] = {
        "N": layer.x.channels, "LANES": x.lanes, "X_WIDTH": x.precision.width, "X_SIGNED": int(x.precision.signed),
        "Y_WIDTH": to.width, "ONE": to.cast(1, 0),
    }  # fmt: skip
    timing = Timing((vectors(y.beats // beats, beats, beats),), levels + 5, 1, y.beats)
    return Stage(name, "rf_argmax", layer.name, parameters, (x,), (y,), timing)


def held_cost(numbers: Numbers) -> Amounts:
    """Return the resources of rf_maximum, which holds a vector until its maximum is known."""
    lanes, x = numbers["LANES"], numbers["X_WIDTH"]
    beats = numbers["N"] // lanes
    held = fifo_cost(lanes * x + 1, 1 << max(1, (2 * beats + 4).bit_length()))
    return held + Amounts(lut=lanes * x + 25, ff=lanes * 2 * x + 60)


def _cost(_stage: Stage, numbers: Numbers) -> Amounts:
    lanes = numbers["LANES"]
    return held_cost(numbers) + skid_cost(lanes * numbers["Y_WIDTH"] + 1) + Amounts(lut=8 * lanes)


def _one(numbers: Numbers) -> Width:
    return Width(numbers["ONE"].bit_length() + 1, MAX_BOUND_WIDTH, "a one")


STAGE = StageType(("rf_argmax",), _cost, (_one,), long=("ONE",))
