# SPDX-License-Identifier: Apache-2.0
"""FACILE v2's bias and resolution in bins of true energy, next to the methods without a network: FACILE's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo.facile import report, scales
from hypersonic.hls.zoo.facile.events import Events
from hypersonic.hls.zoo.facile_v2 import recipe
from hypersonic.hls.zoo.facile_v2.events import rows_of

Float = NDArray[np.float64]
Predict = Callable[[NDArray[np.float32]], ArrayLike]


@lru_cache(maxsize=1)
def float_network() -> scales.Network:
    """Return the float network that ships with the project."""
    return scales.load(Path(__file__).with_name("facile_v2_float.npz"))


def float_predict(rows: ArrayLike) -> Float:
    """Return the float network's energies (n,) in GeV for rows (n, 47) in wire units: the reference for the fabric."""
    return recipe.predict(float_network(), rows)


def resolution(methods: Mapping[str, Predict], generated: Events) -> str:
    """Return the table as text.

    Args:
        methods: name -> function from rows (n, 47) to energies (n,) in GeV; baselines are added.
    """
    rows = rows_of(generated)
    predictions = {name: np.asarray(predict(rows), np.float64) for name, predict in methods.items()}
    predictions |= report.baselines(generated.rows)
    return report.render(
        report.resolution_table(predictions, generated.energy), report.empty_channels(predictions, generated.energy)
    )
