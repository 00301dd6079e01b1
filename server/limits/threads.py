# SPDX-License-Identifier: Apache-2.0
"""ThreadQuota: limits how many threads may wait for each model.

A model may use at most as many threads as then remain free for the others. This is the rule that admission.py applies to bytes:
one model that hangs gets half of the threads and never all, two get a third each. Further work waits without a thread, and a
thread that has finished continues with it: models take turns, and so do the clients of each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

Work = Callable[[], object]
Result = TypeVar("Result")
#: threads in addition to those that may wait: they accept new work while all others wait
RESERVE = 4


class ThreadQuota:
    """The threads that wait for models, by model. Any thread may use it."""

    def __init__(self, threads: int) -> None:
        """If no thread waits, the next one always may.

        Args:
            threads: how many may wait at one time.
        """
        self._most = max(1, threads)
        self._lock = threading.Lock()
        self._taken = 0
        self._held: dict[str, int] = {}
        #: name -> client -> its work without a thread, oldest first; the names take turns, and the clients of each name
        self._waiting: dict[str, dict[str, dict[Work, None]]] = {}

    def held(self, name: str) -> int:
        """Return how many threads wait for a model."""
        return self._held.get(name, 0)

    def enter(self, name: str) -> bool:
        """Return whether this thread may wait for a model. If it may, it has to call leave() afterwards."""
        with self._lock:
            return self._enter(name)

    def _enter(self, name: str) -> bool:
        held = self._held.get(name, 0)
        if self._taken and held >= self._most - self._taken:
            return False
        self._held[name] = held + 1
        self._taken += 1
        return True

    def leave(self, name: str) -> None:
        """End the waiting that enter() allowed. Work that may begin now gets a thread of its own."""
        with self._lock:
            self._leave(name)
            following = self._next() if self._waiting else None
        if following is not None:
            threading.Thread(target=self._work, args=following, name="waits", daemon=True).start()

    def _leave(self, name: str) -> None:
        self._taken -= 1
        self._held[name] -= 1
        if not self._held[name]:
            del self._held[name]

    def run(self, name: str, work: Work, client: str = "") -> None:
        """Run `work` on this thread if it may wait, otherwise later on another one. `work` must not raise exceptions.

        Args:
            client: with whose work that of other clients of the name takes turns.
        """
        with self._lock:
            if not self._enter(name):
                self._waiting.setdefault(name, {}).setdefault(client, {})[work] = None
                return
        self._work(name, work)

    def _work(self, name: str, work: Work) -> None:
        while True:
            try:
                work()
            finally:
                with self._lock:
                    self._leave(name)
                    following = self._next() if self._waiting else None
            if following is None:
                return
            name, work = following

    def _next(self) -> tuple[str, Work] | None:
        """Return waiting work that may begin now, for which enter() has been counted; None if there is none.

        The lock is held.
        """
        for name in self._waiting:
            if self._enter(name):
                clients = self._waiting.pop(name)
                client, works = next(iter(clients.items()))
                work = next(iter(works))
                del clients[client], works[work]
                if works:
                    clients[client] = works  # to the end, behind the others
                if clients:
                    self._waiting[name] = clients  # also to the end
                return name, work
        return None

    def withdraw(self, name: str, work: Work, client: str = "") -> bool:
        """Remove work that has not begun. Returns whether it had not begun."""
        with self._lock:
            clients = self._waiting.get(name, {})
            works = clients.get(client, {})
            if work not in works:
                return False
            del works[work]
            if not works:
                del clients[client]
            if not clients:
                del self._waiting[name]
            return True


def settle(future: Future[Result], work: Callable[[], Result]) -> None:
    """Set what `work` returns or raises as the outcome of a future, unless nothing waits for it any more."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - the future raises it again
        future.set_exception(error)
    else:
        future.set_result(result)


class FairPool:
    """An executor whose threads are shared fairly among the things that the work waits for."""

    def __init__(self, threads: int, name: str) -> None:
        """Create a FairPool.

        Args:
            threads: how many pieces of work run at one time.
            name: prefix of the threads' names.
        """
        self.quota = ThreadQuota(threads)
        #: for work that has to wait for nothing, or takes from the quota itself
        self.executor = ThreadPoolExecutor(threads + RESERVE, thread_name_prefix=name)

    def submit(self, name: str, work: Callable[[], Result], client: str = "") -> Future[Result]:
        """Run `work` on a thread and return its future.

        Args:
            name: the thing that it waits for, for example a model.
            client: as in ThreadQuota.run.
        """
        future: Future[Result] = Future()
        self.executor.submit(self.quota.run, name, lambda: settle(future, work), client)
        return future

    def shutdown(self) -> None:
        """Begin no more work. Does not wait for the work that is under way."""
        with suppress(RuntimeError):
            self.executor.shutdown(wait=False, cancel_futures=True)
