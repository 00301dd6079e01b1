# SPDX-License-Identifier: Apache-2.0
"""CardPool: the cards of this process, and the models on them.

A model is placed on the first of these that there is:

1. a card whose xclbin has the model's kernel (same target, platform, name and digest), with compute units that are free, or
   that the model may share: other versions of it may share them, and models whose kernel takes its weights at run time;
2. a free card, to which the model's own xclbin is loaded.

Each card has a lock of its own, so that a card that hangs does not delay the others.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol

from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.xclbin.container import Xclbin
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
from hypersonic.host.instance import ModelInstance
from hypersonic.host.usage import CardUsage
from hypersonic.server.backends.fpga.cards import CardRegister
from hypersonic.server.errors import ModelBusyError
from hypersonic.server.inference.card import Card

#: the errors with which a card that has a model's kernel does not take the model, although another one may
_NO_ROOM = (DeviceBusyError, DeviceLostError, DeviceNotFoundError, ComputeUnitOutOfServiceError, BufferObjectError)


class OpenInstances(Protocol):
    """Opens a model's instances on compute units of a card."""

    def __call__(self, device: Device, *, units: Sequence[str]) -> tuple[ModelInstance, ...]:
        """As host.instance.open_instances."""


class Wish(NamedTuple):
    """A model version that needs a card. contents: of its own xclbin, the file `xclbin`."""

    model: str
    manifest: Manifest
    contents: Xclbin
    xclbin: Path
    open_instances: OpenInstances


@dataclass(frozen=True, eq=False)
class _Claim:
    """A model version's compute units on a card."""

    wish: Wish
    units: tuple[str, ...]

    def may_share(self, other: Wish) -> bool:
        """True if a model may use the same units. It has an equal kernel."""
        mine, manifest = self.wish.manifest, other.manifest
        return self.wish.model == other.model or bool(mine.weights_bytes and manifest.weights_bytes)


@dataclass(eq=False)
class _Card:
    """A card. lock: held while it is opened, while models come and go, and while it is closed. contents: of the xclbin on it,
    None for a free card. claims: changed under the pool's lock."""

    index: int
    lock: threading.RLock = field(default_factory=threading.RLock)
    contents: Xclbin | None = None
    claims: list[_Claim] = field(default_factory=list)
    instances: CardInstances | None = None
    address: str | None = None

    def units_for(self, wish: Wish) -> tuple[str, ...]:
        """The names of the compute units that a model may use; empty if the card is free or has another xclbin."""
        if self.contents is None or not _serves(self.contents, wish):
            return ()
        taken = {unit for claim in self.claims if not claim.may_share(wish) for unit in claim.units}
        return tuple(unit.name for unit in self.contents.units_of(wish.manifest.kernel) if unit.name not in taken)

    def busy(self, wish: Wish) -> DeviceBusyError:
        """The error that says which models have the card."""
        models = ", ".join(dict.fromkeys(repr(claim.wish.model) for claim in self.claims))
        if self.contents is not None and _serves(self.contents, wish):
            units = ", ".join(unit.name for unit in self.contents.units_of(wish.manifest.kernel))
            return DeviceBusyError(f"card {self.index} has the kernel of {wish.model!r}, but {models} uses {units}")
        return DeviceBusyError(f"card {self.index} has the xclbin of {models}")


class Place:
    """A model version on one card."""

    def __init__(self, on_card: ModelOnCard, card: Card, index: int, leave: Callable[[], None]) -> None:
        self.on_card, self.card, self.index = on_card, card, index
        self._leave = leave

    def close(self) -> None:
        """Leave the card. It is closed with its last model."""
        self._leave()


class CardPool:
    """The cards that this process uses. Any thread may use it."""

    def __init__(self, register: CardRegister | None = None) -> None:
        self.register = register or CardRegister()
        self._lock = threading.Lock()
        #: by opening.card_set, then by index
        self._cards: defaultdict[str, dict[int, _Card]] = defaultdict(dict)

    def place(self, wish: Wish, wanted: Sequence[int]) -> tuple[Place, ...]:
        """Place a model. wanted: the indices of its cards, empty for one card of any index.

        Raises ModelBusyError if there is no card for it, and the errors of opening a card and of open_instances.
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

    def _on(self, index: int, wish: Wish) -> Place:
        card = self._card(wish, index)
        claim = self._claim(card, wish)
        if claim is None:
            raise card.busy(wish)
        return self._open(card, claim)

    def _anywhere(self, wish: Wish) -> Place:
        busy: dict[int, DeviceError] = {}
        for card in self._with_kernel(wish):
            if claim := self._claim(card, wish, join=True):
                try:
                    return self._open(card, claim)
                except _NO_ROOM as error:
                    busy[card.index] = error
        for index in count():
            card = self._card(wish, index)
            claim = self._claim(card, wish)
            if claim is None:
                busy.setdefault(index, card.busy(wish))
                continue
            try:
                return self._open(card, claim)
            except (DeviceBusyError, ComputeUnitOutOfServiceError) as error:
                busy[index] = error
            except DeviceNotFoundError as error:
                if not busy:
                    raise
                raise _all_busy([busy[number] for number in sorted(busy)], wish) from error
        raise AssertionError

    def _with_kernel(self, wish: Wish) -> list[_Card]:
        """The cards whose xclbin has the model's kernel: first those with its own xclbin."""
        with self._lock:
            cards = [card for card in self._cards[opening.card_set(wish.contents)].values() if card.units_for(wish)]
            return sorted(
                cards, key=lambda card: (card.contents is None or card.contents.uuid != wish.contents.uuid, card.index)
            )

    def _card(self, wish: Wish, index: int) -> _Card:
        with self._lock:
            return self._cards[opening.card_set(wish.contents)].setdefault(index, _Card(index))

    def _claim(self, card: _Card, wish: Wish, *, join: bool = False) -> _Claim | None:
        """Claim the model's units of a card, which gets the model's xclbin if it is free. join: only if it is not free."""
        with self._lock:
            if not card.claims and not join:
                card.contents = wish.contents
            if not card.claims and join:
                return None
            units = card.units_for(wish)
            if not units:
                return None
            claim = _Claim(wish, units)
            card.claims.append(claim)
            return claim

    def _open(self, card: _Card, claim: _Claim) -> Place:
        wish = claim.wish
        with card.lock:
            try:
                if card.instances is None:
                    device = opening.open_device(wish.xclbin, card.index, self._usage(card, wish))
                    card.address = self.register.address(device, card.index)
                    self.register.loaded(device, card.index)
                    card.instances = CardInstances(device, lambda: self._reopen(card))
                on_card = card.instances.open(wish.model, lambda device: wish.open_instances(device, units=claim.units))
            except BaseException:
                self._leave(card, claim)
                raise
            held_bytes = sum(slot.x.nbytes + slot.y.nbytes for instance in on_card.instances for slot in instance.slots)
            held_bytes += wish.manifest.weights_bytes * len(on_card.instances)
            seen = self.register.card(card.instances.device, card.index, held_bytes)
            return Place(on_card, seen, card.index, lambda: self._leave(card, claim, on_card))

    def _leave(self, card: _Card, claim: _Claim, on_card: ModelOnCard | None = None) -> None:
        with card.lock:
            try:
                if on_card is not None:
                    on_card.close()
            finally:
                if card.instances is not None and not card.instances.models:
                    card.instances = None
                with self._lock:
                    if claim in card.claims:
                        card.claims.remove(claim)
                    if not card.claims:
                        card.contents = None

    def _reopen(self, card: _Card) -> Device:
        """Open a card again, by its place on the bus: XRT renumbers cards when others are removed or added."""
        with self._lock:
            claims = tuple(card.claims)
        path = next(self._files(card, claims), claims[0].wish.xclbin)
        index = card.index if card.address is None else self.register.index(card.address)
        device = opening.open_device(path, index, self._usage(card, claims[0].wish))
        self.register.loaded(device, index)
        return device

    def _usage(self, card: _Card, wish: Wish) -> CardUsage:
        return self.register.usage(opening.card_set(wish.contents), card.index)

    def _files(self, card: _Card, claims: Sequence[_Claim]) -> Iterator[Path]:
        """The files of the xclbin on the card: each of its models may have been removed from the repository."""
        for claim in claims:
            if card.contents is not None and claim.wish.contents.uuid == card.contents.uuid and claim.wish.xclbin.exists():
                yield claim.wish.xclbin


def _serves(contents: Xclbin, wish: Wish) -> bool:
    """True if an xclbin has the model's kernel."""
    own, manifest = wish.contents, wish.manifest
    if contents.uuid == own.uuid:
        return True
    same_card = (contents.target, contents.vbnv) == (own.target, own.vbnv)
    digest = contents.kernel_digests.get(manifest.kernel, "")
    return same_card and digest != "" and digest == manifest.kernel_sha256


def _all_busy(busy: Sequence[DeviceError], wish: Wish) -> ModelBusyError:
    emulated = wish.manifest.target.emulated
    more = busy if emulated else busy[1:]  # for cards, none_left quotes the first
    return ModelBusyError("; ".join([none_left(busy, emulated=emulated), *map(str, more)]))
