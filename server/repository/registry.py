# SPDX-License-Identifier: Apache-2.0
"""Registry: name -> ModelEntry as one immutable mapping. Readers take no lock; writers put a new mapping in its place."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from hypersonic.server.repository.entry import ModelEntry


class Registry:
    """on_change: called after each change, on the thread that made it."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.models: Mapping[str, ModelEntry] = MappingProxyType({})
        self._changed = threading.Condition()
        self._on_change = on_change

    def entry(self, name: str) -> ModelEntry:
        """An empty one for a name nobody has tried to load."""
        return self.models.get(name) or ModelEntry(name)

    def put(self, entry: ModelEntry) -> None:
        """From now on readers see this."""
        self.update(entry.name, lambda _: entry)

    def update(self, name: str, change: Callable[[ModelEntry], ModelEntry | None]) -> None:
        """Put what `change` makes of the entry as it is; None removes it."""
        with self._changed:
            entry = change(self.entry(name))
            models = {key: value for key, value in self.models.items() if key != name}
            if entry is not None:
                models[name] = entry
            self.models = MappingProxyType(models)
            self._changed.notify_all()
        self._on_change()

    def wait_replaced(self, name: str, timeout_s: float) -> None:
        """Until a model whose old version had to go first has its new one, or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: not self.entry(name).replacing, timeout_s)


class Turns:
    """A lock per name, kept only as long as somebody uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._users: Counter[str] = Counter()

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Nobody else is here with the same name."""
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
            self._users[name] += 1
        try:
            with lock:
                yield
        finally:
            self._leave(name)

    def _leave(self, name: str) -> None:
        with self._lock:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name], self._locks[name]
