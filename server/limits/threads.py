# SPDX-License-Identifier: Apache-2.0
"""ThreadQuota: threads that may wait for models, as many for one of them as are still free for the others.

The rule is that of admission.py for bytes: one model that hangs gets half of the threads and never all, two get a third each.
Work beyond that waits without a thread; whoever is done with his own goes on with it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

Work = Callable[[], object]
Result = TypeVar("Result")
#: threads beside those that may wait: they take in what comes while all others wait
RESERVE = 4


class ThreadQuota:
    """Any thread may use it. threads: that may wait at a time; who finds none taken may always."""

    def __init__(self, threads: int) -> None:
        self._most = max(1, threads)
        self._lock = threading.Lock()
        self._taken = 0
        self._held: Counter[str] = Counter()
        #: name -> its work without a thread, oldest first; the names take turns
        self._waiting: dict[str, dict[Work, None]] = {}

    def held(self, name: str) -> int:
        """Threads that wait for that one."""
        return self._held[name]

    def enter(self, name: str) -> bool:
        """Whether this thread may wait for that one; leave() follows if so."""
        with self._lock:
            return self._enter(name)

    def _enter(self, name: str) -> bool:
        held = self._held[name]
        if self._taken and held >= self._most - self._taken:
            return False
        self._held[name] = held + 1
        self._taken += 1
        return True

    def leave(self, name: str) -> None:
        """It does not wait any more. Work that may go on now gets a thread of its own."""
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

    def run(self, name: str, work: Work) -> None:
        """Do it here, if this thread may wait, else when another one may. `work` raises nothing."""
        with self._lock:
            if not self._enter(name):
                self._waiting.setdefault(name, {})[work] = None
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
        """Work that had to wait and may go on, entered. The lock is held."""
        for name in self._waiting:
            if self._enter(name):
                works = self._waiting.pop(name)
                work = next(iter(works))
                del works[work]
                if works:
                    self._waiting[name] = works  # behind the others
                return name, work
        return None

    def withdraw(self, name: str, work: Work) -> bool:
        """Forget work that has not begun; whether it had not."""
        with self._lock:
            works = self._waiting.get(name, {})
            if work not in works:
                return False
            del works[work]
            if not works:
                del self._waiting[name]
            return True


class FairPool:
    """An executor whose threads are shared by what the work waits for. threads: of work under way at a time."""

    def __init__(self, threads: int, name: str) -> None:
        self._quota = ThreadQuota(threads)
        self._pool = ThreadPoolExecutor(threads + RESERVE, thread_name_prefix=name)

    def submit(self, name: str, work: Callable[[], Result]) -> Future[Result]:
        """name: what it waits for."""
        future: Future[Result] = Future()

        def do() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
                future.set_exception(error)

        self._pool.submit(self._quota.run, name, do)
        return future

    def shutdown(self) -> None:
        """Nothing more begins; what is under way ends by itself."""
        with suppress(RuntimeError):
            self._pool.shutdown(wait=False, cancel_futures=True)
