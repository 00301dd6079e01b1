# SPDX-License-Identifier: Apache-2.0
"""The outcome of a load of events, and the card that its rate is predicted for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypersonic.client.load import LoadResult
from hypersonic.firmware.estimate.rates import NETWORK_GBPS, CardRate
from hypersonic.hls.zoo.facile.report import EmptyChannels, Resolution

#: the served model's name in the table of methods
SERVED = "served"


@dataclass(frozen=True)
class OnCard:
    """The card of a predicted rate. platform: its name. network_gbps: of the server. kernel_mhz: 0 is the card's default."""

    platform: str = "u250"
    network_gbps: float = NETWORK_GBPS
    kernel_mhz: float = 0.0


ON_U250 = OnCard()


@dataclass(frozen=True)
class Merit:
    """The model's figure of merit on what was sent. served: None, there is none, and name says why. before: the same figure of
    the network before it was quantised."""

    name: str
    served: float | None
    before: float | None


@dataclass(frozen=True)
class Outcome:
    """The outcome of a load. compared: integers equal to csim's (0: not checked). clocks: kernel clocks of all events.

    rows: of an event. resolution, empty: FACILE's tables, nothing for others. rate: what these clocks mean on a card; None
    where none were counted (sw_emu has no clock).
    """

    model: str
    load: LoadResult
    clients: int
    clocks: int
    compared: int
    rows: int
    merit: Merit
    resolution: tuple[Resolution, ...]
    empty: tuple[EmptyChannels, ...]
    rate: CardRate | None = None

    @property
    def clocks_per_event(self) -> float:
        return self.clocks / len(self.load.outputs)

    def figures(self) -> dict[str, Any]:
        """The numbers of the table, by name with units; no clocks and no card where none were counted, and no merit where
        nothing was trained."""
        clocks = {"clocks_per_event": self.clocks_per_event, "card": self.rate.as_data()} if self.rate else {}
        return {
            "events": len(self.load.outputs),
            "clients": self.clients,
            "integers_equal_to_csim": self.compared,
            "events_per_s": self.load.events_per_s,
            "latency_p50_ms": self.load.latency_ms(0.5),
            "latency_p99_ms": self.load.latency_ms(0.99),
            "rows_an_event": self.rows,
            "merit": self.merit.served,
            **clocks,
        }
