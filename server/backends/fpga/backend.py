# SPDX-License-Identifier: Apache-2.0
"""Backend "fpga": a version directory with model.xclbin and manifest.json, run by the cards of this host, and with weights.bin
if the kernel loads its weights at run time.

In server/, only the files of this folder import `host` and `firmware`. config.pbtxt's parameters: slot_rows (rows of a slot),
slots (per compute unit), timeout_ms (of a run), retry_ms (polling interval for a lost card to be back). instance_group's gpus
name the cards; by default the first free card is used.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import model_config_pb2

from hypersonic.firmware.errors import FirmwareError, ManifestError, XclbinError
from hypersonic.firmware.publish.config_pbtxt import packed_rows
from hypersonic.firmware.publish.manifest import MAX_BYTES, WEIGHTS_NAME, Manifest
from hypersonic.firmware.publish.manifest import check as check_manifest
from hypersonic.hls.row import Row
from hypersonic.host import instance as host_instance
from hypersonic.host import opening
from hypersonic.host.card_instances import CardInstances
from hypersonic.host.device import Device
from hypersonic.host.devices import none_left
from hypersonic.host.errors import (
    ComputeUnitOutOfServiceError,
    ComputeUnitTimeoutError,
    DeviceBusyError,
    DeviceError,
    DeviceNotFoundError,
    MemoryAccessError,
)
from hypersonic.host.release import release_warning
from hypersonic.server.backends.fpga.cards import CardRegister
from hypersonic.server.backends.fpga.properties import FPGA
from hypersonic.server.config.schema import ModelConfig, TensorConfig
from hypersonic.server.errors import (
    BackendError,
    InstanceAwayError,
    InstanceLostError,
    InstanceTimeoutError,
    ModelBusyError,
    ModelLoadError,
)
from hypersonic.server.inference.answer import Answer, Output
from hypersonic.server.inference.backend import Execution
from hypersonic.server.inference.card import Card
from hypersonic.server.inference.pending import Share
from hypersonic.server.links import Links
from hypersonic.server.memory import copy_into

_LOG = logging.getLogger(__name__)
XCLBIN, MANIFEST = FPGA.model_file, "manifest.json"
#: the defaults of config.pbtxt's parameters
SLOT_ROWS, SLOTS, TIMEOUT_MS, RETRY_MS = 16384, 2, 10_000, 10_000


class FpgaSlot:
    """A slot of a compute unit: requests' bytes are copied straight into the mapped buffer object, answers are read straight
    out.

    A single tensor lies in its buffer as in a request; with several, each row of the buffer holds a piece of each tensor.
    """

    def __init__(self, owner: FpgaInstance, slot: host_instance.Slot, rows: tuple[Row, Row], timeout_ms: int) -> None:
        """Create the slot. rows: the row layouts of the input and the output."""
        self.capacity_rows = slot.capacity_rows
        self._owner = owner
        self._slot = slot
        self._inputs, self._outputs = rows
        self._timeout_ms = timeout_ms
        self._x = slot.x.data
        self._y = slot.y.data.toreadonly()
        self._x_columns = _columns(slot.x, self._inputs)
        self._y_columns = _columns(slot.y, self._outputs)
        #: (first row, rows) of each share; no reference to the requests, which hold megabytes, is kept
        self._rows: list[tuple[int, int]] = []
        self._sent_rows = 0

    def start(self, shares: Sequence[Share]) -> None:
        """As Slot.start."""
        at = rows = 0
        self._rows.clear()
        for share in shares:
            if self._x_columns:
                self._scatter(share, rows)
            else:
                (data,) = share.tensors
                assert data is not None  # a kernel has no optional inputs
                at = copy_into(self._x, at, data)
            self._rows.append((rows, share.rows))
            rows += share.rows
        self._sent_rows = rows
        try:
            self._slot.start(rows)
        except DeviceError as error:
            raise self._owner.failure(error) from error

    def _scatter(self, share: Share, at: int) -> None:
        """Write each tensor's piece of every row, starting at row `at`."""
        for column, data in zip(self._x_columns, share.tensors, strict=True):
            assert data is not None  # a kernel has no optional inputs
            column[at : at + share.rows] = np.frombuffer(data, column.dtype)

    def finish(self) -> Execution:
        """As Slot.finish."""
        try:
            times = self._slot.finish(self._timeout_ms)
        except DeviceError as error:
            raise self._owner.failure(error) from error
        bytes_in, bytes_out = (self._sent_rows * row.row_bytes for row in (self._inputs, self._outputs))
        return Execution(times.launched_ns, times.done_ns, bytes_in, bytes_out)

    def answer(self, index: int) -> Answer:
        """As Slot.answer."""
        first_row, rows = self._rows[index]
        if self._y_columns:
            return Answer(
                tuple(self._gathered(position, first_row, rows) for position in range(len(self._y_columns))), fresh=True
            )
        (tensor,) = self._outputs.tensors
        start, size = first_row * tensor.row_bytes, rows * tensor.row_bytes
        output = Output(0, tensor.datatype, (rows, *tensor.shape), (self._y[start : start + size],), size)
        return Answer((output,))

    def _gathered(self, position: int, first_row: int, rows: int) -> Output:
        tensor, column = self._outputs.tensors[position], self._y_columns[position]
        data = np.ascontiguousarray(column[first_row : first_row + rows]).view(np.uint8).data
        return Output(position, tensor.datatype, (rows, *tensor.shape), (data,), len(data))

    def release(self) -> None:
        """Drop the references to the mapped buffers, so that they can be unmapped."""
        self._x_columns = self._y_columns = ()
        self._x.release()
        self._y.release()


def _columns(buffer: NDArray[np.uint8], row: Row) -> tuple[NDArray[Any], ...]:
    """Return a view of each tensor in a buffer of rows, shape (capacity_rows,), whose items are opaque pieces of row_bytes.

    Empty for one tensor, since the buffer is the tensor.
    """
    if len(row.tensors) == 1:
        return ()
    rows = buffer.reshape(-1, row.row_bytes)
    return tuple(
        rows[:, offset : offset + tensor.row_bytes].view(f"V{tensor.row_bytes}")[:, 0]
        for tensor, offset in zip(row.tensors, row.offsets, strict=True)
    )


class FpgaInstance:
    """A compute unit as an Instance."""

    def __init__(
        self, instance: host_instance.ModelInstance, name: str, card: CardInstances, config: ModelConfig, manifest: Manifest
    ) -> None:
        self.name = name
        self._card, self._config, self._manifest = card, config, manifest
        self._busy_before = 0
        self._use(instance)

    def _use(self, instance: host_instance.ModelInstance) -> None:
        self._instance = instance
        rows = self._manifest.inputs, self._manifest.outputs
        timeout_ms = self._config.integer("timeout_ms", TIMEOUT_MS)
        self.slots = tuple(FpgaSlot(self, slot, rows, timeout_ms) for slot in instance.slots)

    @property
    def in_service(self) -> bool:
        """As Instance.in_service."""
        return self._instance.in_service

    def busy_clocks(self) -> int:
        """As Instance.busy_clocks; earlier uses of the unit, before it was brought back, are included."""
        return self._busy_before + self._instance.busy_clocks()

    def revive(self) -> bool:
        """Bring the unit back once its card was reset or plugged in again; False if the card cannot report a hang."""
        if not self._card.recoverable:
            return False
        for slot in self.slots:
            slot.release()
        busy = self.busy_clocks()
        try:
            self._use(self._card.recover(self._instance.name))
        except (DeviceError, FirmwareError, OSError) as error:  # the version's files may have been deleted
            raise InstanceAwayError(str(error), self._config.integer("retry_ms", RETRY_MS) / 1000) from error
        self._busy_before = busy
        return True

    def failure(self, error: DeviceError) -> BackendError:
        """Convert a card's error to the scheduler's: the run failed, or the instance is lost."""
        if isinstance(error, ComputeUnitTimeoutError):
            return InstanceTimeoutError(str(error))
        if self._instance.in_service or isinstance(error, MemoryAccessError):
            return BackendError(str(error))
        return InstanceLostError(str(error))

    def close(self) -> None:
        """Release the buffers; the card itself is closed when no unit on it is needed."""
        for slot in self.slots:
            slot.release()


class FpgaModel:
    """A model version on one or more cards."""

    def __init__(self, instances: Sequence[FpgaInstance], cards: Sequence[Card], closing: ExitStack) -> None:
        self.instances = tuple(instances)
        self._cards = {instance.name: card for instance, card in zip(instances, cards, strict=True)}
        self._closing = closing

    @property
    def standby(self) -> Sequence[FpgaInstance]:
        """Empty: there are no standby instances."""
        return ()

    def card(self, instance: object) -> Card | None:
        """As LoadedModel.card."""
        return self._cards[instance.name] if isinstance(instance, FpgaInstance) else None

    def close(self) -> None:
        """Close the cards."""
        self._closing.close()


class FpgaBackend:
    """A Backend for version directories with an xclbin. links: where a version's files may be."""

    def __init__(self, cards: CardRegister | None = None, links: Links = Links()) -> None:  # noqa: B008 - immutable
        self._cards = cards or CardRegister()
        self._links = links
        if warning := release_warning():
            _LOG.warning("%s", warning)

    def complete(self, directory: Path, message: model_config_pb2.ModelConfig) -> None:
        """Do nothing: a published model has a complete config.pbtxt."""

    def load(self, directory: Path, config: ModelConfig) -> FpgaModel:
        """Load a version and open its cards.

        Raises ModelLoadError for a damaged or foreign xclbin, for weights, a manifest or a configuration that do not match it,
        and for a missing card; ModelBusyError if all cards are taken.
        """
        try:
            with ExitStack() as opened:
                manifest = self._manifest(directory)
                xclbin = self._follow(directory, XCLBIN)
                with self._links.opened(directory / XCLBIN, directory.parent, f"{directory.name}/{XCLBIN}") as file:
                    check_manifest(manifest, file.read())
                _check_config(config, manifest)
                weights = self._follow(directory, WEIGHTS_NAME) if manifest.weights_bytes else None
                model = _open((xclbin, weights), manifest, config, opened, self._cards)
                opened.pop_all()
                return model
        except XclbinError as error:
            raise ModelLoadError(f"{directory.name}/{XCLBIN}: {_unresolved(error, directory)}") from error
        except DeviceBusyError as error:
            raise ModelBusyError(_unresolved(error, directory)) from error
        except (FirmwareError, DeviceError) as error:
            raise ModelLoadError(_unresolved(error, directory)) from error
        except OSError as error:
            raise ModelLoadError(f"{directory.name}/{Path(error.filename or '').name}: {error.strerror}") from error

    def _manifest(self, directory: Path) -> Manifest:
        """Read the manifest. Raises ManifestError, ModelLoadError, OSError."""
        what = f"{directory.name}/{MANIFEST}"
        text = self._links.read(directory / MANIFEST, directory.parent, what, MAX_BYTES)
        try:
            return Manifest.parse(text)
        except ManifestError as error:
            raise ManifestError(f"{what}: {error}") from error

    def _follow(self, directory: Path, name: str) -> Path:
        """Return a file's path with links resolved, since XRT opens it by path. Raises ModelLoadError."""
        return self._links.follow(directory / name, directory.parent, f"{directory.name}/{name}")


def _unresolved(error: Exception, directory: Path) -> str:
    """Return an error's text with the repository's file names: clients are not told where links lead."""
    text = str(error)
    for name in (XCLBIN, WEIGHTS_NAME):
        text = text.replace(str((directory / name).resolve()), str(directory / name))
    return text


def _check_config(config: ModelConfig, manifest: Manifest) -> None:
    if config.max_batch_size < 1:
        raise ModelLoadError(f"model '{config.name}': max_batch_size is 0, expected 1 or more: a kernel takes rows")
    _check_layout(config, manifest.inputs)
    for kind, tensors, row in (("input", config.inputs, manifest.inputs), ("output", config.outputs, manifest.outputs)):
        if any(tensor.optional for tensor in tensors):
            raise ModelLoadError(
                f"model '{config.name}': config.pbtxt has {kind} {_describe(tensors)}, but a kernel takes every input of every "
                "request: correct config.pbtxt"
            )
        if tensors != _expected(row):
            raise ModelLoadError(
                f"model '{config.name}': config.pbtxt has {kind} {_describe(tensors)}, but the manifest has "
                f"{_describe(_expected(row))}: correct config.pbtxt or publish the model again"
            )


def _check_layout(config: ModelConfig, inputs: Row) -> None:
    """Raise ModelLoadError if clients would be told another layout of packed rows than the kernel has."""
    for name, expected in packed_rows(inputs).items():
        if config.parameters.get(name) != expected:
            raise ModelLoadError(
                f"model '{config.name}': config.pbtxt's parameter {name} is {config.parameters.get(name, 'missing')!r:.80}, "
                f"the manifest has {expected!r:.80}: correct config.pbtxt or publish the model again"
            )


def _expected(row: Row) -> tuple[TensorConfig, ...]:
    return tuple(TensorConfig(tensor.name, tensor.datatype, tensor.shape) for tensor in row.tensors)


def _describe(tensors: Sequence[TensorConfig]) -> str:
    return ", ".join(
        f"'{tensor.name}' {tensor.datatype} {list(tensor.dims)}{' optional' if tensor.optional else ''}" for tensor in tensors
    )


def _open(
    files: tuple[Path, Path | None], manifest: Manifest, config: ModelConfig, opened: ExitStack, register: CardRegister
) -> FpgaModel:
    """Open the model. files: the xclbin, and the weights of a kernel that loads them at run time."""
    xclbin, weights = files
    instances: list[FpgaInstance] = []
    cards: list[Card] = []
    devices = _open_devices(xclbin, manifest.target.emulated, config.devices, opened)
    for index, device in devices.items():
        slots, slot_rows = config.integer("slots", SLOTS), config.integer("slot_rows", SLOT_ROWS)
        open_instances = partial(
            host_instance.open_instances, manifest=manifest, slots=slots, slot_rows=slot_rows, weights=weights
        )
        reopen = partial(_reopen, xclbin, index, register.address(device, index), register)
        on_card = CardInstances(device, reopen, open_instances)
        opened.callback(on_card.close)
        held_bytes = sum(slot.x.nbytes + slot.y.nbytes for instance in on_card.instances for slot in instance.slots)
        held_bytes += manifest.weights_bytes * len(on_card.instances)
        card = register.loaded(device, index, held_bytes)
        for instance in on_card.instances:
            name = instance.name if len(devices) == 1 else f"{instance.name}@{index}"
            instances.append(FpgaInstance(instance, name, on_card, config, manifest))
            cards.append(card)
    return FpgaModel(instances, cards, opened.pop_all())


def _reopen(xclbin: Path, index: int, address: str | None, register: CardRegister) -> Device:
    """Open the card that had this index when it was loaded: XRT renumbers cards when others are removed or added."""
    device = opening.open_device(xclbin, index if address is None else register.index(address))
    register.loaded(device, index, 0)
    return device


def _open_devices(xclbin: Path, emulated: bool, wanted: Sequence[int], opened: ExitStack) -> dict[int, Device]:
    """Open the cards that instance_group names, or else the first that accepts the xclbin.

    A card holds one xclbin, so a server's models are spread over its cards. Raises ModelBusyError if every card is taken.
    """
    if wanted:
        return {index: opened.enter_context(opening.open_device(xclbin, index)) for index in wanted}
    busy: list[DeviceError] = []
    while True:
        index = len(busy)
        try:
            return {index: opened.enter_context(opening.open_device(xclbin, index))}
        except (DeviceBusyError, ComputeUnitOutOfServiceError) as error:
            busy.append(error)
        except DeviceNotFoundError as error:
            if not busy:
                raise
            raise ModelBusyError(none_left(busy, emulated=emulated)) from error
