# SPDX-License-Identifier: Apache-2.0
"""The figure of merit: how precisely the height is found."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def relative_width(found: ArrayLike, height: ArrayLike) -> float:
    """Return half the width of the central 68 % of found over true height; both hold one number per pulse."""
    ratio = np.asarray(found, np.float64).reshape(-1) / np.asarray(height, np.float64).reshape(-1)
    low, high = np.quantile(ratio, (0.16, 0.84))
    return float(high - low) / 2.0
