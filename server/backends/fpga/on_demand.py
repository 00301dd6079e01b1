# SPDX-License-Identifier: Apache-2.0
"""OnDemandModel: a model version that takes turns on a card (turns.py), and its parameters.

config.pbtxt's parameters: card_policy ("resident", the default, or "on_demand"), card_priority (a higher one comes first),
card_residency_ms (the shortest time that a model stays on its card).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hypersonic.firmware.card_parameters import RETRY_MS
from hypersonic.host.errors import DeviceClosedError
from hypersonic.host.instance import ModelInstance
from hypersonic.server.backends.fpga.card_wait import CardWait
from hypersonic.server.backends.fpga.held import PlacedModel, Wish
from hypersonic.server.backends.fpga.instance import FpgaInstance
from hypersonic.server.backends.fpga.turn_rule import Guest
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.backend import TurnQueue, Waiting
from hypersonic.server.core.inference.card import CardStatus, Residency
from hypersonic.server.errors import ModelConfigError

RESIDENT, ON_DEMAND = "resident", "on_demand"
#: the default of card_residency_ms
RESIDENCY_MS = 5000


@dataclass(frozen=True)
class TurnPolicy:
    """The parameters of a model that takes turns.

    Attributes:
        wanted: the indices of the cards that it may use, empty for all.
        queues: its requests wait for a card, because it has no fallback backend.
    """

    priority: int
    residency_ns: int
    retry_ns: int
    wanted: frozenset[int]
    queues: bool = True

    @classmethod
    def of(cls, config: ModelConfig) -> TurnPolicy | None:
        """Return the policy of a model, None if it is resident. Raises ModelConfigError."""
        policy = config.parameters.get("card_policy", RESIDENT)
        if policy not in (RESIDENT, ON_DEMAND):
            raise ModelConfigError(
                f"model '{config.name}': parameter card_policy is {policy!r:.80}, expected '{RESIDENT}' or '{ON_DEMAND}'"
            )
        priority = config.integer("card_priority", 0)
        residency_ms = config.integer("card_residency_ms", RESIDENCY_MS)
        if policy == RESIDENT:
            if named := sorted({"card_priority", "card_residency_ms"} & config.parameters.keys()):
                raise ModelConfigError(
                    f"model '{config.name}': parameter {named[0]} has no effect on a resident model: remove it, or set "
                    f"card_policy to '{ON_DEMAND}'"
                )
            return None
        retry_ns = config.integer("retry_ms", RETRY_MS) * 1_000_000
        return cls(priority, residency_ms * 1_000_000, retry_ns, frozenset(config.devices), queues=not config.fallback)


class OnDemandModel:
    """A model version that takes turns, as its instances and the thread `turns` see it. The lock of Turns protects it."""

    #: an instance always waits for its turn
    recoverable = True

    def __init__(
        self,
        changed: threading.Condition,
        wake: Callable[[], None],
        wish: Wish,
        policy: TurnPolicy,
        attached: Callable[[TurnQueue], None],
    ) -> None:
        """Create an OnDemandModel.

        Args:
            changed: the lock of Turns, notified when a field changes.
            wake: as Turns.wake.
            attached: called with its queue, once it has one.
        """
        self.wish, self.policy = wish, policy
        self.name = f"{wish.model}/{id(self)}"
        self.units = wish.manifest.compute_units
        self.instances: Sequence[FpgaInstance] = ()
        self.place: PlacedModel | None = None
        self.queue: TurnQueue | None = None
        self.closed = self.leaving = self.entering = False
        #: the instances that are not in use and wait in recover()
        self.given_back: set[str] = set()
        self.ready: dict[str, ModelInstance] = {}
        self.errors: dict[str, Exception] = {}
        #: when a failed attempt may be repeated, 0 = none has failed
        self.retry_ns = 0
        self.loads = self.waits = 0
        self.load_ns = 0
        self._wait = CardWait(policy.residency_ns)
        #: the last card, or one without a label
        self._last = CardStatus("", "", simulated=wish.manifest.target.emulated, away=True)
        self._changed, self._wake, self._attached = changed, wake, attached

    def ask(self, requests: int) -> None:
        """Record requests that arrived while the model was on no card."""
        self.waits += requests
        self._wait.ask(time.monotonic_ns())
        self._wake()

    def recover(self, name: str) -> ModelInstance:
        """Return the instance with that name once the model has its turn, or its lost card is back.

        Its old slots must not be in use. Raises as ModelOnCard.recover, and the error of a turn that failed.
        """
        place = self._give_back(name)
        if place is None:
            return self._await(name)
        instance = place.on_card.recover(place.on_card.instances[self.units.index(name)].name)
        self.given_back.discard(name)
        return instance

    def _give_back(self, name: str) -> PlacedModel | None:
        """Record that an instance's slots are no longer in use. Returns the place if the model is still on its card, where one
        of its units was lost; a model that has lost all its units leaves the card."""
        with self._changed:
            self.given_back.add(name)
            self._changed.notify_all()
            place = self.place
            if place is None or self.leaving or name in self.ready:
                place = None
            elif len(self.given_back) < len(self.units):
                return place
            else:
                self.leave()
        if place is not None:
            place.held.unusable_until_ns = time.monotonic_ns() + self.policy.retry_ns
            place.close()
        self._wake()
        return None

    def _await(self, name: str) -> ModelInstance:
        """Wait for the model's turn, and return the instance. Raises DeviceClosedError once the model is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self.closed or name in self.ready or name in self.errors)
            if name in self.ready:
                return self.ready.pop(name)
            if name in self.errors:
                raise self.errors.pop(name)
            raise DeviceClosedError(f"the model of {name} is closed")

    def leave(self) -> PlacedModel | None:
        """Record that the model is on no card. Returns its place, which the caller has to close."""
        place, self.place, self.leaving = self.place, None, False
        self._wait.leave(time.monotonic_ns(), self._used_ns)
        if place is not None:
            self._last = replace(place.card, held_bytes=0, away=True)
        return place

    def arrive(self, place: PlacedModel, load_ns: int, since_ns: int = 0) -> None:
        """Record that the model is on a card.

        Args:
            load_ns: how long the load took.
            since_ns: since when it waited for the card, as in waiting().
        """
        now_ns = time.monotonic_ns()
        self._wait.count(since_ns, now_ns)
        self._wait.arrive(now_ns)
        self.place, self.leaving, self.entering, self.retry_ns = place, False, False, 0
        self.given_back.clear()
        self.ready = dict(zip(self.units, place.on_card.instances, strict=True))
        self.loads += 1
        self.load_ns += load_ns

    def fail(self, error: Exception, now_ns: int) -> None:
        """Record that the model cannot be loaded to a card."""
        self.entering = False
        self.given_back.clear()
        self.errors = dict.fromkeys(self.units, error)
        self.retry_ns = now_ns + self.policy.retry_ns

    @property
    def away(self) -> bool:
        """True if the model is on no card and is ready to be loaded to one."""
        ready = self.queue is not None and len(self.given_back) == len(self.units)
        return ready and self.place is None and not (self.closed or self.entering)

    def attach(self, queue: TurnQueue) -> Callable[[int], None]:
        """As TakesTurns.attach."""
        with self._changed:
            self.queue = queue
        self._attached(queue)
        self._wake()
        return self.ask

    @property
    def card(self) -> CardStatus:
        """The card of the model, the last one while the model is on none."""
        place = self.place
        return place.card if place is not None else self._last

    @property
    def residency(self) -> Residency:
        """Its counters. A wait that has not ended is counted here, and not when its requests were given up since. Takes the
        lock of its queue, then that of Turns."""
        now_ns, since_ns = time.monotonic_ns(), self.waiting().since_ns
        with self._changed:
            if self.place is None:
                self._wait.count(since_ns, now_ns)
            waited_ns = self._wait.total_ns if self.policy.queues else 0
            return Residency(
                self.place is not None, self.loads, self.load_ns / 1e9, self.waits, waited_ns / 1e9, self._wait.longest_ns / 1e9
            )

    def waiting(self) -> Waiting:
        """Return the requests that wait, and since when they wait for a card: since the oldest arrived, or since the model left
        its last card, if that was later. Takes the lock of its queue.
        """
        waiting = self._queued()
        return waiting._replace(since_ns=self._wait.since_ns(waiting.since_ns))

    def _queued(self) -> Waiting:
        return self.queue.queued() if self.queue is not None else Waiting(0, 0)

    @property
    def _used_ns(self) -> int:
        return max((instance.used_ns for instance in self.instances), default=0)

    def guest(self, cards: frozenset[int]) -> Guest:
        """Return the model as the rule sees it. Takes the lock of its queue."""
        (oldest_ns, rows), policy = self._queued(), self.policy
        since_ns = self._wait.due_ns(oldest_ns)
        return Guest(
            self.name, self.wish.contents.uuid, policy.wanted & cards if policy.wanted else cards, policy.priority,
            policy.residency_ns, since_ns or self.retry_ns, rows, self._used_ns,
        )  # fmt: skip
