# SPDX-License-Identifier: Apache-2.0
"""A compute unit of a card as the scheduler sees it: FpgaInstance, with its FpgaSlots."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.card_parameters import RETRY_MS, SLOT_ROWS, SLOTS, TIMEOUT_MS
from hypersonic.firmware.errors import FirmwareError
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.hls.row import Row
from hypersonic.host import instance as host_instance
from hypersonic.host.errors import ComputeUnitTimeoutError, DeviceError, MemoryAccessError
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.backend import Execution
from hypersonic.server.core.inference.pending import Share
from hypersonic.server.errors import BackendError, InstanceAwayError, InstanceLostError, InstanceTimeoutError, ServerError
from hypersonic.server.memory import copy_into


class FpgaSlot:
    """A slot of a compute unit: requests' bytes are copied straight into the mapped buffer object, and answers are read
    straight from it.

    A single tensor has the same layout in the buffer as in a request; with several, each row of the buffer holds a piece of
    each tensor.
    """

    def __init__(self, owner: FpgaInstance, slot: host_instance.Slot, rows: tuple[Row, Row], timeout_ms: int) -> None:
        """Create the slot.

        Args:
            rows: the row layouts of the input and the output.
        """
        self.capacity_rows = slot.capacity_rows
        self._owner = owner
        self._slot = slot
        self._outputs = rows[1]
        self._row_bytes = rows[0].row_bytes, rows[1].row_bytes
        self._timeout_ms = timeout_ms
        self._x = slot.x.data
        self._y = slot.y.data.toreadonly()
        self._x_columns = _columns(slot.x, rows[0])
        self._y_columns = _columns(slot.y, rows[1])
        #: (first row, rows) of each share; the requests, which hold megabytes, are not referenced
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
        self._owner.used_ns = time.monotonic_ns()
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
        row_in, row_out = self._row_bytes
        return Execution(times.launched_ns, times.done_ns, self._sent_rows * row_in, self._sent_rows * row_out)

    def answer(self, index: int) -> Answer:
        """As Slot.answer."""
        first_row, rows = self._rows[index]
        if self._y_columns:
            return Answer(
                tuple(self._gathered(position, first_row, rows) for position in range(len(self._y_columns))), fresh=True
            )
        (tensor,) = self._outputs.tensors
        _, row_bytes = self._row_bytes
        start, size = first_row * row_bytes, rows * row_bytes
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


class AwaySlot:
    """A slot of an instance that has not been on a card yet. It is never used."""

    def __init__(self, capacity_rows: int) -> None:
        self.capacity_rows = capacity_rows

    def start(self, shares: Sequence[Share]) -> None:
        """As Slot.start."""
        raise BackendError(f"{len(shares)} requests for an instance that is on no card")

    def finish(self) -> Execution:
        """As Slot.finish."""
        raise BackendError("an instance that is on no card has no run")

    def answer(self, index: int) -> Answer:
        """As Slot.answer."""
        raise BackendError(f"no answer {index} of an instance that is on no card")

    def release(self) -> None:
        """Do nothing."""


class OnCard(Protocol):
    """Brings lost instances back: ModelOnCard, or OnDemandModel for a model that takes turns."""

    @property
    def recoverable(self) -> bool:
        """True if this process can bring a lost instance back."""

    def recover(self, name: str) -> host_instance.ModelInstance:
        """As ModelOnCard.recover."""


class FpgaInstance:
    """A compute unit as an Instance.

    Attributes:
        used_ns: when its last run began, in monotonic ns.
    """

    def __init__(
        self, unit: str, instance: host_instance.ModelInstance | None, card: OnCard, config: ModelConfig, manifest: Manifest,
        *, name: str = "",
    ) -> None:  # fmt: skip
        """Create a FpgaInstance.

        Args:
            unit: the name of the unit.
            instance: None while the model is on no card.
            name: if not the unit's.
        """
        self.name = name or unit
        self._card, self._config, self._manifest = card, config, manifest
        self._retry_s = config.integer("retry_ms", RETRY_MS) / 1000
        self.used_ns = 0
        #: the clocks of all instances before the present one, and that one: set together, so that busy_clocks() never falls
        self._used: tuple[int, host_instance.ModelInstance | None] = (0, None)
        self._unit = unit
        self.slots: tuple[FpgaSlot | AwaySlot, ...]
        if instance is not None:
            self._use(instance, 0)
        else:
            self.slots = (AwaySlot(config.integer("slot_rows", SLOT_ROWS)),) * config.integer("slots", SLOTS)

    def _use(self, instance: host_instance.ModelInstance, busy_before: int) -> None:
        self._used = busy_before, instance
        rows = self._manifest.inputs, self._manifest.outputs
        timeout_ms = self._config.integer("timeout_ms", TIMEOUT_MS)
        self.slots = tuple(FpgaSlot(self, slot, rows, timeout_ms) for slot in instance.slots)

    @property
    def in_service(self) -> bool:
        """As Instance.in_service."""
        _, instance = self._used
        return instance is not None and instance.in_service

    def busy_clocks(self) -> int:
        """As Instance.busy_clocks; earlier uses of units, before the instance was brought back, are included."""
        before, instance = self._used
        return before + (instance.busy_clocks() if instance is not None else 0)

    def revive(self) -> bool:
        """Bring the unit back once its card was reset or plugged in again; False if the card cannot report a hang."""
        if not self._card.recoverable:
            return False
        for slot in self.slots:
            slot.release()
        busy = self.busy_clocks()
        try:
            self._use(self._card.recover(self._unit), busy)
        except (DeviceError, FirmwareError, OSError, ServerError) as error:  # the version's files may have been deleted
            raise InstanceAwayError(str(error), self._retry_s) from error
        return True

    def failure(self, error: DeviceError) -> BackendError:
        """Convert a card's error to the scheduler's: the run failed, or the instance is lost."""
        if isinstance(error, ComputeUnitTimeoutError):
            return InstanceTimeoutError(str(error))
        if self.in_service or isinstance(error, MemoryAccessError):
            return BackendError(str(error))
        return InstanceLostError(str(error))

    def close(self) -> None:
        """Release the buffers; the card itself is closed when no unit on it is needed."""
        for slot in self.slots:
            slot.release()
