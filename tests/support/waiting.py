# SPDX-License-Identifier: Apache-2.0
"""Wait for something that another thread or process does and that cannot be waited for directly."""

from __future__ import annotations

import time
from collections.abc import Callable

INTERVAL_S = 0.01

# Conditions are called without arguments; `...` allows those that bind the variable of a loop: `lambda name=name: ...`.


def holds_within(condition: Callable[..., object], timeout_s: float, interval_s: float = INTERVAL_S) -> bool:
    """Return True as soon as `condition()` is true, or False if it is still false after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval_s)
    return True


def wait_until(
    condition: Callable[..., object],
    timeout_s: float = 60.0,
    interval_s: float = INTERVAL_S,
    explain: Callable[[], object] | None = None,
) -> None:
    """Return as soon as `condition()` is true; fail the test after `timeout_s` seconds, with what `explain()` returns then."""
    if not holds_within(condition, timeout_s, interval_s):
        detail = "" if explain is None else f": {explain()}"
        raise AssertionError(f"the condition still does not hold after {timeout_s:g} s{detail}")
