# SPDX-License-Identifier: Apache-2.0
"""The queue of a model version: what DynamicBatcher (batcher.py) and SequenceBatcher (sequence.py) have in common."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.backend import Waiting
from hypersonic.server.core.inference.pending import PendingRequest, Share
from hypersonic.server.errors import ServerError


class NextBatch(NamedTuple):
    """The next batch; if `shares` is empty, the ns until one is due, where 0 = not before a request arrives."""

    shares: tuple[Share, ...]
    wait_ns: int


NO_BATCH = NextBatch((), 0)


class Batcher(ABC):
    """The queue as the scheduler sees it. Any thread may call it; each method takes the lock.

    Attributes:
        lock: reentrant; guards the queue and whatever a scheduler must change together with it.
        changed: a condition under this lock, notified when a batch may be due for another reason than a new request.
    """

    #: True if a batch can run on one particular instance only
    pinned = False

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._closed: ServerError | None = None
        self._suspended: ServerError | None = None

    @property
    def closed(self) -> bool:
        """True if new requests are refused and the queue is being emptied."""
        return self._closed is not None

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of waiting requests or shares."""

    @abstractmethod
    def waiting(self) -> Waiting:
        """Return when the oldest waiting request arrived, and the rows that wait."""

    @abstractmethod
    def enqueue(self, pending: PendingRequest) -> None:
        """Queue a request. Raises the error of a request that is refused, or the error that the batcher was closed with."""

    @abstractmethod
    def withdraw(self, pending: PendingRequest, error: ServerError) -> None:
        """Remove a request that its client has cancelled; it fails with `error` unless all its rows are in runs."""

    def expire(self) -> int:
        """Refuse or delay requests whose queue timeout has expired; return the ns until the next one does, 0 = none."""
        return 0

    @abstractmethod
    def take(self, last: PendingRequest | None = None, instance: int = 0) -> NextBatch:
        """Return the next batch if one is due.

        Args:
            last: only a batch that this request completes.
            instance: where it would run.
        """

    def keep_state(self, share: Share, answer: Answer) -> None:  # noqa: B027 - most requests have no state
        """Keep the states in the answer to a share. Called before end_run()."""

    @abstractmethod
    def end_run(self, share: Share) -> bool:
        """Record the end of a run with this share; return whether the request is to be completed now."""

    @abstractmethod
    def fail(self, shares: Sequence[Share], error: ServerError) -> None:
        """Fail the requests of a run that failed and is not repeated."""

    @abstractmethod
    def put_back(self, shares: Sequence[Share], error: ServerError, proven: ServerError | None = None) -> None:
        """Take back the shares of a lost instance, to run again or to fail with `error`.

        Args:
            proven: the error of a request that is proven to take down instances, None if the loss proves nothing.
        """

    def close(self, error: ServerError) -> None:
        """Refuse new requests with `error`; waiting requests still run."""
        with self.lock:
            self._closed = error
            self.changed.notify_all()

    def abandon(self, error: ServerError) -> None:
        """Refuse new requests with `error` for good, and fail the waiting ones with it: no instance is left to take them."""
        with self.lock:
            self._closed = error
            self.suspend(error)
            self.changed.notify_all()

    def suspend(self, error: ServerError) -> None:
        """Fail the waiting requests with `error`, and refuse new ones with it until resume()."""
        with self.lock:
            self._suspended = error
            self._fail_all(error)

    @abstractmethod
    def _fail_all(self, error: ServerError) -> None:
        """Fail the waiting requests. The lock is held."""

    def resume(self) -> None:
        """Accept requests again after suspend()."""
        with self.lock:
            self._suspended = None
