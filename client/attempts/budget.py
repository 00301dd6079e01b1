# SPDX-License-Identifier: Apache-2.0
"""The retry budget: a token bucket that all requests of a client share."""

from __future__ import annotations

import threading

from hypersonic.client.settings import Budget


class TokenBucket:
    """A retry takes a token, and an answer adds a part of one. Any thread may use it."""

    def __init__(self, budget: Budget) -> None:
        self._budget, self._tokens = budget, budget.tokens
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take a token for a retry. Returns False if none is left."""
        with self._lock:
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True

    def give(self) -> None:
        """Add what an answer adds to the tokens."""
        with self._lock:
            self._tokens = min(self._budget.tokens, self._tokens + self._budget.per_success)
