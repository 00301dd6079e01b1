# SPDX-License-Identifier: Apache-2.0
"""Waiting for other threads in a test."""

from __future__ import annotations

import threading
from collections.abc import Callable


def settled(condition: Callable[[], bool]) -> None:
    """Wait until the other threads have come so far."""
    waiting = threading.Event()
    for _ in range(1000):
        if condition():
            return
        waiting.wait(0.005)
    raise TimeoutError
