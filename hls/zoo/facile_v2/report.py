# SPDX-License-Identifier: Apache-2.0
"""FACILE v2 in FACILE's table: bias and resolution in bins of true energy, beside the methods without a network."""

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
    """The float network that ships with the project."""
    return scales.load(Path(__file__).with_name("facile_v2_float.npz"))


def float_predict(rows: ArrayLike) -> Float:
    """Rows (n, 47) as on the wire -> energies (n,) in GeV by the float network: the reference the fabric is held to."""
    return recipe.predict(float_network(), rows)


def resolution(methods: Mapping[str, Predict], made: Events) -> str:
    """The table as text. methods: name -> rows (n, 47) to energies (n,) in GeV; the baselines are added."""
    rows = rows_of(made)
    predictions = {name: np.asarray(predict(rows), np.float64) for name, predict in methods.items()}
    predictions |= report.baselines(made.rows)
    return report.render(report.resolution_table(predictions, made.energy), report.empty_channels(predictions, made.energy))
