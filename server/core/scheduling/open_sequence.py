# SPDX-License-Identifier: Apache-2.0
"""OpenSequence: one sequence of requests. Backlog: those that wait for a slot."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from hypersonic.server.core.inference.pending import PendingRequest


class OpenSequence:
    """One sequence from its START to its END: its waiting requests, and its slot in the batch, -1 while it has none."""

    __slots__ = ("begun_ns", "client", "ended", "id", "in_flight", "instance", "last_ns", "slot", "state", "waiting")

    def __init__(self, sequence_id: int | str, client: str, now_ns: int) -> None:
        self.id, self.client = sequence_id, client
        self.waiting: deque[PendingRequest] = deque()
        self.instance = self.slot = -1
        self.in_flight: PendingRequest | None = None
        #: END has been queued, or a START was withdrawn: a START must follow
        self.ended = False
        self.begun_ns = self.last_ns = now_ns
        self.state: tuple[bytes, ...] = ()

    @property
    def idle(self) -> bool:
        """True if no request of the sequence is waiting or in a run."""
        return not self.waiting and self.in_flight is None


class Backlog:
    """The sequences that wait for a slot. Their number costs no time, since one client may have very many."""

    def __init__(self) -> None:
        #: client -> its sequences, oldest first
        self._waiting: dict[str, dict[OpenSequence, None]] = {}

    def __bool__(self) -> bool:
        """Return whether any sequence waits."""
        return bool(self._waiting)

    def __iter__(self) -> Iterator[OpenSequence]:
        """Iterate over the sequences, client by client."""
        for sequences in self._waiting.values():
            yield from sequences

    def add(self, sequence: OpenSequence) -> None:
        """Add a sequence that has just begun."""
        self._waiting.setdefault(sequence.client, {})[sequence] = None

    def discard(self, sequence: OpenSequence) -> None:
        """Remove a sequence if it waits."""
        sequences = self._waiting.get(sequence.client, {})
        sequences.pop(sequence, None)
        if not sequences:
            self._waiting.pop(sequence.client, None)

    def take(self, held: Mapping[str, int]) -> OpenSequence:
        """Remove and return the next sequence: of the clients with the fewest slots, the one that has waited longest.

        Args:
            held: client -> its slots.
        """
        oldest = (next(iter(sequences)) for sequences in self._waiting.values())
        sequence = min(oldest, key=lambda waiting: (held[waiting.client], waiting.begun_ns))
        self.discard(sequence)
        return sequence
