# SPDX-License-Identifier: Apache-2.0
"""The figures of one instance of a model version."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class InstanceFigures:
    """What one instance did since load; read by /metrics. busy_ns: with a run in flight. standby: runs only when no other
    instance is left. revived: how often it was lost and brought back. bytes_in, bytes_out: over its card's bus."""

    runs: int = 0
    timeouts: int = 0
    busy_ns: int = 0
    in_service: bool = True
    standby: bool = False
    revived: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
