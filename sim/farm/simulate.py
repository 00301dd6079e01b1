# SPDX-License-Identifier: Apache-2.0
"""Simulate a farm under a load."""

from __future__ import annotations

from hypersonic.sim.farm.loads import Load
from hypersonic.sim.farm.machines import Farm
from hypersonic.sim.farm.result import Result


def simulate(farm: Farm, load: Load, *, seconds: float, warmup_s: float = 0.0, seed: int = 1) -> Result:
    """Simulate `seconds` of a farm under a load; measure from `warmup_s` on.

    The same arguments give the same result, to the last bit. Raises FarmError if nothing is left to measure.
    """
    raise NotImplementedError
