# SPDX-License-Identifier: Apache-2.0
"""Supervisor: the threads that an owner needs, such as the runners of a model. One that ends by an exception begins again once.

::

    work() raises -> `reason` is set, on_change() -> PAUSE_S -> `reason` is "", on_change() -> work() raises -> `reason` is set

In the meantime, and after the second exception, the owner refuses requests with the reason, so that nobody waits for a thread
that does not run.

Progress notices threads that have not ended and do not come round: a transport that takes no calls, a scheduler that starts no
runs.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from hypersonic.server.errors import escaped

_LOG = logging.getLogger(__name__)
#: seconds until a thread begins again
PAUSE_S = 1.0
#: seconds between two questions to a loop
LOOK_S = 1.0
#: a loop is stuck when it has not come round at so many questions in a row. Questions are counted, not seconds: a process that
#: was stopped, or had no processor, has not asked in the meantime
MOST_MISSED = 10
#: name -> returns False if the loop has something to do and has not come round since the last question. Must not block
Loops = Iterable[tuple[str, Callable[[], bool]]]


class Supervisor:
    """The threads of one owner. Any thread may use it."""

    def __init__(self, owner: str, on_change: Callable[[], None], remedy: str) -> None:
        """Create a Supervisor.

        Args:
            owner: for the log.
            on_change: called, on the thread concerned, when `reason` has changed.
            remedy: what an operator does about a thread that has ended for good.
        """
        self._owner, self._on_change, self._remedy = owner, on_change, remedy
        self._lock = threading.Lock()
        self._deaths: Counter[str] = Counter()
        #: thread -> why it does not run
        self._ended: dict[str, str] = {}
        self._closing = threading.Event()

    @property
    def reason(self) -> str:
        """The reason why a thread does not run now; "" while all do."""
        with self._lock:
            return "; ".join(self._ended.values())

    @property
    def lost(self) -> bool:
        """True if a thread has ended for good."""
        return any(count > 1 for count in self._deaths.values())

    def start(self, name: str, work: Callable[[], None]) -> threading.Thread:
        """Run `work` on a thread of its own.

        Args:
            name: of the thread; all threads of this name together begin again once.
        """
        thread = threading.Thread(target=self._run, args=(name, work), name=name, daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        """Let no thread wait to begin again."""
        self._closing.set()

    def _run(self, name: str, work: Callable[[], None]) -> None:
        while True:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - whatever ended it, somebody may wait for it
                if not self._bury(name, error):
                    return
            else:
                return

    def _bury(self, name: str, error: BaseException) -> bool:
        """Tell the owner that a thread has ended. Returns True once it is to begin again."""
        with self._lock:
            self._deaths[name] += 1
            again = self._deaths[name] == 1
            fate = f"it begins again in {PAUSE_S:g} s" if again else f"it has ended for the second time: {self._remedy}"
            text = escaped(str(error), 200)
            cause = type(error).__name__ + (f" ({text})" if text else "")
            self._ended[name] = f"the thread '{name}' ended with {cause}; {fate}"
        _LOG.error("%s: %s", self._owner, self._ended[name], exc_info=error)
        self._on_change()
        if not again or self._closing.wait(PAUSE_S):
            return False
        with self._lock:
            del self._ended[name]
        _LOG.warning("%s: the thread '%s' begins again", self._owner, name)
        self._on_change()
        return True


class Progress:
    """Asks loops once a second whether they come round. The server is not ready while one is stuck.

    What a loop waits for outside the server (a call to arrive, a model's run to end) is not its work, so it does not count.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Create a Progress.

        Args:
            on_change: called, on the thread that asks, when `stuck` has changed.
        """
        #: the names of the stuck loops
        self.stuck: frozenset[str] = frozenset()
        self._on_change = on_change
        self._missed: Mapping[str, int] = MappingProxyType({})
        self._closing = threading.Event()

    def start(self, loops: Callable[[], Loops]) -> None:
        """Begin to ask, on a thread of its own.

        Args:
            loops: returns those that exist now.
        """

        def ask_on() -> None:
            while not self._closing.wait(LOOK_S):
                self.ask(loops())

        Supervisor("progress", lambda: None, "restart the server").start("progress", ask_on)

    def close(self) -> None:
        """Ask no more."""
        self._closing.set()

    def ask(self, loops: Loops) -> None:
        """Ask each loop once."""
        self._missed = {name: self._missed.get(name, 0) + 1 for name, comes_round in loops if not comes_round()}
        before, self.stuck = self.stuck, frozenset(name for name, missed in self._missed.items() if missed >= MOST_MISSED)
        for name in sorted(self.stuck - before):
            _LOG.error(
                "%s has work and has done none for %g s: the server is not ready; restart it if this does not end",
                name, MOST_MISSED * LOOK_S,
            )  # fmt: skip
        for name in sorted(before - self.stuck):
            _LOG.warning("%s works again, or is gone", name)
        if self.stuck != before:
            self._on_change()
