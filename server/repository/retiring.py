# SPDX-License-Identifier: Apache-2.0
"""Retirements: models that were replaced or unloaded. Their last requests are served in the background; then they close."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from hypersonic.server.core.inference.model import Model

_LOG = logging.getLogger(__name__)
#: how often a model that still has requests is logged, in seconds
_PATIENCE_S = 30.0


def drain(models: Sequence[Model], stopping: threading.Event) -> bool:
    """Close the models, regardless of how long their requests take. Returns False if the server stops first."""
    for model in models:
        while not model.close(_PATIENCE_S):
            if stopping.is_set():
                return False
            _LOG.warning("'%s' version %d still serves requests that arrived before its unload", model.name, model.version)
        _LOG.info("successfully unloaded '%s' version %d", model.name, model.version)
    return True


def close_all(models: Sequence[Model], deadline: float) -> bool:
    """Close models in parallel. Returns whether all ended before time.monotonic() is `deadline`."""
    ended: list[bool] = []
    threads = [
        threading.Thread(
            target=lambda model=model: ended.append(model.close(max(0.0, deadline - time.monotonic()))),
            name=f"close {model.name}",
            daemon=True,
        )
        for model in models
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return len(ended) == len(models) and all(ended)


class Retirements:
    """The models that are being closed, each group with a thread of its own."""

    def __init__(self) -> None:
        """Begin without models."""
        self._lock = threading.Lock()
        self._threads: list[tuple[str, threading.Thread]] = []
        self._stopping = threading.Event()

    def start(self, name: str, models: Sequence[Model], done: Callable[[], None]) -> None:
        """Drain and close models in the background, then call `done` on that thread."""

        def work() -> None:
            drain(models, self._stopping)
            done()

        thread = threading.Thread(target=work, name=f"unload {name}", daemon=True)
        with self._lock:
            self._threads = [*((n, other) for n, other in self._threads if other.is_alive()), (name, thread)]
            thread.start()

    def finish(self, name: str, models: Sequence[Model] = ()) -> None:
        """Drain and close models on this thread, and wait for those of the same name that are being closed."""
        drain(models, self._stopping)
        for thread in self._of(name):
            thread.join()

    def pending(self, name: str) -> bool:
        """Return whether a model of that name is being closed."""
        return bool(self._of(name))

    def _of(self, name: str) -> list[threading.Thread]:
        with self._lock:
            return [thread for other, thread in self._threads if other == name and thread.is_alive()]

    def close(self, timeout_s: float) -> bool:
        """Wait for all models. Returns whether they ended in time."""
        self._stopping.set()
        deadline = time.monotonic() + timeout_s
        with self._lock:
            threads = [thread for _, thread in self._threads]
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)
