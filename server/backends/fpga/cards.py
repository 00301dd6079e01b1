# SPDX-License-Identifier: Apache-2.0
"""The cards that this server has used, for monitoring: their labels, sensors, loads of xclbins, and use of bus and memory."""

from __future__ import annotations

import logging
import platform
import threading
import uuid
from collections import Counter
from functools import partial
from pathlib import Path

from hypersonic.host import telemetry
from hypersonic.host.device import Device
from hypersonic.host.errors import DeviceNotFoundError
from hypersonic.host.locked_memory import locked_memory_warning
from hypersonic.host.sysfs import SYSFS
from hypersonic.host.usage import CardUsage
from hypersonic.server.core.inference.card import CardReadings, CardStatus

_LOG = logging.getLogger(__name__)


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

    def usage(self, kind: str, index: int) -> CardUsage:
        """Return a card's counters.

        Args:
            kind: its opening.card_set.
        """
        with self._lock:
            return self._usage.setdefault((kind, index), CardUsage())

    def loaded(self, device: Device, index: int) -> None:
        """Record that an xclbin was loaded to the card."""
        name, address = _name(device, index), self.address(device, index)
        with self._lock:
            if device.target.emulated and name not in self._loads:
                _LOG.info("card %d (%s) is SIMULATED: this machine computes its answers, no FPGA does", index, device.name)
            self._loads[name] += 1
            if address is not None and name not in self._sensors:
                self._sensors[name] = telemetry.CardSensors(partial(telemetry.read_telemetry, address, self._sysfs))

    def card(self, device: Device, index: int, held_bytes: int) -> CardStatus:
        """Return the card with what one model holds on it.

        Its label is made of host, platform and place, so that it stays the same across xclbins and restarts. A warning is
        logged once if the buffers of all models exceed the limit of locked memory.
        """
        name = _name(device, index)
        if not device.target.emulated:
            self._check_locked_memory(device.usage)
        read = partial(self._read, name, device.usage)
        return CardStatus(name, device.name, device.memory_bytes, held_bytes, read, device.target.emulated)

    def _check_locked_memory(self, usage: CardUsage) -> None:
        with self._lock:
            if self._warned:
                return
            self._pinned.add(usage)
            needed_bytes = sum(sum(each.held_bytes().values()) for each in self._pinned)
            if warning := locked_memory_warning(needed_bytes):
                self._warned = True
                _LOG.warning("%s", warning)

    def address(self, device: Device, index: int) -> str | None:
        """Return the address on the PCI bus; None if sysfs does not show the card."""
        return None if device.target.emulated else telemetry.card_address(index, self._sysfs)

    def index(self, address: str) -> int:
        """Return XRT's current index of the card at this address. Raises DeviceNotFoundError."""
        index = telemetry.card_index(address, self._sysfs)
        if index is None:
            raise DeviceNotFoundError(f"no card is at {address} any more: `hypersonic devices` lists those there are")
        return index

    def _read(self, name: str, usage: CardUsage, max_age_s: float) -> CardReadings:
        sensors = self._sensors.get(name)
        read = sensors.latest(max_age_s) if sensors is not None else telemetry.NOTHING
        return CardReadings(
            read.temperatures_c, read.power_w, read.power_limit_w, self._loads[name] - 1, usage.bytes_to_card,
            usage.bytes_from_card, usage.held_bytes(),
        )  # fmt: skip


def _name(device: Device, index: int) -> str:
    return f"FPGA-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{platform.node()}/{device.target}/{device.name}/{index}')}"
