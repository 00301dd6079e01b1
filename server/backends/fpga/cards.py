# SPDX-License-Identifier: Apache-2.0
"""The cards that this server has used, for monitoring: their labels, sensors, loads of xclbins, and use of bus and memory."""

from __future__ import annotations

import logging
import os
import platform
import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hypersonic.host import telemetry
from hypersonic.host.device import Device
from hypersonic.host.errors import DeviceNotFoundError
from hypersonic.host.f2 import bar
from hypersonic.host.locked_memory import locked_memory_warning
from hypersonic.host.opening import F2_CARD, card_set
from hypersonic.host.sysfs import SYSFS, card_addresses
from hypersonic.host.usage import CardUsage
from hypersonic.server.core.inference.card import CardReadings, CardStatus

_LOG = logging.getLogger(__name__)
#: environment variable: the name of the host, where its hostname is that of a container
NODE_NAME = "NODE_NAME"


class CardIdentity(NamedTuple):
    """A card.

    Attributes:
        gpu_uuid: the label of its metrics.
        kind: its opening.card_set.
        number: its driver's index of it when it was identified.
        address: on the PCI bus, None if sysfs does not show the card.
    """

    gpu_uuid: str
    kind: str
    number: int
    address: str | None = None


class CardRegister:
    """The cards that this server has used: their sensors and counters, and its loads of xclbins. Any thread may use it."""

    def __init__(self, sysfs: Path = SYSFS) -> None:
        self._sysfs = sysfs
        self._lock = threading.Lock()
        self._loads: Counter[str] = Counter()
        self._sensors: dict[str, telemetry.CardSensors] = {}
        self._usage: dict[tuple[str, int], CardUsage] = {}
        #: of the cards whose buffers are locked in the host's memory
        self._pinned: set[CardUsage] = set()
        self._warned = False
        #: address -> gpu_uuid, which never changes
        self._named: dict[str, str] = {}

    def usage(self, kind: str, index: int) -> CardUsage:
        """Return a card's counters.

        Args:
            kind: its opening.card_set.
        """
        with self._lock:
            return self._usage.setdefault((kind, index), CardUsage())

    def identify(self, device: Device, index: int) -> CardIdentity:
        """Return which card was opened as `index`.

        Its label is made of its serial number, or else of host and PCI address, so that it stays the same for other xclbins and
        servers. An emulated card belongs to its process, whose host is that of the container.
        """
        kind = card_set(device.contents)
        addresses = () if device.target.emulated else self._addresses(kind)
        if index >= len(addresses):
            return CardIdentity(_label(f"{platform.node()}/{kind}/{index}"), kind, index)
        address = addresses[index]
        if address not in self._named:
            serial = telemetry.serial_number(address, self._sysfs)  # takes as long as the card's driver does
            self._named.setdefault(address, _label(serial or f"{os.environ.get(NODE_NAME) or platform.node()}/{address}"))
        return CardIdentity(self._named[address], kind, index, address)

    def loaded(self, device: Device, card: CardIdentity) -> None:
        """Record that an xclbin was loaded to the card."""
        name, address = card.gpu_uuid, card.address
        with self._lock:
            if device.target.emulated and name not in self._loads:
                text = "card %d (%s) is SIMULATED: this machine computes its answers, no FPGA does"
                _LOG.info(text, card.number, device.name)
            self._loads[name] += 1
            if address is not None and name not in self._sensors:
                self._sensors[name] = telemetry.CardSensors(partial(telemetry.read_telemetry, address, self._sysfs))

    def card(self, device: Device, card: CardIdentity, held_bytes: int) -> CardStatus:
        """Return the card with what one model holds on it.

        A warning is logged once if the buffers of all models exceed the limit of locked memory.
        """
        if not device.target.emulated:
            self._check_locked_memory(device.usage)
        read = partial(self._read, card.gpu_uuid, device.usage)
        return CardStatus(card.gpu_uuid, device.name, device.memory_bytes, held_bytes, read, device.target.emulated)

    def _check_locked_memory(self, usage: CardUsage) -> None:
        with self._lock:
            if self._warned:
                return
            self._pinned.add(usage)
            needed_bytes = sum(sum(each.held_bytes().values()) for each in self._pinned)
            if warning := locked_memory_warning(needed_bytes):
                self._warned = True
                _LOG.warning("%s", warning)

    def index(self, card: CardIdentity) -> int:
        """Return the driver's number for the card now, which changes when others are removed. Raises DeviceNotFoundError."""
        if card.address is None:
            return card.number
        addresses = self._addresses(card.kind)
        if card.address not in addresses:
            raise DeviceNotFoundError(f"no card is at {card.address} any more: `hypersonic devices` lists those there are")
        return addresses.index(card.address)

    def _addresses(self, kind: str) -> Sequence[str]:
        """Return the PCI addresses of the cards of one kind, in the order in which their driver numbers them."""
        return bar.card_addresses(self._sysfs) if kind == F2_CARD else card_addresses(self._sysfs)

    def _read(self, name: str, usage: CardUsage, max_age_s: float) -> CardReadings:
        sensors = self._sensors.get(name)
        read = sensors.latest(max_age_s) if sensors is not None else telemetry.NOTHING
        return CardReadings(
            read.temperatures_c, read.power_w, read.power_limit_w, self._loads[name] - 1, usage.bytes_to_card,
            usage.bytes_from_card, usage.held_bytes(),
        )  # fmt: skip


def _label(identity: str) -> str:
    return f"FPGA-{uuid.uuid5(uuid.NAMESPACE_DNS, identity)}"
