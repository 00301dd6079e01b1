# SPDX-License-Identifier: Apache-2.0
"""DeepMET's figure of merit: the error of the missing momentum."""

from __future__ import annotations

from hypersonic.hls.zoo.deepmet import events
from hypersonic.hls.zoo.deepmet.report import resolutions
from hypersonic.hls.zoo.task import Outputs, Sample, Task


def width_gev(outputs: Outputs, generated: events.Events) -> float:
    """Return half the width of the central 68 % of the errors of px and py, in GeV."""
    return resolutions(generated, {"network": outputs[0]})[-1].width


def _sample(rows: int, seed: int) -> Sample:
    generated = events.generate(rows, events.HELD_OUT_SEED + 100 + seed)
    return Sample(tuple(x.reshape(rows, -1) for x in events.network_inputs(generated)), generated)


TASK = Task(_sample, "68 % width of px, py in GeV", width_gev, rows=200, rtl_rows=8, event_rows=1, larger_is_better=False)
