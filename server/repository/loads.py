# SPDX-License-Identifier: Apache-2.0
"""Loads: the loads of several models side by side, so that one that is slow or hangs delays none of the others.

A load that is under way for some time makes room for the next one: it may hang. Loads of one queue (models that choose among
the same cards) come one after another, in order, and wait longer; an ensemble's comes after those of its models.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

_LOG = logging.getLogger(__name__)


class Load(NamedTuple):
    """queue: what it shares with others, its name where it shares nothing. after: names whose loads have to be over first."""

    name: str
    queue: str
    after: frozenset[str]
    work: Callable[[], None]


class Loads:
    """threads: loads under way at a time. Any thread may use it.

    patience_s: after which a load is not counted among them any more. queue_patience_s: after which the next of its queue
    begins.
    """

    def __init__(self, threads: int, patience_s: float = 2.0, queue_patience_s: float = 60.0) -> None:
        self._most = max(1, threads)
        self._patience_s, self._queue_patience_s = patience_s, queue_patience_s
        self._changed = threading.Condition()
        self._waiting: list[Load] = []
        self._running: dict[str, Load] = {}
        self._slow: set[str] = set()
        self._queues: dict[str, str] = {}
        self._stopped = False

    def start(self, loads: Sequence[Load]) -> None:
        """Begin; returns at once."""
        with self._changed:
            if not self._stopped:
                self._waiting.extend(loads)
                self._go_on()

    def busy(self, name: str) -> bool:
        """Whether a load of that name is under way or waits."""
        with self._changed:
            return name in self._names()

    def wait(self, names: Collection[str], timeout_s: float | None = None) -> bool:
        """Until the loads of these names are over; whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._names() & set(names), timeout_s)

    def stop(self, timeout_s: float) -> bool:
        """Begin no more; whether those under way ended in time."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._running, max(0.0, deadline - time.monotonic()))

    def _names(self) -> set[str]:
        return {*self._running, *(load.name for load in self._waiting)}

    def _go_on(self) -> None:
        """Start what may start. The lock is held."""
        for load in tuple(self._waiting):
            if self._may_start(load):
                self._begin(load)
        if self._waiting and not self._running:  # ensembles that need each other: the load finds that out
            self._begin(self._waiting[0])

    def _may_start(self, load: Load) -> bool:
        return (
            len(self._running) - len(self._slow) < self._most
            and load.name not in self._running
            and load.queue not in self._queues
            and not load.after & self._names()
        )

    def _begin(self, load: Load) -> None:
        self._waiting.remove(load)
        self._running[load.name] = load
        self._queues[load.queue] = load.name
        patience = [
            threading.Timer(self._patience_s, self._lose_patience, (load,)),
            threading.Timer(self._queue_patience_s, self._leave_queue, (load,)),
        ]
        for timer in patience:
            timer.daemon = True
            timer.start()
        threading.Thread(target=self._run, args=(load, patience), name=f"loads {load.name}", daemon=True).start()

    def _lose_patience(self, load: Load) -> None:
        with self._changed:
            if self._running.get(load.name) is load:
                self._slow.add(load.name)
                self._go_on()

    def _leave_queue(self, load: Load) -> None:
        with self._changed:
            if self._queues.get(load.queue) == load.name:
                del self._queues[load.queue]
                self._go_on()

    def _run(self, load: Load, patience: Sequence[threading.Timer]) -> None:
        try:
            load.work()
        except Exception:  # noqa: BLE001 - the others have to be loaded all the same
            _LOG.exception("the load of '%s' failed", load.name)
        for timer in patience:
            timer.cancel()
        with self._changed:
            del self._running[load.name]
            self._slow.discard(load.name)
            if self._queues.get(load.queue) == load.name:
                del self._queues[load.queue]
            self._go_on()
            self._changed.notify_all()
