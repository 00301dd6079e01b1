# SPDX-License-Identifier: Apache-2.0
"""The cards that this server has used, for monitoring: their labels, sensors, and loads of xclbins."""

from __future__ import annotations

import platform
import threading
import uuid
from collections import Counter
from functools import partial
from pathlib import Path

from hypersonic.host import telemetry
from hypersonic.host.device import Device
from hypersonic.host.errors import DeviceNotFoundError
from hypersonic.host.sysfs import SYSFS
from hypersonic.server.inference.card import Card, CardReadings


class CardRegister:
    """The cards that this server has used: their sensors, and how often it loaded an xclbin. Any thread may use it."""

    def __init__(self, sysfs: Path = SYSFS) -> None:
        self._sysfs = sysfs
        self._lock = threading.Lock()
        self._loads: Counter[str] = Counter()
        self._sensors: dict[str, telemetry.CardSensors] = {}

    def loaded(self, device: Device, index: int, held_bytes: int) -> Card:
        """Return the card after an xclbin was loaded to it.

        Its label is made of host, platform and place, so that it stays the same across xclbins and restarts.
        """
        place = uuid.uuid5(uuid.NAMESPACE_DNS, f"{platform.node()}/{device.target}/{device.name}/{index}")
        name = f"FPGA-{place}"
        address = self.address(device, index)
        with self._lock:
            self._loads[name] += 1
            if address is not None and name not in self._sensors:
                self._sensors[name] = telemetry.CardSensors(partial(telemetry.read_telemetry, address, self._sysfs))
        return Card(name, device.name, device.memory_bytes, held_bytes, partial(self._read, name))

    def address(self, device: Device, index: int) -> str | None:
        """Return the address on the PCI bus; None if sysfs does not show the card."""
        return None if device.target.emulated else telemetry.card_address(index, self._sysfs)

    def index(self, address: str) -> int:
        """Return XRT's current index of the card at this address. Raises DeviceNotFoundError."""
        index = telemetry.card_index(address, self._sysfs)
        if index is None:
            raise DeviceNotFoundError(f"no card is at {address} any more: `hypersonic devices` lists those there are")
        return index

    def _read(self, name: str, max_age_s: float) -> CardReadings:
        sensors = self._sensors.get(name)
        read = sensors.latest(max_age_s) if sensors is not None else telemetry.NOTHING
        return CardReadings(read.temperatures_c, read.power_w, read.power_limit_w, self._loads[name] - 1)
