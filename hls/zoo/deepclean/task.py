# SPDX-License-Identifier: Apache-2.0
"""DeepClean's figure of merit: how much of the witnessed noise it predicts."""

from __future__ import annotations

from hypersonic.hls.zoo.deepclean import events
from hypersonic.hls.zoo.deepclean.report import cleaned
from hypersonic.hls.zoo.task import Outputs, Sample, Task


def explained(outputs: Outputs, segments: events.Segments) -> float:
    """Return the fraction of the witnessed noise's power that is removed; 1: all of it."""
    return cleaned(segments, {"network": outputs[0]})[-1].explained


def _sample(rows: int, seed: int) -> Sample:
    generated = events.generate(rows, events.HELD_OUT_SEED + 100 + seed)
    return Sample((generated.witness.reshape(rows, -1),), generated)


TASK = Task(_sample, "part of the witnessed noise's power taken", explained, rows=40, rtl_rows=4, event_rows=1)
