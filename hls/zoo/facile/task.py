# SPDX-License-Identifier: Apache-2.0
"""FACILE's figure of merit: the width of reconstructed over true energy, for channels well above noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.facile.events import Events, log_flat_events
from hypersonic.hls.zoo.facile.geometry import CHANNELS
from hypersonic.hls.zoo.facile.report import float_predict, half_width68
from hypersonic.hls.zoo.task import Inputs, Outputs, Sample, Task

#: channels of lower true energy are mostly noise and are left out
_LEAST_GEV = 5.0


def resolution(outputs: Outputs, energy: NDArray[np.float32]) -> float:
    """Return half the width of the central 68 % of reconstructed over true energy, for true energies above 5 GeV.

    Args:
        outputs: one array (n, 1), GeV.
        energy: the truth (n,), GeV.
    """
    true = np.asarray(energy, np.float64).reshape(-1)
    kept = true > _LEAST_GEV
    return half_width68(outputs[0].reshape(-1)[kept] / true[kept])


def thinned(rows: int, seed: int) -> tuple[Events, slice]:
    """Generate whole events and return them with a slice that selects at least `rows` of their channels, evenly spaced."""
    generated = log_flat_events(-(-rows // CHANNELS), seed)
    return generated, slice(None, None, max(1, len(generated.rows) // rows))


def _sample(rows: int, seed: int) -> Sample:
    generated, kept = thinned(rows, seed)
    return Sample((np.ascontiguousarray(generated.rows[kept]),), generated.energy[kept])


def _float(inputs: Inputs) -> Outputs:
    return (float_predict(inputs[0]).reshape(-1, 1),)


TASK = Task(
    _sample, "sigma68 of E / E true above 5 GeV", resolution, _float, rows=16_000, rtl_rows=16_000, event_rows=CHANNELS,
    larger_is_better=False,
)  # fmt: skip
