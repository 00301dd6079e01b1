# SPDX-License-Identifier: Apache-2.0
"""The instructions of bench/stock/run.py to the process that runs the cases, passed in one environment variable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.stock.cases import place_of

VARIABLE = "HYPERSONIC_STOCK_CASES"


@dataclass(frozen=True)
class Order:
    """Which cases to run and how.

    results: the file of JSON lines. now: a file for the name of the running case. until: the time to end at, in seconds since
    the epoch. limit_s: most seconds of processor time of a case. only: the only cases to run; empty for all. keras: 2 or
    3, the one that `import keras` gives. rtl: whether the RTL answers, not the exact model of the core. part: (index, count) of
    the process among those that share the cases.
    """

    results: str
    now: str
    until: float
    limit_s: float
    only: tuple[str, ...]
    keras: int
    rtl: bool
    part: tuple[int, int] = (0, 1)

    def takes(self, case: str) -> bool:
        """Return whether the case belongs to this process."""
        index, count = self.part
        return int(place_of(case), 16) % count == index

    def to_environment(self) -> dict[str, str]:
        """Return the variable and its value."""
        return {VARIABLE: json.dumps(asdict(self))}

    @property
    def listed(self) -> Path:
        """The file for the names of all cases."""
        return listed_in(Path(self.results), self.keras)


def order_in(environment: Mapping[str, str]) -> Order:
    """Return the order in this environment."""
    value = json.loads(environment[VARIABLE])
    return Order(**{**value, "only": tuple(value["only"]), "part": tuple(value["part"])})


def listed_in(results: Path, keras: int) -> Path:
    """Return the file for the names of all cases, beside the results."""
    return results.with_suffix(f".keras{keras}.json")
