# SPDX-License-Identifier: Apache-2.0
"""CardPool: the cards of this process, and the models on them.

A model is placed on the first of these cards that exists:

1. a card whose xclbin has the model's kernel (same target, platform, name and digest), with compute units that are free or
   that the model may share: versions of one model may share them, and models whose kernels load their weights at run time;
2. a free card, to which the model's own xclbin is loaded;
3. a card as in 1 that another version of the model uses, with other compute units or another clock than the model's own xclbin
   has. The repository then loads it again once the other version has left (Shortfall);
4. a card of models that take turns (turns.py), if there are cards left for them.

Each card has a lock of its own, so that a card that hangs does not delay the others.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path

from hypersonic.host import opening
from hypersonic.host.card_instances import CardInstances, ModelOnCard
from hypersonic.host.device import Device
from hypersonic.host.devices import none_left
from hypersonic.host.errors import (
    BufferObjectError,
    ComputeUnitOutOfServiceError,
    DeviceBusyError,
    DeviceError,
    DeviceLostError,
    DeviceNotFoundError,
)
from hypersonic.host.usage import CardUsage
from hypersonic.server.backends.fpga.cards import CardRegister
from hypersonic.server.backends.fpga.held import Claim, HeldCard, PlacedModel, Wish
from hypersonic.server.errors import ModelBusyError

#: the errors of a card that has the model's kernel but cannot take the model; another card may still take it
NO_ROOM = (DeviceBusyError, DeviceLostError, DeviceNotFoundError, ComputeUnitOutOfServiceError, BufferObjectError)


class CardPool:
    """The cards that this process uses. Any thread may use it.

    Attributes:
        clear: takes one of the given cards away from the models that take turns on it, for another model, and waits until they
            have left. It returns that card, which no model claims any more and which is `changing`, or None if there is no such
            card. It raises ModelBusyError if these models would have no card left.
        settle: called when the other model has been loaded, or could not be.
    """

    def __init__(self, register: CardRegister | None = None) -> None:
        self.register = register or CardRegister()
        self.clear: Callable[[Sequence[HeldCard], Wish], HeldCard | None] = lambda _cards, _wish: None
        self.settle: Callable[[HeldCard], None] = lambda _card: None
        self.lock = threading.Lock()
        #: by Wish.kind, then by index
        self._cards: defaultdict[str, dict[int, HeldCard]] = defaultdict(dict)

    def place(self, wish: Wish, wanted: Sequence[int]) -> tuple[PlacedModel, ...]:
        """Place a model.

        Args:
            wanted: the indices of its cards, empty for one card of any index.

        Raises:
            ModelBusyError: If there is no card for it, and the errors of opening a card and of open_instances.
        """
        if not wanted:
            return (self._anywhere(wish),)
        with ExitStack() as opened:
            places = []
            for index in wanted:
                places.append(self._on(index, wish))
                opened.callback(places[-1].close)
            opened.pop_all()
        return tuple(places)

    def cards(self, kind: str) -> tuple[HeldCard, ...]:
        """Return the known cards of one kind."""
        with self.lock:
            return tuple(card for _, card in sorted(self._cards[kind].items()) if not card.missing)

    def _on(self, index: int, wish: Wish) -> PlacedModel:
        card = self._card(wish, index)
        if claim := self.claim(card, wish):
            return self.open(card, claim)
        if place := self._cleared((card,), wish):
            return place
        raise card.busy(wish)

    def _cleared(self, cards: Sequence[HeldCard], wish: Wish) -> PlacedModel | None:
        """Place the model on a card that others have to leave."""
        card = None if wish.moves else self.clear(cards, wish)
        if card is None:
            return None
        claim = self.claim(card, wish, changing=True)
        assert claim is not None  # nobody else may claim it
        try:
            return self.open(card, claim)
        finally:
            self.settle(card)

    def _anywhere(self, wish: Wish) -> PlacedModel:
        place, busy = self.try_place(wish, ())
        if place := place or self._cleared(self.cards(wish.kind), wish):
            return place
        raise all_busy(busy, wish)

    def try_place(self, wish: Wish, wanted: Collection[int]) -> tuple[PlacedModel | None, list[DeviceError]]:
        """Place a model on one card that has its kernel or is free.

        Returns the place; or None and the error of each card.

        Args:
            wanted: the indices that are considered, empty for all.

        Raises:
            DeviceNotFoundError: If there is no card at all, and the errors of opening a card and of open_instances.
        """
        busy: dict[int, DeviceError] = {}
        cards = self.with_kernel(wish, wanted)
        replaced = [] if wish.moves else [card for card in cards if card.serves_replaced(wish)]
        place = self._shared([card for card in cards if card not in replaced], wish, busy)
        place = place or self._alone(wish, wanted, replaced, busy) or self._shared(replaced, wish, busy)
        return place, [] if place else [busy[index] for index in sorted(busy)]

    def _shared(self, cards: Sequence[HeldCard], wish: Wish, busy: dict[int, DeviceError]) -> PlacedModel | None:
        """Place a model on a card that has its kernel. The error of each card goes into `busy`."""
        for card in cards:
            if claim := self.claim(card, wish, join=True):
                try:
                    return self.open(card, claim)
                except NO_ROOM as error:
                    busy[card.index] = error
        return None

    def _alone(
        self, wish: Wish, wanted: Collection[int], replaced: Sequence[HeldCard], busy: dict[int, DeviceError]
    ) -> PlacedModel | None:
        """Place a model on a free card, none of `replaced`. The error of each card goes into `busy`."""
        for index in sorted(wanted) or count():
            card = self._card(wish, index)
            claim = self.claim(card, wish) if card not in replaced else None
            if claim is None:
                busy.setdefault(index, card.busy(wish))
                continue
            try:
                return self.open(card, claim)
            except (DeviceBusyError, ComputeUnitOutOfServiceError) as error:
                busy[index] = error
            except DeviceNotFoundError:
                card.missing = True
                if not busy or wanted:
                    raise
                break
        return None

    def with_kernel(self, wish: Wish, wanted: Collection[int] = ()) -> list[HeldCard]:
        """Return the cards whose xclbin has the model's kernel and units for it: first those with its own xclbin."""
        cards = [card for card in self.cards(wish.kind) if not wanted or card.index in wanted]
        with self.lock:
            cards = [card for card in cards if not (card.changing or card.taken) and card.units_for(wish)]
            return sorted(
                cards, key=lambda card: (card.contents is None or card.contents.uuid != wish.contents.uuid, card.index)
            )

    def _card(self, wish: Wish, index: int) -> HeldCard:
        with self.lock:
            return self._cards[wish.kind].setdefault(index, HeldCard(index))

    def claim(self, card: HeldCard, wish: Wish, *, join: bool = False, changing: bool = False) -> Claim | None:
        """Claim the model's units of a card; a free card gets the model's xclbin. Returns None if there are no units for it.

        Args:
            join: only claim units of a card that is not free.
            changing: True for the thread that has set card.changing_ns.
        """
        with self.lock:
            if card.changing != changing or (card.taken and not changing) or (join and not card.claims):
                return None
            if not card.claims:
                card.contents = wish.contents
            units = card.units_for(wish)
            if not units:
                return None
            claim = Claim(wish, units)
            card.claims.append(claim)
            return claim

    def open(self, card: HeldCard, claim: Claim) -> PlacedModel:
        """Open a claimed place; a failure releases the claim. Raises the errors of opening a card and of open_instances."""
        wish = claim.wish
        with card.lock:
            try:
                if card.instances is None:
                    card.keep(wish.xclbin)
                    device = opening.open_device(wish.xclbin, card.index, self._usage(card, wish))
                    card.missing, card.loaded_ns = False, time.monotonic_ns()
                    card.identity = self.register.identify(device, card.index)
                    self.register.loaded(device, card.identity)
                    card.instances = CardInstances(device, lambda: self._reopen(card))
                on_card = card.instances.open(wish.model, lambda device: wish.open_instances(device, units=claim.units))
            except BaseException:
                self._leave(card, claim)
                raise
            held_bytes = sum(slot.x.nbytes + slot.y.nbytes for instance in on_card.instances for slot in instance.slots)
            held_bytes += wish.manifest.weights_bytes * len(on_card.instances)
            assert card.identity is not None  # it has been opened
            seen = self.register.card(card.instances.device, card.identity, held_bytes)
            seen = replace(seen, shortfall=lambda: card.shortfall(wish, claim.units))
            return PlacedModel(on_card, seen, card, lambda: self._leave(card, claim, on_card))

    def _leave(self, card: HeldCard, claim: Claim, on_card: ModelOnCard | None = None) -> None:
        with card.lock:
            try:
                if on_card is not None:
                    on_card.close()
            finally:
                if card.instances is not None and not card.instances.models:
                    card.instances = None
                if card.instances is None:
                    card.release_file()
                with self.lock:
                    if claim in card.claims:
                        card.claims.remove(claim)
                    if not card.claims:
                        card.contents = None

    def _reopen(self, card: HeldCard) -> Device:
        """Open a card again by its PCI address, since XRT renumbers cards when others are removed or added."""
        with self.lock:
            wish, contents = card.to_load(), card.contents
        identity, file = card.identity, card.file
        assert identity is not None and file is not None  # noqa: PT018 - it has been opened before
        xclbin = Path(f"/proc/self/fd/{file.fileno()}") if wish is None else wish.xclbin
        usage = self.register.usage(identity.kind, card.index)
        device = opening.open_device(xclbin, self.register.index(identity), usage)
        if wish is not None:
            card.keep(wish.xclbin)
        with self.lock:
            card.contents = contents if wish is None else wish.contents
        self.register.loaded(device, identity)
        return device

    def _usage(self, card: HeldCard, wish: Wish) -> CardUsage:
        return self.register.usage(wish.kind, card.index)


def all_busy(busy: Sequence[DeviceError], wish: Wish) -> ModelBusyError:
    """Return the error of a model for which no card has room, with the error of each card."""
    emulated = wish.manifest.target.emulated
    more = busy if emulated else busy[1:]  # for cards, none_left quotes the first
    return ModelBusyError("; ".join([none_left(busy, emulated=emulated), *map(str, more)]))
