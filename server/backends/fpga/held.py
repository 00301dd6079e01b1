# SPDX-License-Identifier: Apache-2.0
"""The state of one card in CardPool: the xclbin on it, and the models that claim its compute units."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.host.card_instances import CardInstances, ModelOnCard
from hypersonic.host.device import Device
from hypersonic.host.errors import DeviceBusyError
from hypersonic.host.instance import ModelInstance
from hypersonic.server.backends.fpga.cards import CardIdentity
from hypersonic.server.core.inference.card import CardStatus, Shortfall


class OpenInstances(Protocol):
    """Opens a model's instances on compute units of a card."""

    def __call__(self, device: Device, *, units: Sequence[str]) -> tuple[ModelInstance, ...]:
        """As host.instance.open_instances."""


class Wish(NamedTuple):
    """A model version that needs a card.

    Attributes:
        contents: the metadata of its own xclbin (the file `xclbin`), without the image.
        check: raises if the version's files are not those that were published.
        kind: the kind of card, by opening.card_set.
        moves: True if the model takes turns with others, so that it may leave the card again. Such a model gets exactly the
            units that its manifest lists; other models may get more.
    """

    model: str
    manifest: Manifest
    contents: Xclbin
    xclbin: Path
    open_instances: OpenInstances
    check: Callable[[], object]
    kind: str
    moves: bool = False


@dataclass(frozen=True, eq=False)
class Claim:
    """A model version's compute units on a card."""

    wish: Wish
    units: tuple[str, ...]

    def may_share(self, other: Wish) -> bool:
        """Return whether another model, which has an equal kernel, may use the same units."""
        mine, manifest = self.wish.manifest, other.manifest
        return self.wish.model == other.model or bool(mine.weights_bytes and manifest.weights_bytes)


@dataclass(eq=False)
class HeldCard:
    """The state of one card. The pool's lock protects its fields, except where stated otherwise.

    Attributes:
        lock: held while the card is opened, while models come and go, and while it is closed; it protects file, instances,
            identity and loaded_ns.
        contents: the metadata of the xclbin on the card, None for a free card.
        file: that xclbin, which stays readable when its model leaves and is removed from the repository.
        identity: which card it was when it was opened last.
        missing: the machine has no such card.
        changing_ns: since when its xclbin is being replaced, in monotonic ns, 0 = it is not. Meanwhile only the thread that
            does so may claim units.
        taken: models that take turns have to leave it for another model, which is being loaded.
        unusable_until_ns: models that take turns do not try the card before this time, because a load to it failed or its units
            were lost.
    """

    index: int
    lock: threading.RLock = field(default_factory=threading.RLock)
    contents: Xclbin | None = None
    file: BinaryIO | None = None
    claims: list[Claim] = field(default_factory=list)
    instances: CardInstances | None = None
    identity: CardIdentity | None = None
    loaded_ns: int = 0
    missing: bool = False
    changing_ns: int = 0
    taken: bool = False
    unusable_until_ns: int = 0

    @property
    def changing(self) -> bool:
        """True while its xclbin is being replaced."""
        return self.changing_ns > 0

    @property
    def fixed(self) -> bool:
        """True if a model that never leaves it for others is on the card, or will be."""
        return self.taken or any(not claim.wish.moves for claim in self.claims)

    def units_for(self, wish: Wish) -> tuple[str, ...]:
        """Return the names of the compute units that a model may use; empty if the card is free or lacks the model's kernel."""
        if self.contents is None or not wish.manifest.runs_in(self.contents):
            return ()
        taken = {unit for claim in self.claims if not claim.may_share(wish) for unit in claim.units}
        units = tuple(unit.name for unit in self.contents.units_of(wish.manifest.kernel) if unit.name not in taken)
        needed = len(wish.manifest.compute_units)
        return units if not wish.moves else units[:needed] if len(units) >= needed else ()

    def to_load(self) -> Wish | None:
        """Return the model whose own xclbin a card that was reset gets, None for the xclbin that was on it (`file`).

        The card gets another xclbin if all models with the old one have left, and the new one has all claimed units.
        """
        wishes = [claim.wish for claim in self.claims]
        if any(self.contents is not None and wish.contents.uuid == self.contents.uuid for wish in wishes):
            return None
        return next((wish for wish in wishes if wish.xclbin.exists() and self._fits(wish)), None)

    def keep(self, xclbin: Path) -> None:
        """Keep the file of the xclbin on the card open, in place of the one before."""
        file = xclbin.open("rb")
        self.release_file()
        self.file = file

    def release_file(self) -> None:
        """Close the file of the xclbin on the card. Without one, nothing happens."""
        if self.file is not None:
            self.file.close()
            self.file = None

    def _fits(self, wish: Wish) -> bool:
        """Return whether a model's own xclbin has the kernels and units of all models on the card."""
        units = {unit.name for unit in wish.contents.compute_units}
        return all(claim.wish.manifest.runs_in(wish.contents) and units.issuperset(claim.units) for claim in self.claims)

    def serves_replaced(self, wish: Wish) -> bool:
        """Return whether another version of the model is on the card, with other compute units or another clock."""
        return any(claim.wish.model == wish.model for claim in self.claims) and bool(self.shortfall(wish, self.units_for(wish)))

    def shortfall(self, wish: Wish, units: Sequence[str]) -> Shortfall | None:
        """Return how a model with these units of the card differs from one with its own xclbin, None if it does not."""
        own = wish.contents
        here = _resources(len(units), self.contents or own)
        wanted = _resources(len(own.units_of(wish.manifest.kernel)), own)
        if here == wanted:
            return None
        text = (
            f"the model has {here} of card {self.index}, which it shares; its own xclbin, which is not loaded, has {wanted}. "
            f"Unload the model and load it again when no other model is on the card, or add a card"
        )
        return Shortfall(text, all(claim.wish.model == wish.model for claim in tuple(self.claims)))

    def busy(self, wish: Wish) -> DeviceBusyError:
        """Return the error that names the models on the card."""
        models = ", ".join(dict.fromkeys(repr(claim.wish.model) for claim in self.claims)) or "a model that is being loaded"
        if self.contents is not None and wish.manifest.runs_in(self.contents):
            units = ", ".join(unit.name for unit in self.contents.units_of(wish.manifest.kernel))
            return DeviceBusyError(f"card {self.index} has the kernel of {wish.model!r}, but {models} uses {units}")
        return DeviceBusyError(f"card {self.index} has the xclbin of {models}")


def _resources(units: int, xclbin: Xclbin) -> str:
    clock = f" at {mhz} MHz" if (mhz := xclbin.kernel_clock_mhz) else ""
    return f"{units} compute unit{'s' if units != 1 else ''}{clock}"


class PlacedModel:
    """A model version on one card."""

    def __init__(self, on_card: ModelOnCard, card: CardStatus, held: HeldCard, leave: Callable[[], None]) -> None:
        self.on_card, self.card, self.held = on_card, card, held
        self.index = held.index
        self._leave = leave

    def close(self) -> None:
        """Leave the card, which is closed when its last model leaves. A second call does nothing."""
        self._leave()
