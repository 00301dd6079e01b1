# SPDX-License-Identifier: Apache-2.0
"""How far answers are from the trained model's, in relation to how much these vary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: a difference beyond this share of the answers' own spread is called far
FAR = 0.05


def relative_difference(got: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
    """Return the rms of got - wanted over the standard deviation of `wanted`, or over its magnitude if it does not vary."""
    off = float(np.sqrt(np.mean((got - wanted) ** 2)))
    spread = float(np.std(wanted)) or float(np.abs(wanted).max())
    return off / spread if spread else (0.0 if off == 0 else float("inf"))


def is_far(got: NDArray[np.float64], wanted: NDArray[np.float64]) -> bool:
    """Return whether the relative difference is more than FAR, or not a number."""
    return not relative_difference(got, wanted) <= FAR


def closeness(got: NDArray[np.float64], wanted: NDArray[np.float64]) -> str:
    """Return a line about one output. got, wanted: (rows, elements), in its units on the wire."""
    share, worst = relative_difference(got, wanted), float(np.abs(got - wanted).max())
    verdict = "far from" if is_far(got, wanted) else "close to"
    return (
        f"{verdict} the trained model: rms difference {100 * share:.2g} % of the answers' spread, worst difference {worst:.4g}"
    )
