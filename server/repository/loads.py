# SPDX-License-Identifier: Apache-2.0
"""Loads: runs the loads of several models in parallel, so that a slow or hung load does not delay the others.

A load that has run for some time stops counting towards the limit of parallel loads, because it may hang. Loads of one queue
(models that choose among the same cards) run one after the other, in order, and wait longer for each other. An ensemble is
loaded after its models.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

_LOG = logging.getLogger(__name__)


class Load(NamedTuple):
    """The load of one model.

    Attributes:
        queue: loads of the same queue run one after the other; a load that shares nothing has its own name.
        after: names whose loads have to be over first.
        work: loads the model.
    """

    name: str
    queue: str
    after: frozenset[str]
    work: Callable[[], None]


class Loads:
    """Runs loads, each on a thread of its own. Any thread may use it."""

    def __init__(self, threads: int, patience_s: float = 2.0, queue_patience_s: float = 60.0) -> None:
        """Create a Loads.

        Args:
            threads: how many loads run at one time.
            patience_s: after this time, a load does not count towards them any more.
            queue_patience_s: after this time, the next load of the same queue begins.
        """
        self._most = max(1, threads)
        self._patience_s, self._queue_patience_s = patience_s, queue_patience_s
        self._changed = threading.Condition()
        self._waiting: list[Load] = []
        self._running: dict[str, Load] = {}
        self._slow: set[str] = set()
        self._queues: dict[str, str] = {}
        self._stopped = False

    def start(self, loads: Sequence[Load]) -> None:
        """Begin loads. Returns at once. Does nothing after stop()."""
        with self._changed:
            if not self._stopped:
                self._waiting.extend(loads)
                self._go_on()

    def busy(self, name: str) -> bool:
        """Return whether a load of that name runs or waits."""
        with self._changed:
            return name in self._names()

    def wait(self, names: Collection[str], timeout_s: float | None = None) -> bool:
        """Wait until the loads of these names are over. Returns whether they are.

        Args:
            timeout_s: None = no limit.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._names() & set(names), timeout_s)

    def stop(self, timeout_s: float) -> bool:
        """Begin no more loads. Returns whether those that run ended in time."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._running, max(0.0, deadline - time.monotonic()))

    def _names(self) -> set[str]:
        return {*self._running, *(load.name for load in self._waiting)}

    def _go_on(self) -> None:
        """Begin the loads that may begin. The lock is held."""
        for load in tuple(self._waiting):
            if self._may_start(load):
                self._begin(load)
        if self._waiting and not self._running:  # ensembles that depend on each other: the load detects that
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
        except Exception:  # noqa: BLE001 - the other models have to be loaded anyway
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
