# SPDX-License-Identifier: Apache-2.0
"""InstanceFigures: the counts of one instance of a model version."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class InstanceFigures:
    """The counts of one instance since its load, which /metrics shows.

    Attributes:
        timeouts: runs that did not end in time.
        busy_ns: time with a run in flight.
        standby: it runs only when no other instance is left.
        revived: how often it was lost and brought back into service.
        bytes_in, bytes_out: bytes over its card's bus.
    """

    runs: int = 0
    timeouts: int = 0
    busy_ns: int = 0
    in_service: bool = True
    standby: bool = False
    revived: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
