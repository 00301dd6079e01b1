# SPDX-License-Identifier: Apache-2.0
"""UnitClocks: how many of a compute unit's clocks each model's runs took."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from hypersonic.firmware.kernel.registers import BUSY_CYCLES
from hypersonic.host.errors import DeviceError
from hypersonic.host.sharing.order import Flow


class UnitClocks:
    """The counter BUSY_CYCLES of a compute unit, divided among its models. Any thread may use it.

    Runs of different flows do not overlap on a unit, so it is enough to read the counter when another flow begins.

    Args:
        read_register: None for a unit whose registers are not to be read; every count is then 0.
    """

    def __init__(self, read_register: Callable[[int], int] | None) -> None:
        self._read_register = read_register
        self._lock = Lock()
        self._owner: Flow | None = None
        self._counted = 0
        self._clocks: dict[Flow, int] = {}

    def begin(self, flow: Flow) -> None:
        """Count the clocks from now on for this flow. No run of another flow may be in flight."""
        if flow is not self._owner:
            with self._lock:
                self._count()
                self._owner = flow

    def of(self, flow: Flow) -> int:
        """Return the clocks in which a run of the flow was in flight; 0 where registers cannot be read."""
        with self._lock:
            self._count()
            return self._clocks.get(flow, 0)

    def _count(self) -> None:
        """Add the clocks since the last call to the count of the flow that has used the unit. The lock is held."""
        now = read_busy_cycles(self._read_register) if self._read_register else None
        if now is None:
            return
        if self._owner is not None:
            self._clocks[self._owner] = self._clocks.get(self._owner, 0) + now - self._counted
        self._counted = now


def read_busy_cycles(read_register: Callable[[int], int]) -> int | None:
    """Return the 64-bit counter BUSY_CYCLES, None where registers cannot be read.

    The words are read again until the high word was the same before and after the low word.
    """
    try:
        high = read_register(BUSY_CYCLES + 4)
        while True:
            low = read_register(BUSY_CYCLES)
            before, high = high, read_register(BUSY_CYCLES + 4)
            if before == high:
                return high << 32 | low
    except DeviceError:
        return None
