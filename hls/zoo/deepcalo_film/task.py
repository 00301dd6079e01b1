# SPDX-License-Identifier: Apache-2.0
"""DeepCalo with scalars and tracks: the same figure of merit as for the image alone."""

from __future__ import annotations

from dataclasses import replace

from hypersonic.hls.zoo.deepcalo import task
from hypersonic.hls.zoo.deepcalo.events import generate
from hypersonic.hls.zoo.task import held_out

_SAMPLE = held_out(generate, task.HELD_OUT_SEED, "energy", ["scalars", "tracks", "em_barrel"])

TASK = replace(task.TASK, sample=_SAMPLE, rows=300, rtl_rows=6)
