# SPDX-License-Identifier: Apache-2.0
"""The state of the running server that the metrics and the status page read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from hypersonic.server.core.inference.repository import Repository
from hypersonic.server.limits.admission import Admission
from hypersonic.server.limits.saturation import Saturation
from hypersonic.server.limits.slow_clients import SlowClients
from hypersonic.server.statistics.refusals import Refusals


class Served(Protocol):
    """The state of the running server; wire/service/inference.py keeps it."""

    repository: Repository
    admission: Admission
    saturation: Saturation
    clients: SlowClients
    #: counts of the calls that were refused before they reached a model
    refusals: Refusals
    started_ns: int

    @property
    def ready(self) -> bool:
        """True if the server takes requests."""

    @property
    def ports(self) -> Mapping[str, int]:
        """Front end -> the port it listens on."""

    @property
    def streams(self) -> Collection[object]:
        """The open streams."""
