# SPDX-License-Identifier: Apache-2.0
"""EmTrkMichelId's figure of merit: the fraction of patches whose kind (track, shower, nothing) is found."""

from __future__ import annotations

from hypersonic.hls.zoo.emtrk.events import generate
from hypersonic.hls.zoo.task import Task, accuracy, held_out

_HELD_OUT_SEED = 9_100

TASK = Task(
    held_out(generate, _HELD_OUT_SEED, "kind", ["image"]), "accuracy over three kinds", accuracy, rows=300, rtl_rows=12,
    event_rows=235,
)  # fmt: skip
