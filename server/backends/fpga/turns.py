# SPDX-License-Identifier: Apache-2.0
"""Turns: models with card_policy "on_demand" take turns on the cards, by the rule in turn_rule.py.

::

    a request finds its model on no card --ask--> thread `turns`: rule --> thread `swap`: the models of a card leave
    (their runs end, requests wait) --> their places are closed --> the xclbin is loaded --> its models return

A model's instances leave and return through the scheduler's mechanism for lost instances: once its runs have ended, recover()
is called for each, and returns when the model is on a card again. Meanwhile only the thread that has set a card's `changing_ns`
may claim its units.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from hypersonic.firmware.errors import FirmwareError
from hypersonic.host.errors import DeviceError
from hypersonic.server.backends.fpga.held import HeldCard, Wish
from hypersonic.server.backends.fpga.on_demand import ON_DEMAND, OnDemandModel, TurnPolicy
from hypersonic.server.backends.fpga.pool import NO_ROOM, CardPool, all_busy
from hypersonic.server.backends.fpga.turn_rule import CardState, Load, choose_turn
from hypersonic.server.core.inference.backend import TurnQueue
from hypersonic.server.errors import ModelBusyError, ServerError
from hypersonic.server.limits.bounds import seconds_of
from hypersonic.server.limits.supervisor import Supervisor

_LOG = logging.getLogger(__name__)

#: a model with waiting requests keeps its card until its first run, but for no longer than this
FIRST_RUN_NS = 1_000_000_000
#: how often to look whether that run has begun
POLL_NS = 5_000_000


class Turns:
    """The models of a CardPool that take turns. Any thread may use it."""

    def __init__(self, pool: CardPool) -> None:
        self._pool = pool
        pool.clear, pool.settle = self.clear, self._settle
        self._changed = threading.Condition()
        #: the lock of the pool, notified when a card is no longer changing
        self._settled = threading.Condition(pool.lock)
        #: held while a card is chosen that models which take turns have to leave
        self._taking = threading.Lock()
        self._models: list[OnDemandModel] = []
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._threads = Supervisor("models that take turns on cards", self._threads_changed, "restart the server")

    def admit(self, wish: Wish, policy: TurnPolicy) -> OnDemandModel:
        """Admit a model. It is placed at once if a card has its kernel or is free.

        Raises ModelBusyError if it can never get a card, because models that do not take turns have all of them; DeviceError if
        the thread `turns` has ended for good.
        """
        if self._threads.lost:
            raise DeviceError(self._threads.reason)
        model = OnDemandModel(self._changed, self.wake, wish, policy, self._hold)
        begin_ns = time.monotonic_ns()
        place, busy = self._pool.try_place(wish, policy.wanted)
        if place is not None:
            model.arrive(place, time.monotonic_ns() - begin_ns)
            model.ready.clear()
        elif not any(not card.fixed for card in self._possible(model)):
            raise all_busy(busy, wish)
        with self._changed:
            self._models.append(model)
            if self._thread is None:
                self._thread = self._threads.start("turns", self._work)
        return model

    def _possible(self, model: OnDemandModel) -> list[HeldCard]:
        wanted = model.policy.wanted
        return [card for card in self._pool.cards(model.wish.kind) if not wanted or card.index in wanted]

    def remove(self, model: OnDemandModel) -> None:
        """Take a model out; its instances must not be in use."""
        with self._changed:
            model.closed = True
            if model in self._models:
                self._models.remove(model)
            place, model.place = model.place, None
            self._changed.notify_all()
        if place is not None:
            place.close()
        self.wake()

    def wake(self) -> None:
        """Ask for the rule to be applied again. Takes no lock."""
        self._wake.set()

    def _threads_changed(self) -> None:
        with self._changed:
            queues = [model.queue for model in self._models if model.queue is not None]
        for queue in queues:
            queue.hold(self._threads.reason, for_good=self._threads.lost)

    def _hold(self, queue: TurnQueue) -> None:
        """Hold a model that has come while the thread `turns` does not run."""
        if reason := self._threads.reason:
            queue.hold(reason, for_good=self._threads.lost)

    def _work(self) -> None:
        """Apply the rule whenever something may have changed, while there are models. The function of the thread `turns`."""
        while True:
            self._wake.clear()
            with self._changed:
                models = list(self._models)
                if not models:
                    self._thread = None
                    return
            waits = [self._decide(kind, models) for kind in {model.wish.kind for model in models}]
            until_ns = min((until_ns for until_ns in waits if until_ns), default=0)
            self._wake.wait(seconds_of(max(0, until_ns - time.monotonic_ns())) if until_ns else None)

    def _decide(self, kind: str, models: Sequence[OnDemandModel]) -> int:
        """Begin the loads that the rule chooses for one kind of card; return when to ask again, 0 = once something changes."""
        models = [model for model in models if model.wish.kind == kind]
        self._join(models)
        while True:
            now_ns = time.monotonic_ns()
            cards = self._pool.cards(kind)
            indices = frozenset(card.index for card in cards)
            coming = [model.wish.contents for model in models if model.entering]
            away = [
                model.guest(indices)
                for model in models
                if model.away
                and model.retry_ns <= now_ns
                and not any(model.wish.manifest.runs_in(contents) for contents in coming)
            ]
            states = [self._state(card, models, indices, now_ns) for card in cards]
            choice = choose_turn(states, away, now_ns)
            if not isinstance(choice, Load):
                times = [choice.until_ns, *(card.unusable_until_ns for card in cards), *(model.retry_ns for model in models)]
                times += [now_ns + POLL_NS for state in states if _is_new(state, now_ns)]
                return min((at_ns for at_ns in times if at_ns > now_ns), default=0)
            model = next(model for model in models if model.name == choice.guest)
            card = next(card for card in cards if card.index == choice.card)
            if self._begin_change(card):
                if not self._reserve(model):
                    self._end_change(card)
                    continue
                threading.Thread(target=self._swap, args=(card, model), name=f"swap {card.index}", daemon=True).start()

    def _state(self, card: HeldCard, models: Sequence[OnDemandModel], indices: frozenset[int], now_ns: int) -> CardState:
        on_card = [model for model in models if model.place is not None and model.place.held is card]
        kept = card.changing or card.fixed or card.unusable_until_ns > now_ns or len(on_card) != len(card.claims)
        kept = kept or any(model.queue is None for model in on_card)
        state = CardState(card.index, tuple(model.guest(indices) for model in on_card), card.loaded_ns, kept)
        return state._replace(kept=kept or _is_new(state, now_ns))

    def _begin_change(self, card: HeldCard) -> bool:
        with self._pool.lock:
            if card.changing or card.fixed:
                return False
            card.changing_ns = time.monotonic_ns()
            return True

    def _end_change(self, card: HeldCard) -> None:
        with self._settled:
            card.changing_ns = 0
            self._settled.notify_all()
        self.wake()

    def _join(self, models: Sequence[OnDemandModel]) -> None:
        """Place the models whose kernel is on a card that was loaded for another model."""
        for model in models:
            for card in self._pool.with_kernel(model.wish, model.policy.wanted) if model.away else ():
                if self._reserve(model) and self._enter(model, card, changing=False):
                    break

    def _reserve(self, model: OnDemandModel) -> bool:
        """Reserve the model for this thread, which will load it; return False if another thread does, or if it is not away."""
        with self._changed:
            if not model.away:
                return False
            model.entering = True
            return True

    def _swap(self, card: HeldCard, model: OnDemandModel) -> None:
        """Load a model's xclbin to a card. The function of a thread."""
        try:
            model.wish.check()
            self._empty(card)
            if self._enter(model, card, changing=True):
                with self._changed:
                    models = list(self._models)
                for other in models:
                    if card.contents is not None and other.wish.manifest.runs_in(card.contents) and self._reserve(other):
                        self._enter(other, card, changing=True)
        except Exception as error:  # noqa: BLE001 - the model's requests wait for this thread
            self._fail(model, error)
        finally:
            self._end_change(card)

    def _empty(self, card: HeldCard) -> None:
        """Make all models leave the card, whose xclbin is being replaced."""
        with self._changed:
            leaving = [model for model in self._models if model.place is not None and model.place.held is card]
            for model in leaving:
                model.leaving = True
        for model in leaving:
            if model.queue is not None:
                model.queue.leave()
        for model in leaving:
            self._wait_left(model)
            with self._changed:
                place = model.leave()
            if place is not None:
                with suppress(DeviceError):  # the next model finds out whether the card can be used
                    place.close()

    def _wait_left(self, model: OnDemandModel) -> None:
        """Wait until a model's instances are not in use. A model that has only just been loaded is asked again to leave."""
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: model.closed or len(model.given_back) == len(model.units), 0.05):
                    return
            if model.queue is not None:
                model.queue.leave()

    def _enter(self, model: OnDemandModel, card: HeldCard, *, changing: bool) -> bool:
        """Open the place of a reserved model on a card; return whether that succeeded. An error fails only this model."""
        claim = self._pool.claim(card, model.wish, join=not changing, changing=changing)
        if claim is None:
            model.entering = False
            return False
        begin_ns = time.monotonic_ns()
        try:
            place = self._pool.open(card, claim)
        except NO_ROOM as error:
            _LOG.warning("card %d does not take '%s': %s", card.index, model.wish.model, error)
            card.unusable_until_ns = time.monotonic_ns() + model.policy.retry_ns
            if not self._has_card(model):
                self._fail(model, error)
            model.entering = False
            return False
        except Exception as error:  # noqa: BLE001 - the other models of the card are not affected
            self._fail(model, error)
            return False
        since_ns = model.waiting().since_ns
        with self._changed:
            if not model.closed:
                model.arrive(place, time.monotonic_ns() - begin_ns, since_ns)
                self._changed.notify_all()
                return True
        place.close()
        return False

    def _has_card(self, model: OnDemandModel) -> bool:
        now_ns = time.monotonic_ns()
        return any(not card.fixed and card.unusable_until_ns <= now_ns for card in self._possible(model))

    def _fail(self, model: OnDemandModel, error: Exception) -> None:
        if not isinstance(error, (DeviceError, FirmwareError, OSError, ServerError)):
            _LOG.exception("'%s' cannot be loaded to a card", model.wish.model)
            error = DeviceError(f"the load failed: {type(error).__name__}")
        with self._changed:
            model.fail(error, time.monotonic_ns())
            self._changed.notify_all()

    def clear(self, cards: Sequence[HeldCard], wish: Wish) -> HeldCard | None:
        """As CardPool.clear."""
        card = self._take(cards, wish)
        if card is None:
            return None
        with self._settled:
            self._settled.wait_for(lambda: not card.changing)
            card.changing_ns = time.monotonic_ns()
        try:
            self._empty(card)
        except BaseException:
            self._settle(card)
            raise
        return card

    def _take(self, cards: Sequence[HeldCard], wish: Wish) -> HeldCard | None:
        """Reserve the card of models that take turns which is free soonest: one that is not changing, or else the one whose
        change began first. Returns None if they have none of the cards. Raises ModelBusyError as CardPool.clear does.
        """
        with self._taking:
            candidates = sorted(
                (card for card in cards if (card.claims or card.changing) and not card.fixed), key=lambda card: card.changing_ns
            )
            stranded: set[str] = set()
            for card in candidates:
                names = {repr(model.wish.model) for model in self._stranded(card, wish)}
                stranded |= names
                with self._pool.lock:
                    if not names and not card.fixed:
                        card.taken = True
                        return card
        if stranded:
            raise ModelBusyError(
                f"the cards are taken, and without card {candidates[0].index} the models {', '.join(sorted(stranded))} with "
                f"card_policy '{ON_DEMAND}' would have no card: set card_policy '{ON_DEMAND}' for {wish.model!r} too, or "
                "unload a model"
            )
        return None

    def _settle(self, card: HeldCard) -> None:
        """As CardPool.settle."""
        with self._pool.lock:
            card.taken = False
        self._end_change(card)

    def _stranded(self, card: HeldCard, wish: Wish) -> list[OnDemandModel]:
        """Return the models that would have no card if a resident model had this one."""
        with self._changed:
            models = list(self._models)
        return [
            model
            for model in models
            if not any(other is not card and not other.fixed for other in self._possible(model))
            and not model.wish.manifest.runs_in(wish.contents)
            and model.wish.kind == wish.kind
        ]


def _is_new(card: CardState, now_ns: int) -> bool:
    """Return whether a model with waiting requests has not used a card that was loaded for it within FIRST_RUN_NS."""
    unused = any(guest.rows and guest.used_ns < card.loaded_ns for guest in card.guests)
    return unused and now_ns < card.loaded_ns + FIRST_RUN_NS
