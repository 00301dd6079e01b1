# SPDX-License-Identifier: Apache-2.0
"""A model on one compute unit: its slots, each a pair of buffer objects and a run, and its weights, made once at load.

    slot 0:  x -> card | kernel          | card -> y
    slot 1:             x -> card        | kernel          | card -> y

While one slot computes, the next one's bytes travel: start A, start B, finish A, start A, finish B, ... Runs complete in
the order they were started. A slot belongs to one thread at a time; different slots may be started and finished by different
threads at once. Starts wait for each other: with the bus to itself, the first one's bytes arrive soonest.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.kernel.registers import BUSY_CYCLES
from hypersonic.firmware.publish.manifest import WEIGHTS_NAME, Manifest
from hypersonic.host.device import BufferObject, ComputeUnit, Device
from hypersonic.host.driver import RunState
from hypersonic.host.errors import ComputeUnitTimeoutError, DeviceError, DeviceLostError, RunError, XclbinMismatchError
from hypersonic.host.weights import W, WeightsFile, find_weights, load_weights

#: the kernel's arguments, in xrtRunSetArg's count; W, where it takes weights, is weights.py's
X, Y, ROWS = 0, 1, 2


class SlotTimes(NamedTuple):
    """When one run passed its borders, time.monotonic_ns()."""

    start_ns: int  # start() was called
    launched_ns: int  # x is on the card, the run is handed over
    done_ns: int  # the run completed
    end_ns: int  # y is in host memory


class Slot:
    """Room for one run. The server writes requests straight into x and reads answers straight from y.

    x: (capacity_rows * row_in_bytes,) uint8, y: (capacity_rows * row_out_bytes,) uint8, both mapped buffer objects: rows
    packed tightly. Neither may be used after the instance is closed.
    """

    def __init__(
        self, unit: ComputeUnit, starting: Lock, capacity_rows: int, row_bytes: tuple[int, int],
        weights: BufferObject | None = None,
    ) -> None:  # fmt: skip
        """starting: held by the one slot of the unit that is being started. row_bytes: of x and of y. weights: of the unit."""
        self.capacity_rows = capacity_rows
        self.in_flight_rows: int | None = None
        self._unit, self._starting = unit, starting
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
        """Send the first `rows` rows of x and start the run; does not wait for it.

        Raises RunError for rows out of range or a slot in flight, ComputeUnitOutOfServiceError, DeviceError.
        """
        if self.in_flight_rows is not None:
            raise RunError(f"a slot of {self._unit.name} has {self.in_flight_rows} rows in flight: finish() it first")
        if not 0 <= rows <= self.capacity_rows:
            raise RunError(f"{rows} rows do not fit a slot of {self._unit.name}: expected 0 to {self.capacity_rows}")
        self._start_ns = time.monotonic_ns()
        with self._starting:
            self._unit.require_service()
            try:
                self._x.sync_to_device(rows * self._row_in_bytes)
                self._run.set_arg(ROWS, rows)
                self._run.start()
            except DeviceLostError as error:
                self._unit.lose_card(error)
                raise
            self.in_flight_rows = rows
            self._launched_ns = time.monotonic_ns()

    def finish(self, timeout_ms: int) -> SlotTimes:
        """Wait for the run and fetch its rows into y.

        Raises ComputeUnitTimeoutError when it does not complete within timeout_ms; the compute unit is out of service then
        and this slot stays in flight. Raises ComputeUnitOutOfServiceError when another slot met that before or meanwhile,
        RunError when the run failed (MemoryAccessError: and the unit is out of service), DeviceError.
        """
        rows = self.in_flight_rows
        if rows is None:
            raise RunError(f"a slot of {self._unit.name} was finished that is not in flight: start() it first")
        self._unit.require_service()
        try:
            state = self._run.wait(timeout_ms)
            done_ns = time.monotonic_ns()
            if state is not RunState.COMPLETED:
                raise self._failed(state, rows, timeout_ms)
            self.in_flight_rows = None
            self._unit.check_accesses()
            self._y.sync_from_device(rows * self._row_out_bytes)
        except DeviceLostError as error:
            self._unit.lose_card(error)
            raise
        return SlotTimes(self._start_ns, self._launched_ns, done_ns, time.monotonic_ns())

    def close(self) -> None:
        """Free run and buffer objects, unless the card may still write into them."""
        self.x = self.y = np.empty(0, dtype=np.uint8)
        self._closing.close()

    def _failed(self, state: RunState, rows: int, timeout_ms: int) -> DeviceError:
        if state is not RunState.TIMEOUT:
            self.in_flight_rows = None
            self._unit.check_present()  # XRT aborts what is in flight on a card that is reset
            return RunError(f"a run of {rows} rows on {self._unit.name} ended as {state.name}, expected COMPLETED")
        if not self._unit.take_out_of_service():
            return self._unit.out_of_service()
        return ComputeUnitTimeoutError(
            f"a run of {rows} rows on {self._unit.name} did not complete within {timeout_ms} ms; the compute unit is out of "
            f"service and the others go on: {self._unit.reset} and load the model again"
        )


class ModelInstance:
    """One compute unit and its slots. Made by open_instances."""

    def __init__(
        self, unit: ComputeUnit, manifest: Manifest, slots: int, slot_rows: int, file: WeightsFile | None = None
    ) -> None:
        self.name = unit.name
        self._unit = unit
        starting = Lock()
        row_bytes = manifest.inputs.row_bytes, manifest.outputs.row_bytes
        weights = load_weights(unit, file) if file else None
        with ExitStack() as opened:
            self.slots = tuple(_slot(opened, unit, starting, slot_rows, row_bytes, weights) for _ in range(slots))
            self._closing = opened.pop_all()
        self._busy_at_load = self._last_busy = _busy_clocks(unit)

    @property
    def in_service(self) -> bool:
        return self._unit.in_service and not self._unit.closed

    def busy_clocks(self) -> int:
        """Kernel clocks with a run in flight since load. The last figure known once the unit is out of service; 0 where
        the card does not let registers be read. Any thread may ask."""
        if self.in_service:
            self._last_busy = _busy_clocks(self._unit)
        return self._last_busy - self._busy_at_load

    def close(self) -> None:
        """Close the slots; the compute unit is the device's, and the weights its. Harmless the second time."""
        self._closing.close()


def open_instances(
    device: Device, manifest: Manifest, *, slots: int = 2, slot_rows: int = 16384, weights: Path | None = None
) -> tuple[ModelInstance, ...]:
    """One instance per compute unit of the manifest, each with `slots` slots of `slot_rows` rows.

    weights: for a kernel that takes them, None = weights.bin beside the device's xclbin. Raises XclbinMismatchError when the
    device holds another xclbin than the manifest describes, WeightsError when the file is not what it describes,
    ComputeUnitNotFoundError, BufferObjectError (the bank is full); ValueError when slots or slot_rows are below 1.
    """
    if slots < 1 or slot_rows < 1:
        raise ValueError(f"slots is {slots} and slot_rows {slot_rows}, expected 1 or more of each")
    if device.uuid != manifest.uuid:
        raise XclbinMismatchError(
            f"the card holds xclbin {device.uuid}, the manifest of {manifest.model!r} describes {manifest.uuid}"
        )
    units = [device.compute_unit(name) for name in manifest.compute_units]
    file = find_weights(manifest, weights or device.xclbin.with_name(WEIGHTS_NAME))
    with ExitStack() as opened:
        instances = []
        for unit in units:
            instances.append(ModelInstance(unit, manifest, slots, slot_rows, file))
            opened.callback(instances[-1].close)
        opened.pop_all()
    return tuple(instances)


def _slot(
    opened: ExitStack, unit: ComputeUnit, starting: Lock, slot_rows: int, row_bytes: tuple[int, int],
    weights: BufferObject | None,
) -> Slot:  # fmt: skip
    slot = Slot(unit, starting, slot_rows, row_bytes, weights)
    opened.callback(slot.close)
    return slot


def _busy_clocks(unit: ComputeUnit) -> int:
    """The 64-bit counter: the high word is read again until it did not change under the low one."""
    try:
        high = unit.read_register(BUSY_CYCLES + 4)
        while True:
            low = unit.read_register(BUSY_CYCLES)
            before, high = high, unit.read_register(BUSY_CYCLES + 4)
            if before == high:
                return high << 32 | low
    except DeviceError:
        return 0
