# SPDX-License-Identifier: Apache-2.0
"""Simulated loads of a site, as numbers."""

from __future__ import annotations

from dataclasses import dataclass

#: the loads of the table, as parts of N*
RATIOS = (0.5, 0.8, 0.9, 1.0, 1.1, 1.5)


@dataclass(frozen=True)
class SimulatedPoint:
    """A simulated load.

    Attributes:
        ratio: of N*.
        jobs: of the whole site.
        events_per_s: of the whole site, simulated.
        event_s: mean time per event.
        law_s: the same by the law.
        p50_s, p99_s: of a call, from request to answer.
        busy: share of time that units work.
    """

    ratio: float
    jobs: float
    events_per_s: float
    event_s: float
    law_s: float
    p50_s: float
    p99_s: float
    busy: float


@dataclass(frozen=True)
class SitePart:
    """The part of a site that is simulated.

    Attributes:
        servers: of `all_servers`.
        share: of the site's jobs and cards, above 0 to 1.
    """

    servers: int
    all_servers: int
    share: float
