# SPDX-License-Identifier: Apache-2.0
"""Duration: a count and a total time, as in Triton's StatisticDuration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Duration:
    """How often something happened, and how long it took in total, in ns."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int) -> None:
        """Add one event of `ns`; a negative time counts as 0."""
        self.count += 1
        self.ns += max(0, ns)

    def copy(self) -> Duration:
        """Return an independent copy."""
        return Duration(self.count, self.ns)
