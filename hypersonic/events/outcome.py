# SPDX-License-Identifier: Apache-2.0
"""The result of sending events, and the card for which a rate is predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.events.sending import Answers
from hypersonic.firmware.estimate.rates import NETWORK_GBPS, CardRate
from hypersonic.hls.tune.labels import Labels
from hypersonic.hls.zoo.facile.report import EmptyChannels, Resolution

#: the served model's name in the table of methods
SERVED = "served"


@dataclass(frozen=True)
class OnCard:
    """The card of a predicted rate.

    Attributes:
        network_gbps: the server's network, Gb/s.
        kernel_mhz: 0 is the card's default clock.
    """

    platform: str = "u250"
    network_gbps: float = NETWORK_GBPS
    kernel_mhz: float = 0.0


ON_U250 = OnCard()


@dataclass(frozen=True)
class Merit:
    """A model's figure of merit on the events that were sent.

    Attributes:
        name: what the figure is, or why there is none.
        served: the figure of the server's answers, or None.
        before: that of the network before it was quantised, or None.
        warning: a sentence if it is worse by more than a tenth.
    """

    name: str
    served: float | None
    before: float | None
    warning: str = ""


@dataclass(frozen=True)
class Judged:
    """The answers to a user's rows.

    answers: of the server and of the trained model, (rows, elements) for each output, in the wire's units.

    Attributes:
        labels: of the outputs that have any.
        figures: (name, value by engine, meaning), for the engines "served" and "trained".
    """

    served: tuple[NDArray[np.float64], ...]
    trained: tuple[NDArray[np.float64], ...]
    labels: tuple[Labels, ...]
    figures: tuple[tuple[str, dict[str, float], str], ...]


@dataclass(frozen=True)
class Outcome:
    """The result of sending events.

    Attributes:
        compared: the number of integers that equal csim's; 0: not checked.
        clocks: kernel clocks of all events.
        rows: rows of an event.
        resolution, empty: FACILE's tables; empty for other models.
        rate: the predicted rate on a card; None if no clocks were counted (sw_emu has no clock).
        judged: of a user's own rows; None for generated ones.
    """

    model: str
    load: Answers
    clients: int
    clocks: int
    compared: int
    rows: int
    merit: Merit
    resolution: tuple[Resolution, ...]
    empty: tuple[EmptyChannels, ...]
    rate: CardRate | None = None
    judged: Judged | None = None

    @property
    def own_rows(self) -> int:
        """The number of a user's rows; 0 for generated ones."""
        return len(self.judged.served[0]) if self.judged else 0

    @property
    def mean_rows(self) -> float:
        """Mean rows of an event: of a user's rows, the last requests may have one row less than the first."""
        return self.own_rows / len(self.load.outputs) if self.judged else float(self.rows)

    @property
    def clocks_per_event(self) -> float:
        """Mean kernel clocks of an event; 0 if none were counted."""
        return self.clocks / len(self.load.outputs)

    def figures(self) -> dict[str, Any]:
        """Return the table's numbers by name, with units in the names.

        A user's rows are sent in requests, generated ones in events. Without counted clocks there are no entries for clocks and
        card; "merit" is None for a model without a figure of merit.
        """
        sent = "request" if self.judged else "event"
        clocks = {f"clocks_per_{sent}": self.clocks_per_event, "card": self.rate.as_data()} if self.rate else {}
        return {
            f"{sent}s": len(self.load.outputs),
            "clients": self.clients,
            "integers_equal_to_csim": self.compared,
            f"{sent}s_per_s": self.load.events_per_s,
            "latency_p50_ms": self.load.latency_ms(0.5),
            "latency_p99_ms": self.load.latency_ms(0.99),
            **(self._own_figures(self.judged) if self.judged else {"rows_an_event": self.rows, "merit": self.merit.served}),
            **clocks,
        }

    def _own_figures(self, judged: Judged) -> dict[str, Any]:
        return {
            "rows": self.own_rows,
            "rows_per_s": self.mean_rows * self.load.events_per_s,
            "rows_a_request": self.mean_rows,
            "own": {name: values for name, values, _ in judged.figures},
        }
