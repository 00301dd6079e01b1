# SPDX-License-Identifier: Apache-2.0
"""CardWait: since when a model that takes turns waits for a card, and how long it has waited. Times are monotonic ns, 0 = none.

For the rule, a wait goes on while requests come and are given up: it ends with a stay on a card, in which requests ran or which
lasted for a residency. For the metrics, a wait is that of the oldest request that still waits.
"""

from __future__ import annotations

from hypersonic.server.backends.fpga.turn_rule import OVERDUE


class CardWait:
    """The waits of one model.

    Args:
        residency_ns: the model's own.

    Attributes:
        total_ns: how long requests have waited for a card.
        longest_ns: the longest of these waits.
    """

    def __init__(self, residency_ns: int) -> None:
        self.total_ns = self.longest_ns = 0
        self._residency_ns = residency_ns
        #: when the wait began, and when the last request of it came
        self._begun_ns = self._asked_ns = 0
        self._arrived_ns = self._left_ns = 0
        #: until when waits are counted in total_ns
        self._counted_ns = 0

    def ask(self, now_ns: int) -> None:
        """Record a request that found the model on no card. It begins a wait, unless the last one came not long ago."""
        if now_ns - self._asked_ns > OVERDUE * self._residency_ns:
            self._begun_ns = 0
        self._begun_ns = self._begun_ns or now_ns
        self._asked_ns = now_ns

    def arrive(self, now_ns: int) -> None:
        """Record that the model is on a card."""
        self._arrived_ns = now_ns

    def leave(self, now_ns: int, used_ns: int) -> None:
        """Record that the model is on no card.

        Args:
            used_ns: when its last run began.
        """
        if used_ns >= self._arrived_ns or now_ns - self._arrived_ns >= self._residency_ns:
            self._begun_ns = 0
        self._left_ns = now_ns

    def since_ns(self, oldest_ns: int) -> int:
        """Return since when the waiting requests wait for a card.

        Args:
            oldest_ns: when the oldest of them arrived.
        """
        return max(oldest_ns, self._left_ns) if oldest_ns else 0

    def due_ns(self, oldest_ns: int) -> int:
        """Return since when the model waits, for the rule; 0 if no request waits now."""
        since_ns = self.since_ns(oldest_ns)
        return min(since_ns, self._begun_ns or since_ns)

    def count(self, since_ns: int, now_ns: int) -> None:
        """Count a wait until now; what was counted before is not counted again.

        Args:
            since_ns: as returned by since_ns().
        """
        if since_ns:
            since_ns = max(since_ns, self._left_ns)  # it may have left its card since then
            self.longest_ns = max(self.longest_ns, now_ns - since_ns)
            self.total_ns += max(0, now_ns - max(since_ns, self._counted_ns))
            self._counted_ns = max(now_ns, self._counted_ns)
