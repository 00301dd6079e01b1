# SPDX-License-Identifier: Apache-2.0
"""A model on one compute unit: its slots, each a pair of buffer objects and a run, and its weights, all set up at load.

::

    slot 0:  x -> card | kernel          | card -> y
    slot 1:             x -> card        | kernel          | card -> y

While one slot computes, the bytes of the next are transferred: start A, start B, finish A, start A, finish B, ... Runs complete
in the order in which they were started. A slot is used by one thread at a time, but several threads may start and finish
different slots concurrently.

Models that share a card take turns at its PCIe link, by bytes in proportion to their shares. Two transfers are in flight in
each direction, because one does not fill the link. Models that share a compute unit take turns at it too (sharing/gate.py):
a run is started when no run of another model is in flight, so start() waits for other models' finish(), on other threads.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.publish.manifest import WEIGHTS_NAME, Manifest
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.host.compute_unit import BufferObject, ComputeUnit
from hypersonic.host.device import Device
from hypersonic.host.driver import RunState
from hypersonic.host.errors import (
    BufferObjectError,
    ComputeUnitTimeoutError,
    DeviceError,
    DeviceLostError,
    RunError,
    XclbinMismatchError,
)
from hypersonic.host.sharing.order import Flow
from hypersonic.host.weights import W, WeightsFile, find_weights, load_weights, release_weights

#: the indices of the kernel's arguments for xrtRunSetArg; W, for a kernel that reads weights, is in weights.py
X, Y, ROWS = 0, 1, 2
#: a buffer object takes whole pages of a memory bank
_PAGE_BYTES = 4096


class SlotTimes(NamedTuple):
    """The times of one run, from time.monotonic_ns()."""

    start_ns: int  # start() was called
    launched_ns: int  # x was on the card and the run had been started
    done_ns: int  # the run had completed
    end_ns: int  # y was in host memory


class Slot:
    """The buffers of one run. The server writes requests directly into x and reads answers directly from y.

    x and y are mapped buffer objects with contiguous rows, and must not be used after the instance is closed.

    Attributes:
        x: (capacity_rows * row_in_bytes,) uint8.
        y: (capacity_rows * row_out_bytes,) uint8.
        in_flight_rows: rows of the run in flight, None when there is none.
    """

    def __init__(
        self, unit: ComputeUnit, flow: Flow, capacity_rows: int, row_bytes: tuple[int, int], weights: BufferObject | None = None
    ) -> None:
        """Create a Slot.

        Args:
            flow: the model, as it competes for the card.
            row_bytes: of x and of y.
            weights: of the unit, if it has any.
        """
        self.capacity_rows = capacity_rows
        self.in_flight_rows: int | None = None
        self._unit, self._flow = unit, flow
        self._row_in_bytes, self._row_out_bytes = row_in_bytes, row_out_bytes = row_bytes
        self._start_ns = self._launched_ns = 0
        with ExitStack() as opened:
            self._x = opened.enter_context(unit.allocate(capacity_rows * row_in_bytes, X))
            self._y = opened.enter_context(unit.allocate(capacity_rows * row_out_bytes, Y))
            self._run = opened.enter_context(unit.open_run())
            self._run.set_arg(X, self._x)
            self._run.set_arg(Y, self._y)
            if weights is not None:
                self._run.set_arg(W, weights)
            self._closing = opened.pop_all()
        self.x: NDArray[np.uint8] = self._x.array
        self.y: NDArray[np.uint8] = self._y.array

    def start(self, rows: int) -> None:
        """Copy the first `rows` rows of x to the card and start the run, without waiting for it.

        Raises RunError for rows out of range or a slot in flight, ComputeUnitOutOfServiceError, DeviceError.
        """
        if self.in_flight_rows is not None:
            raise RunError(f"a slot of {self._unit.name} has {self.in_flight_rows} rows in flight: finish() it first")
        if not 0 <= rows <= self.capacity_rows:
            raise RunError(f"{rows} rows do not fit a slot of {self._unit.name}: expected 0 to {self.capacity_rows}")
        self._start_ns = time.monotonic_ns()
        try:
            self._unit.to_card.enter(self._flow, rows * self._row_in_bytes)
            try:
                self._unit.require_service()
                self._x.sync_to_device(rows * self._row_in_bytes)
            finally:
                self._unit.to_card.leave(self._flow)
            self._launch(rows)
        except DeviceLostError as error:
            self._unit.lose_card(error)
            raise

    def _launch(self, rows: int) -> None:
        """Wait until the model may use the unit, and start the run."""
        if not self._unit.gate.enter(self._flow, rows * (self._row_in_bytes + self._row_out_bytes)):
            raise self._unit.out_of_service()
        try:
            with self._unit.starting:
                self._unit.require_service()
                self._run.set_arg(ROWS, rows)
                self._unit.clocks.begin(self._flow)
                self._run.start()
                self.in_flight_rows = rows
                self._launched_ns = time.monotonic_ns()
        except BaseException:
            self._unit.gate.done()
            raise

    def finish(self, timeout_ms: int) -> SlotTimes:
        """Wait for the run and copy its rows into y.

        Raises ComputeUnitTimeoutError when it does not complete within timeout_ms; the compute unit is then out of service, and
        this slot remains in flight. Raises ComputeUnitOutOfServiceError when another slot has taken the unit out of service,
        RunError when the run failed (after MemoryAccessError the unit is out of service), DeviceError.
        """
        rows = self.in_flight_rows
        if rows is None:
            raise RunError(f"a slot of {self._unit.name} cannot be finished, because it is not in flight: start() it first")
        self._unit.require_service()
        try:
            state = self._run.wait(timeout_ms)
            done_ns = time.monotonic_ns()
            if state is not RunState.COMPLETED:
                raise self._failed(state, rows, timeout_ms)
            self.in_flight_rows = None
            try:
                self._unit.check_accesses()  # before another model's run starts, which would be blamed
            finally:
                self._unit.gate.done()
            self._unit.from_card.enter(self._flow, rows * self._row_out_bytes)
            try:
                self._y.sync_from_device(rows * self._row_out_bytes)
            finally:
                self._unit.from_card.leave(self._flow)
        except DeviceLostError as error:
            self._unit.lose_card(error)
            raise
        return SlotTimes(self._start_ns, self._launched_ns, done_ns, time.monotonic_ns())

    def close(self) -> None:
        """Free the run and the buffer objects. Those that the card may still write to remain, and the unit frees them once the
        card is released."""
        self.x = self.y = np.empty(0, dtype=np.uint8)
        if self._unit.in_service or self._unit.released:
            self._closing.close()

    def _failed(self, state: RunState, rows: int, timeout_ms: int) -> DeviceError:
        if state is not RunState.TIMEOUT:
            self.in_flight_rows = None
            self._unit.gate.done()
            self._unit.check_present()  # XRT aborts the runs in flight when the card is reset
            return RunError(f"a run of {rows} rows on {self._unit.name} ended as {state.name}, expected COMPLETED")
        if not self._unit.take_out_of_service():
            return self._unit.out_of_service()
        return ComputeUnitTimeoutError(
            f"a run of {rows} rows on {self._unit.name} did not complete within {timeout_ms} ms; the compute unit is out of "
            f"service and the others continue: {self._unit.reset} and load the model again"
        )


class ModelInstance:
    """A model on one compute unit with its slots, made by open_instances."""

    def __init__(
        self, device: Device, name: str, manifest: Manifest, flow: Flow, slots: tuple[int, int], file: WeightsFile | None = None
    ) -> None:
        """Create a ModelInstance.

        Args:
            slots: their number, and rows of each.
        """
        self.name = name
        row_bytes = manifest.inputs.row_bytes, manifest.outputs.row_bytes
        with ExitStack() as opened:
            self._unit = unit = device.compute_unit(name)
            opened.callback(device.give_back, unit)
            weights = load_weights(unit, file) if file else None
            if file:
                opened.callback(release_weights, unit, file)
            unit.gate.join(flow, manifest.weights_bytes)
            opened.callback(unit.gate.leave, flow)
            self.slots = tuple(_slot(opened, unit, flow, slots[1], row_bytes, weights) for _ in range(slots[0]))
            self._closing = opened.pop_all()
        self._flow, self._busy_clocks = flow, 0

    @property
    def in_service(self) -> bool:
        """True until the compute unit is taken out of service or closed."""
        return self._unit.in_service and not self._unit.closed

    def busy_clocks(self) -> int:
        """Kernel clocks since load in which a run of this model was in flight; the last known figure once the unit is out of
        service, and 0 where registers cannot be read. Any thread."""
        if self.in_service:
            self._busy_clocks = self._unit.clocks.of(self._flow)
        return self._busy_clocks

    def close(self) -> None:
        """Close the slots, and the compute unit if no other model uses it. A second call does nothing."""
        self._closing.close()


def open_instances(
    device: Device, manifest: Manifest, *, slots: int = 2, slot_rows: int = 16384, weights: Path | None = None,
    units: Sequence[str] = (), share: float = 1.0,
) -> tuple[ModelInstance, ...]:  # fmt: skip
    """One instance for each compute unit, each with `slots` slots of `slot_rows` rows.

    Args:
        weights: the file for a kernel that reads weights; None means weights.bin in the directory of the device's xclbin.
        units: the names of the compute units, all of the manifest by default.
        share: the model's share of the card's link and units, relative to the shares of other models.

    Raises:
        XclbinMismatchError: When the device has an xclbin without the manifest's kernel.
        WeightsError: When the file is not the one that it describes.
        ComputeUnitNotFoundError: When the xclbin has no compute unit of that name.
        ComputeUnitOutOfServiceError: When an earlier run of the unit hangs.
        BufferObjectError: When a memory bank is full.
        ValueError: When slots or slot_rows is below 1.
    """
    if slots < 1 or slot_rows < 1:
        raise ValueError(f"slots is {slots} and slot_rows {slot_rows}, expected 1 or more of each")
    if not manifest.runs_in(device.contents):
        raise XclbinMismatchError(
            f"the card holds xclbin {device.uuid}, the manifest of {manifest.model!r} describes {manifest.uuid}"
        )
    check_room(device.contents, manifest, units or manifest.compute_units, slots, slot_rows, device.usage.held_bytes())
    file = find_weights(manifest, weights or device.xclbin.with_name(WEIGHTS_NAME))
    flow = Flow(manifest.model, share)
    with ExitStack() as opened:
        instances = []
        for name in units or manifest.compute_units:
            instances.append(ModelInstance(device, name, manifest, flow, (slots, slot_rows), file))
            opened.callback(instances[-1].close)
        opened.pop_all()
    return tuple(instances)


def check_room(
    contents: Xclbin, manifest: Manifest, units: Sequence[str], slots: int, slot_rows: int,
    held_bytes: Mapping[str, int] = MappingProxyType({}),
) -> None:  # fmt: skip
    """Check that the memory banks have room for the slots of a model, before any of it is allocated. Raises BufferObjectError.

    Args:
        contents: the xclbin of the card.
        held_bytes: what the banks hold already, by tag.
    """
    needed: Counter[int] = Counter()
    for unit in contents.units_of(manifest.kernel):
        for argument, row in ((X, manifest.inputs), (Y, manifest.outputs)):
            if unit.name in units and argument in unit.memories:
                needed[unit.memories[argument]] += slots * -(-slot_rows * row.row_bytes // _PAGE_BYTES) * _PAGE_BYTES
    for group, size_bytes in needed.items():
        bank = contents.group_memories[group]
        bank_bytes, held = bank.size_kib * 1024, held_bytes.get(bank.tag, 0)
        if bank_bytes and size_bytes > bank_bytes - held:
            raise BufferObjectError(
                f"{slots} slots of {slot_rows} rows of {manifest.model!r} take {size_bytes} bytes of memory bank {bank.tag!r}, "
                f"which has {bank_bytes} bytes, {held} of them in use: reduce slots or slot_rows in config.pbtxt"
            )


def _slot(
    opened: ExitStack, unit: ComputeUnit, flow: Flow, slot_rows: int, row_bytes: tuple[int, int], weights: BufferObject | None
) -> Slot:
    slot = Slot(unit, flow, slot_rows, row_bytes, weights)
    opened.callback(slot.close)
    return slot
