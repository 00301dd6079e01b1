# SPDX-License-Identifier: Apache-2.0
"""Farms and loads that the tests of the simulation share."""

from __future__ import annotations

from collections.abc import Iterable

from hypersonic.plan.farm import Batching, Call, Queued, Take, Wait
from hypersonic.server.core.scheduling import rule as server_rule

#: FACILE's, with FP32 rows
FACILE = Call(rows=16_000, request_bytes=16_000 * 18 * 4, answer_bytes=16_000 * 4)

#: takes no time on a wire
SMALL = Call(rows=1, request_bytes=0.0, answer_bytes=0.0)


def batching_of(rule: server_rule.BatchRule) -> Batching:
    """The server's own rule, as a batching of the farm."""

    def choose(queue: Iterable[Queued], now_ns: int) -> Take | Wait:
        choice = server_rule.choose_batch(rule, (server_rule.QueuedRows(*each) for each in queue), now_ns)
        return Take(*choice) if isinstance(choice, server_rule.Take) else Wait(*choice)

    return choose
