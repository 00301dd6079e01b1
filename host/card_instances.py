# SPDX-License-Identifier: Apache-2.0
"""A model's instances on one card, which can be had again once the card was reset or plugged in again.

    a compute unit hangs     its siblings go on. Nothing is given back: the unit may still write, and XRT's driver ends (SIGBUS)
                             every process that has the card open when it is reset
    all are lost             everything is given back: whoever resets the card finds nobody using it
    recover(name)            the card is opened anew; refused until it answers, and no run hangs on any unit

Only the card's registers tell whether a unit still hangs: where they cannot be read nothing is given back, unless the card is
gone altogether. Any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from hypersonic.host.device import Device
from hypersonic.host.errors import ComputeUnitOutOfServiceError, DeviceClosedError
from hypersonic.host.instance import ModelInstance

OpenDevice = Callable[[], Device]
OpenInstances = Callable[[Device], tuple[ModelInstance, ...]]


class CardInstances:
    """instances: as open_instances gave them last."""

    def __init__(self, device: Device, reopen: OpenDevice, open_instances: OpenInstances) -> None:
        """Takes the device over. reopen: the same card with the same xclbin. Raises what open_instances does."""
        self._device, self._reopen, self._open_instances = device, reopen, open_instances
        self._lock = threading.Lock()
        self._closed = False
        #: names whose users let go of their slots, until all have
        self._given_back: set[str] = set()
        self._recovered: dict[str, ModelInstance] = {}
        self.instances = open_instances(device)

    @property
    def recoverable(self) -> bool:
        """Whether a lost instance can ever be had again by this process."""
        return self._device.can_be_let_go

    def recover(self, name: str) -> ModelInstance:
        """The instance of that name on the card opened anew; nobody uses the slots of the old one any more.

        Raises ComputeUnitOutOfServiceError while others of the card are in service or in use, and what opening a card raises.
        """
        with self._lock:
            if self._closed:
                raise DeviceClosedError(f"the card of {name} is closed")
            if name not in self._recovered:
                self._given_back.add(name)
                self._open_anew(name)
            return self._recovered.pop(name)

    def close(self) -> None:
        """Give the card back, with what a hung unit may still write to where that can be; nobody uses a slot any more. Harmless
        the second time."""
        with self._lock:
            self._closed = True
            if self.recoverable and not all(instance.in_service for instance in self.instances):
                self._device.let_go()
            for instance in self.instances:
                instance.close()
            self._device.close()

    def _open_anew(self, name: str) -> None:
        in_use = [other.name for other in self.instances if other.in_service or other.name not in self._given_back]
        if in_use:
            raise ComputeUnitOutOfServiceError(
                f"{name} can be had again once {', '.join(in_use)} of the same card are not in use either: unload the model, "
                f"{self._device.reset}, load it again"
            )
        self._device.let_go()
        device = self._reopen()
        try:
            self.instances = self._open_instances(device)
        except BaseException:
            device.close()
            raise
        self._device = device
        self._given_back.clear()
        self._recovered = {instance.name: instance for instance in self.instances}
