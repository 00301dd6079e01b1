# SPDX-License-Identifier: Apache-2.0
"""Farms and loads that the tests of the simulation share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from hypersonic.plan.farm import Batching, Call, Queued, Take, Wait
from hypersonic.plan.farm.service import Sampler
from hypersonic.server.core.scheduling import rule as server_rule

#: FACILE's, with FP32 rows
FACILE = Call(rows=16_000, request_bytes=16_000 * 18 * 4, answer_bytes=16_000 * 4)

#: takes no time on a wire
SMALL = Call(rows=1, request_bytes=0.0, answer_bytes=0.0)


@dataclass(frozen=True)
class Exponential:
    """Exponentially distributed, whatever the rows.

    Attributes:
        mean: in seconds.
    """

    mean: float

    def mean_s(self, rows: int) -> float:
        """Return the mean."""
        return self.mean

    @property
    def cv2(self) -> float:
        """That of the exponential distribution."""
        return 1.0

    def sampler(self, random: Random) -> Sampler:
        """Return a function that draws exponential times."""
        mean, uniform, log = self.mean, random.random, math.log
        return lambda _rows: -mean * log(1.0 - uniform())


def batching_of(rule: server_rule.BatchRule) -> Batching:
    """The server's own rule, as a batching of the farm."""

    def choose(queue: Iterable[Queued], now_ns: int) -> Take | Wait:
        choice = server_rule.choose_batch(rule, (server_rule.QueuedRows(*each) for each in queue), now_ns)
        return Take(*choice) if isinstance(choice, server_rule.Take) else Wait(*choice)

    return choose
