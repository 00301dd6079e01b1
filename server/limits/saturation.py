# SPDX-License-Identifier: Apache-2.0
"""Saturation: reports budgets that have run out in the log and in the server's readiness.

While only addresses that have reached their share are refused, the server stays ready, because others have room. The server is
not ready when it has refused, or would have refused, every new address for five seconds without interruption.
"""

from __future__ import annotations

import logging
import time

from hypersonic.server.limits.budget import Budget

_LOG = logging.getLogger(__name__)
#: how long new addresses have to be refused before the server is not ready, and how long no client may be refused before the
#: log reports the end, in seconds
_PATIENCE_S = 5.0


class Saturation:
    """Watches budgets. Any thread may ask; one thread calls update() about once a second."""

    def __init__(self) -> None:
        """Begin without budgets."""
        #: name -> budget
        self.budgets: dict[str, Budget] = {}
        #: name -> (refusals so far, time of the last one), for budgets that the log has reported as saturated
        self._reported: dict[str, tuple[int, float]] = {}
        #: those that the log has reported as refusing new addresses too
        self._reported_full: set[str] = set()
        self._seen: dict[str, int] = {}
        self._refused_all = False

    def add(self, name: str, budget: Budget) -> Budget:
        """Watch a budget, and return it.

        Args:
            name: its name in the log and in metrics.
        """
        self.budgets[name] = budget
        return budget

    @property
    def refuses_all(self) -> bool:
        """True if new addresses have been refused for five seconds."""
        now = time.monotonic()
        return any(_full_for_s(budget, now) >= _PATIENCE_S for budget in self.budgets.values())

    def update(self) -> bool:
        """Log each change once. Returns whether refuses_all has changed."""
        now = time.monotonic()
        for name, budget in self.budgets.items():
            self._tell(name, budget, now)
        before, self._refused_all = self._refused_all, self.refuses_all
        return before != self._refused_all

    def _tell(self, name: str, budget: Budget, now: float) -> None:
        refusals = budget.refusals
        more = refusals - self._seen.get(name, 0)
        self._seen[name] = refusals
        reported = self._reported.get(name)
        full = budget.full_since is not None and name not in self._reported_full
        if (reported is None or full) and more:
            self._reported[name] = ((reported[0] if reported else 0) + more, now)
            if full:
                self._reported_full.add(name)
            _LOG.warning(
                "the budget '%s' is saturated for %s: %d of %d are in use; new addresses %s",
                name, budget.last_refused, budget.used, budget.limit, "are refused" if full else "have room",
            )  # fmt: skip
        elif reported is not None and (more or budget.full_since):
            self._reported[name] = (reported[0] + more, now)
        elif reported is not None and now - reported[1] >= _PATIENCE_S:
            del self._reported[name]
            self._reported_full.discard(name)
            _LOG.info(
                "the budget '%s' has room again: %d of %d are in use; %d refusals", name, budget.used, budget.limit, reported[0]
            )


def _full_for_s(budget: Budget, now: float) -> float:
    since = budget.full_since
    return 0.0 if since is None else now - since
