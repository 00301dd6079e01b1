# SPDX-License-Identifier: Apache-2.0
"""Layers that change only the shape of a tensor, which need no stage."""

from __future__ import annotations

from hypersonic.hls.network.layers.reshape import Reshape
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, no_stage


def _plan(plan: Planner, layer: Reshape) -> None:
    plan.offer(layer.y, plan.take(layer.x))


STAGE = no_stage(LayerPlan(Reshape, _plan))
