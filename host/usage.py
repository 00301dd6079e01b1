# SPDX-License-Identifier: Apache-2.0
"""CardUsage: what this process has sent to a card and fetched from it, and what it holds in each memory bank."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping


class CardUsage:
    """The counters of one card, over all xclbins that this process has loaded to it. Any thread may use it.

    bytes_to_card, bytes_from_card: copied by syncs of buffer objects, with the weights; 0 where card and host share memory.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self.bytes_to_card = self.bytes_from_card = 0

    def add_copy(self, size_bytes: int, *, to_card: bool) -> None:
        """Count a copy."""
        with self._lock:
            if to_card:
                self.bytes_to_card += size_bytes
            else:
                self.bytes_from_card += size_bytes

    def hold(self, bank: str, size_bytes: int) -> None:
        """Count a buffer object in a bank; a negative size for one that was freed."""
        with self._lock:
            self._held[bank] += size_bytes

    def held_bytes(self) -> Mapping[str, int]:
        """The bytes in buffer objects by the bank's tag in the xclbin, such as bank0 or HBM[3]."""
        with self._lock:
            return dict(self._held)
