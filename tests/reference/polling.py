# SPDX-License-Identifier: Apache-2.0
"""Looking again and again at what another process does, which tells nobody."""

from __future__ import annotations

import time
from collections.abc import Callable

_STEP_S = 0.01


def came(holds: Callable[[], bool], seconds: float) -> bool:
    """Whether it came to hold within that time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(_STEP_S)
    return True
