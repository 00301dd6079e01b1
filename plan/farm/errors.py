# SPDX-License-Identifier: Apache-2.0
"""The error of the farm simulation."""

from __future__ import annotations

import math


class FarmError(ValueError):
    """A farm, a load or a histogram cannot be simulated. The message says what, got, expected and what to do."""


def check_positive(**values: float) -> None:
    """Raise FarmError for a value that is not a positive number; infinity is allowed."""
    for name, value in values.items():
        if not value > 0:
            raise FarmError(f"{name} is {value!r}, expected a number above 0; change it")


def check_not_negative(**values: float) -> None:
    """Raise FarmError for a value that is negative, infinite or not a number."""
    for name, value in values.items():
        if not (value >= 0 and math.isfinite(value)):
            raise FarmError(f"{name} is {value!r}, expected a finite number of 0 or more; change it")


def check_count(least: int, **values: int) -> None:
    """Raise FarmError for a value that is not a whole number of at least `least`."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise FarmError(f"{name} is {value!r}, expected a whole number of {least} or more; change it")
