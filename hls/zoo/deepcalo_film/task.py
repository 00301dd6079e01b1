# SPDX-License-Identifier: Apache-2.0
"""DeepCalo with scalars and tracks: the same figure of merit as for the image alone."""

from __future__ import annotations

from hypersonic.hls.zoo.deepcalo.events import generate
from hypersonic.hls.zoo.deepcalo.task import HELD_OUT_SEED, resolution
from hypersonic.hls.zoo.task import Sample, Task


def _sample(rows: int, seed: int) -> Sample:
    showers = generate(rows, HELD_OUT_SEED + seed)
    return Sample(tuple(x.reshape(rows, -1) for x in (showers.scalars, showers.tracks, showers.em_barrel)), showers.energy)


TASK = Task(_sample, "sigma68 of E / E true", resolution, rows=300, rtl_rows=6, event_rows=5, larger_is_better=False)
