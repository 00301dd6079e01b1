# SPDX-License-Identifier: Apache-2.0
"""Wires and cores: resources that serve in FIFO order, so that the end of a use is known when it is added.

Uses have to be added in the order in which they begin to wait. This holds without an event for each step: every call crosses
the same wires with the same delays, and all calls of a load have the same size.
"""

from __future__ import annotations

from heapq import heapreplace

from hypersonic.plan.farm.engine.meter import Shares
from hypersonic.plan.farm.machines import Link


class Wire:
    """One direction of a link."""

    __slots__ = ("_bit_s", "_free_s", "delay_s", "shares")

    def __init__(self, link: Link, shares: Shares) -> None:
        self._bit_s, self.delay_s = 1.0 / link.free_bits_per_s, link.delay_s
        self._free_s, self.shares = 0.0, shares

    def cross(self, bits: float, first_s: float, last_s: float) -> tuple[float, float]:
        """Return when the first and the last bit are at the other end.

        Args:
            first_s, last_s: when they are at this end.
        """
        if not self._bit_s:
            return first_s + self.delay_s, last_s + self.delay_s
        begin_s = max(first_s, self._free_s)
        self._free_s = end_s = begin_s + bits * self._bit_s
        self.shares.add(begin_s, end_s)
        return begin_s + self.delay_s, max(end_s, last_s) + self.delay_s


class Cores:
    """The processor cores of a server."""

    __slots__ = ("_free_s", "count", "shares")

    def __init__(self, count: int, shares: Shares) -> None:
        #: when each core is free, as a heap
        self._free_s, self.count, self.shares = [0.0] * count, count, shares

    def use(self, now_s: float, seconds: float) -> float:
        """Return when the first free core has finished work of this duration."""
        begin_s = max(now_s, self._free_s[0])
        end_s = begin_s + seconds
        heapreplace(self._free_s, end_s)
        self.shares.add(begin_s, end_s)
        return end_s
