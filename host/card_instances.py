# SPDX-License-Identifier: Apache-2.0
"""The models on one card, which can be recovered after the card was reset or plugged in again.

::

    CardInstances       one card with one xclbin, shared by the models on it
    `-- ModelOnCard         one model's instances, each on a compute unit

    one compute unit hangs   The others continue, of the same model and of others. Nothing is released: the unit may still
                             write, and XRT's driver ends (SIGBUS) every process that has the card open when it is reset.
    all units are lost       Everything is released, so that nothing uses the card when it is reset.
    recover(name)            The card is opened again, and then the model's instances. Refused until no unit of the card is in
                             use, the card responds, and the model's units have no hung run. So the models of a card return
                             one by one, and one that cannot does not affect the others.

Only the card's registers show whether a unit is still hung. Where they cannot be read, nothing is released unless the card is
gone. All methods may be called by any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from hypersonic.host.device import Device
from hypersonic.host.errors import ComputeUnitOutOfServiceError, DeviceClosedError
from hypersonic.host.instance import ModelInstance

OpenDevice = Callable[[], Device]
OpenInstances = Callable[[Device], tuple[ModelInstance, ...]]


class ModelOnCard:
    """A model's instances on one card, made by CardInstances.open.

    Args:
        instances: those that were opened last.
    """

    def __init__(
        self, card: CardInstances, model: str, open_instances: OpenInstances, instances: tuple[ModelInstance, ...]
    ) -> None:
        self.model, self.instances = model, instances
        self._card, self._open_instances = card, open_instances
        self._closed = False
        #: the names of the instances whose slots their users have released; cleared when all instances are opened again
        self.given_back: set[str] = set()
        self._recovered: dict[str, ModelInstance] = {}
        #: True while the instances are those of a device that was released
        self.away = False

    @property
    def recoverable(self) -> bool:
        """True if this process can recover a lost instance."""
        return self._card.recoverable

    @property
    def used(self) -> Iterator[str]:
        """The names of the instances that are in service, or whose users still use the slots."""
        return (one.name for one in self.instances if not self.away and (one.in_service or one.name not in self.given_back))

    def recover(self, name: str) -> ModelInstance:
        """Open the card again if necessary, and return the instance with that name, whose old slots must not be in use.

        Raises ComputeUnitOutOfServiceError while other instances on the card are in service or in use, and the errors of
        opening a card and of open_instances.
        """
        with self._card.lock:
            if self._closed:
                raise DeviceClosedError(f"the card of {name} is closed")
            if name not in self._recovered:
                self.given_back.add(name)
                self._card.renew(self, name)
                self.instances = self._card.open_anew(self._open_instances)
                self.away = False
                self.given_back.clear()
                self._recovered = {instance.name: instance for instance in self.instances}
            return self._recovered.pop(name)

    def close(self) -> None:
        """Release the instances, and the card with its last model. The slots must not be in use. A second call does nothing."""
        with self._card.lock:
            if not self._closed:
                self._closed = True
                self._card.leave(self)


class CardInstances:
    """A card and the models on it.

    Attributes:
        lock: reentrant; held while models are opened, recovered, closed.

    Args:
        device: the open one.
    """

    def __init__(self, device: Device, reopen: OpenDevice) -> None:
        """Create a CardInstances.

        Args:
            device: closed by this object from now on.
            reopen: opens the same card with the same xclbin.
        """
        self.lock = threading.RLock()
        self.device, self._reopen = device, reopen
        self._models: list[ModelOnCard] = []

    @property
    def models(self) -> tuple[ModelOnCard, ...]:
        """The models on the card."""
        return tuple(self._models)

    @property
    def recoverable(self) -> bool:
        """True if this process can recover a lost instance."""
        return self.device.releasable

    def open(self, model: str, open_instances: OpenInstances) -> ModelOnCard:
        """Open a model's instances.

        Raises the errors of open_instances, and of opening the card if it was released.

        Args:
            model: its name, for messages.
        """
        with self.lock:
            if self.device.closed:
                self.device = self._reopen()
            opened = ModelOnCard(self, model, open_instances, self.open_anew(open_instances))
            self._models.append(opened)
            return opened

    def open_anew(self, open_instances: OpenInstances) -> tuple[ModelInstance, ...]:
        """Open instances; if that fails, close the card unless other models have instances on it. The lock is held."""
        try:
            return open_instances(self.device)
        except BaseException:
            self._close_unused()
            raise

    def renew(self, model: ModelOnCard, name: str) -> None:
        """Open the card again, unless another model has done so. The lock is held.

        Raises as ModelOnCard.recover.

        Args:
            model, name: the instance for which it is opened.
        """
        if not model.away:
            self._require_unused(model, name)
            self.device.release()
            for each in self._models:
                each.away = True
        if self.device.closed:
            self.device = self._reopen()

    def _require_unused(self, model: ModelOnCard, name: str) -> None:
        used = {each: names for each in self._models if (names := list(each.used))}
        if not used:
            return
        units = ", ".join(unit for names in used.values() for unit in names)
        others = "".join(f" and {each.model!r}" for each in used if each is not model)
        raise ComputeUnitOutOfServiceError(
            f"{name} can be recovered once {units} of the same card are not in use either: unload {model.model!r}{others}, "
            f"{self.device.reset}, load again"
        )

    def leave(self, model: ModelOnCard) -> None:
        """Close a model's instances. The lock is held."""
        self._models.remove(model)
        if model.away:
            return
        alone = all(each.away for each in self._models)
        if alone and self.recoverable and not all(unit.in_service for unit in self.device.compute_units):
            self.device.release()
        with ExitStack() as closing:
            closing.callback(self._close_unused)
            for instance in model.instances:
                closing.callback(instance.close)

    def _close_unused(self) -> None:
        """Close the device if no model has instances on it."""
        if all(each.away for each in self._models):
            self.device.close()

    def close(self) -> None:
        """Close all models, and the card."""
        with self.lock:
            for model in self.models:
                model.close()
            self.device.close()
