# SPDX-License-Identifier: Apache-2.0
"""A model's instances on one card, which can be recovered after the card was reset or plugged in again.

    one compute unit hangs   The others continue. Nothing is released: the unit may still write, and XRT's driver ends (SIGBUS)
                             every process that has the card open when it is reset.
    all units are lost       Everything is released, so that nothing uses the card when it is reset.
    recover(name)            The card is opened again. Refused until the card responds and no unit has a hung run.

Only the card's registers show whether a unit is still hung. Where they cannot be read, nothing is released unless the card is
gone. All methods may be called by any thread.
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
    """A model's instances on one card. instances: those that open_instances returned last."""

    def __init__(self, device: Device, reopen: OpenDevice, open_instances: OpenInstances) -> None:
        """device: closed by this object from now on. reopen: opens the same card with the same xclbin. Raises the errors of
        open_instances."""
        self._device, self._reopen, self._open_instances = device, reopen, open_instances
        self._lock = threading.Lock()
        self._closed = False
        #: the instances whose users no longer use the slots, until this is so for all
        self._given_back: set[str] = set()
        self._recovered: dict[str, ModelInstance] = {}
        self.instances = open_instances(device)

    @property
    def recoverable(self) -> bool:
        """True if this process can recover a lost instance."""
        return self._device.releasable

    def recover(self, name: str) -> ModelInstance:
        """Open the card again if necessary, and return the instance with that name, whose old slots must not be in use.

        Raises ComputeUnitOutOfServiceError while other instances on the card are in service or in use, and the errors of
        opening a card.
        """
        with self._lock:
            if self._closed:
                raise DeviceClosedError(f"the card of {name} is closed")
            if name not in self._recovered:
                self._given_back.add(name)
                self._open_anew(name)
            return self._recovered.pop(name)

    def close(self) -> None:
        """Release the card, and where that is safe also the buffers that a hung unit may still write to.

        The slots must not be in use. A second call does nothing.
        """
        with self._lock:
            self._closed = True
            if self.recoverable and not all(instance.in_service for instance in self.instances):
                self._device.release()
            for instance in self.instances:
                instance.close()
            self._device.close()

    def _open_anew(self, name: str) -> None:
        in_use = [other.name for other in self.instances if other.in_service or other.name not in self._given_back]
        if in_use:
            raise ComputeUnitOutOfServiceError(
                f"{name} can be recovered once {', '.join(in_use)} of the same card are not in use either: unload the model, "
                f"{self._device.reset}, load it again"
            )
        self._device.release()
        device = self._reopen()
        try:
            self.instances = self._open_instances(device)
        except BaseException:
            device.close()
            raise
        self._device = device
        self._given_back.clear()
        self._recovered = {instance.name: instance for instance in self.instances}
