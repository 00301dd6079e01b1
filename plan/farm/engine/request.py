# SPDX-License-Identifier: Apache-2.0
"""A request on its way through the farm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from hypersonic.plan.farm.loads import Call


class Owner(Protocol):
    """Whoever sent a request: the clients of a load.

    Attributes:
        client_bits_per_s: of a client's own network.
    """

    client_bits_per_s: float

    def answered(self, request: Request, /) -> None:
        """The answer has come; the request may have ended before."""
        ...

    def attempt_failed(self, request: Request, /) -> None:
        """The attempt was refused or lost."""
        ...

    def served(self, queue_s: float, /) -> None:
        """A unit has finished a request that waited for so long."""
        ...


class Request:
    """A request of a client, with all its attempts, of which one is under way at a time.

    Attributes:
        owner: whom the network tells about its attempts.
        call: what it asks.
        over: True once it has ended.
        queued: True while it waits in the server's queue.
        server: index of the server that works on the current attempt; -1 if none does.
        proxy: index of the proxy that the current attempt passes.
        left_rows: rows that are not yet in an execution.
        unfinished_rows: rows that are not yet executed.
        started_s: when the first execution began.

    Args:
        ended: called once, when the request is answered, refused or past its deadline.
    """

    __slots__ = (
        "call", "client", "deadline_s", "ended", "enqueued_s", "left_rows", "over", "owner", "proxy", "queued", "retries",
        "sent_s", "server", "started_s", "unfinished_rows",
    )  # fmt: skip

    def __init__(
        self, owner: Owner, call: Call, client: int, sent_s: float, deadline_s: float, ended: Callable[[Request], None]
    ) -> None:
        self.owner, self.call = owner, call
        self.client, self.sent_s, self.deadline_s, self.ended = client, sent_s, deadline_s, ended
        self.over = self.queued = False
        self.server, self.proxy, self.retries = -1, 0, 0
        self.left_rows = self.unfinished_rows = 0
        self.enqueued_s, self.started_s = 0.0, math.inf
