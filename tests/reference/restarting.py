# SPDX-License-Identifier: Apache-2.0
"""Servers that are started again when the reference among them has ended by itself: tritonserver 2.51 was seen to (a
segmentation fault after "HandleCancellation called even when the context was not cancelled"), and every later test met a
closed port."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Generic, TypeVar

from tests.reference.servers import Served

Servers = TypeVar("Servers")
Answer = TypeVar("Answer")


class ReferenceCrashedError(RuntimeError):
    """The reference ended by itself, again, while it was asked: nothing was compared."""


class Restarting(Generic[Servers]):
    """start: enters a whole set of servers, nothing of an earlier one in it. reference: the one of them that may end by itself.

    crashes: how it ended, each time.
    """

    def __init__(self, start: Callable[[], AbstractContextManager[Servers]], reference: Callable[[Servers], Served]) -> None:
        self.crashes: list[str] = []
        self._start, self._reference = start, reference
        self._stack = ExitStack()
        self._running: Servers | None = None

    def running(self) -> Servers:
        """The servers, as they are while the reference lives, otherwise all of them new. Raises StartError."""
        if self.has_crashed() or self._running is None:
            self._running = self._stack.enter_context(self._start())
        return self._running

    def ask(self, question: Callable[[Servers], Answer]) -> Answer:
        """Its answer by servers that lived through it. When the reference ended meanwhile, whatever was found is forgotten and
        the question is asked once more. Raises ReferenceCrashedError when that one ends, too.
        """
        for _ in range(2):
            servers = self.running()
            try:
                answer = question(servers)
            except Exception:
                if not self.has_crashed():
                    raise
            else:
                if not self.has_crashed():
                    return answer
        raise ReferenceCrashedError(f"the reference crashed twice, so nothing is compared: {'; '.join(self.crashes[-2:])}")

    def has_crashed(self) -> bool:
        """Whether the reference has ended since it was last started; then all of the servers are stopped."""
        ended = self._reference(self._running).ended() if self._running is not None else ""
        if ended:
            self.crashes.append(ended)
            self.close()
        return bool(ended)

    def close(self) -> None:
        self._running = None
        self._stack.close()
