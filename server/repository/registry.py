# SPDX-License-Identifier: Apache-2.0
"""Registry: name -> ModelEntry as one immutable mapping. Readers take no lock; writers replace the mapping by a new one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from hypersonic.server.repository.entry import ModelEntry


class Registry:
    """The entries of all models, which any thread may read and change."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Create a Registry.

        Args:
            on_change: called after each change, on the thread that made the change.
        """
        #: name -> entry; never changed, only replaced
        self.models: Mapping[str, ModelEntry] = MappingProxyType({})
        self._changed = threading.Condition()
        self._on_change = on_change

    def entry(self, name: str) -> ModelEntry:
        """Return the entry of a name; an empty one for a name that has never been loaded."""
        return self.models.get(name) or ModelEntry(name)

    def put(self, entry: ModelEntry) -> None:
        """Replace the entry of a name."""
        self.update(entry.name, lambda _: entry)

    def update(self, name: str, change: Callable[[ModelEntry], ModelEntry | None]) -> None:
        """Replace an entry by what `change` returns for it; None removes it."""
        with self._changed:
            entry = change(self.entry(name))
            models = {key: value for key, value in self.models.items() if key != name}
            if entry is not None:
                models[name] = entry
            self.models = MappingProxyType(models)
            self._changed.notify_all()
        self._on_change()

    def wait_replaced(self, name: str, timeout_s: float) -> None:
        """Wait until a model whose old version was unloaded first has its new one, or until the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: not self.entry(name).replacing, timeout_s)


class Turns:
    """One lock per name, kept only while it is used."""

    def __init__(self) -> None:
        """Begin without locks."""
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._users: Counter[str] = Counter()

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Hold the lock of a name."""
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
