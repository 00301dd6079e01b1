# SPDX-License-Identifier: Apache-2.0
"""Triton's StatisticDuration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Duration:
    """How often, and how long in total."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int) -> None:
        self.count += 1
        self.ns += max(0, ns)

    def copy(self) -> Duration:
        return Duration(self.count, self.ns)
