# SPDX-License-Identifier: Apache-2.0
"""The steps on the card itself that need no model: its memory, and the kernel that copies rows."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.estimate.rates import BEAT_BYTES
from hypersonic.firmware.kernel import registers
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.first_day.day import LOOPBACK, Built, Day, find_build
from hypersonic.first_day.errors import ClocksError, WrongCopyError, WrongRowsError
from hypersonic.host.compute_unit import ComputeUnit
from hypersonic.host.device import Device
from hypersonic.host.instance import ModelInstance, Slot, open_instances
from hypersonic.host.opening import open_device

#: bytes of each copy in the step `memory`
COPY_BYTES = 16 << 20
#: rows of the runs of the loop-back kernel: around a beat, around a burst of 64 beats, and an event of FACILE
LOOPBACK_ROWS = (1, 2, 63, 64, 65, 1000, 16_000)

#: counters of the kernel that say where clocks went (docs/registers.md)
_COUNTERS = {
    "STARVED_CYCLES": registers.STARVED_CYCLES, "BLOCKED_CYCLES": registers.BLOCKED_CYCLES,
    "READ_ADDRESS_CYCLES": registers.READ_ADDRESS_CYCLES, "WRITE_ADDRESS_CYCLES": registers.WRITE_ADDRESS_CYCLES,
    "WRITE_DATA_CYCLES": registers.WRITE_DATA_CYCLES,
}  # fmt: skip


@contextmanager
def loaded(
    day: Day, built: Built, slots: int, slot_rows: int, units: Sequence[str] = ()
) -> Iterator[tuple[Device, tuple[ModelInstance, ...]]]:
    """Load a build into the card and open its units, all of them by default."""
    day.record.files[f"manifests/{built.manifest.model}.json"] = json.loads(built.manifest.to_json())
    with ExitStack() as opened:
        device = opened.enter_context(open_device(built.xclbin, day.card))
        instances = open_instances(device, built.manifest, slots=slots, slot_rows=slot_rows, units=units)
        for instance in instances:
            opened.callback(instance.close)
        yield device, instances


def check_memory(day: Day) -> None:
    """Write a pattern to every memory that a kernel uses, and read it back. Raises WrongCopyError."""
    built = find_build(day, LOOPBACK)
    pattern = np.random.default_rng(1).integers(0, 256, COPY_BYTES, dtype=np.uint8)
    with open_device(built.xclbin, day.card) as device:
        unit = device.open_units()[0]
        for group, memory in enumerate(device.contents.group_memories):
            if memory.used:
                _check_bank(day, unit, group, memory.tag, pattern)
    day.record.say(day.predicted(f"{day.platform.h2c_gb_s:g} GB/s to the card, {day.platform.c2h_gb_s:g} GB/s from it"))


def _check_bank(day: Day, unit: ComputeUnit, group: int, tag: str, pattern: NDArray[np.uint8]) -> None:
    with unit.allocate_in(pattern.size, group) as buffer:
        buffer.array[:] = pattern
        began = time.perf_counter()
        buffer.sync_to_device(pattern.size)
        to_card_s = time.perf_counter() - began
        buffer.array[:] = 0
        began = time.perf_counter()
        buffer.sync_from_device(pattern.size)
        from_card_s = time.perf_counter() - began
        differing = np.flatnonzero(buffer.array != pattern)
        if differing.size:
            at = int(differing[0])
            raise WrongCopyError(
                f"memory {tag}: {differing.size:,} of {pattern.size:,} bytes differ, first byte {at:,}: got "
                f"{buffer.array[at]:#04x}, expected {pattern[at]:#04x}"
            )
    rates = f"{pattern.size / to_card_s / 1e9:.2f} GB/s to it, {pattern.size / from_card_s / 1e9:.2f} GB/s from it"
    day.record.say(f"memory {tag}: {pattern.size:,} bytes read as written; {rates}, {day.where}")


def run_loopback(day: Day) -> None:
    """Copy random rows with every unit of the loop-back kernel. Raises WrongRowsError."""
    built = find_build(day, LOOPBACK)
    manifest, most = built.manifest, max(LOOPBACK_ROWS)
    for name in manifest.compute_units:
        with loaded(day, built, 1, most, (name,)) as (device, (instance,)):
            slot, unit = instance.slots[0], device.compute_unit(name)
            for rows in LOOPBACK_ROWS:
                _copy_rows(day, name, slot, rows, manifest.inputs.row_bytes)
            clocks = unit.read_register(registers.RUN_CYCLES)
            day.record.say(f"{name}: runs of {', '.join(f'{rows:,}' for rows in LOOPBACK_ROWS)} rows came back unchanged")
            check_clocks(day, manifest, name, clocks, most, unit)


def _copy_rows(day: Day, name: str, slot: Slot, rows: int, row_bytes: int) -> None:
    size = rows * row_bytes
    slot.x[:size] = np.random.default_rng(rows).integers(0, 256, size, dtype=np.uint8)
    slot.y[:size] = ~slot.x[:size]
    slot.start(rows)
    slot.finish(day.timeout_ms)
    differing = np.flatnonzero(slot.y[:size] != slot.x[:size])
    if differing.size:
        at = int(differing[0])
        raise WrongRowsError(
            f"{name}, a run of {rows:,} rows: {differing.size:,} of {size:,} bytes differ, first byte {at % row_bytes} of row "
            f"{at // row_bytes:,}: got {slot.y[at]:#04x}, expected {slot.x[at]:#04x}"
        )


def allowed_clocks(manifest: Manifest, rows: int) -> tuple[int, int]:
    """The fewest clocks of a run, without memory latency, and the most that it should take (`hypersonic bench kernel`)."""
    beats = max(-(-rows * row.row_bytes // BEAT_BYTES) for row in (manifest.inputs, manifest.outputs))
    bound = max(beats, rows * manifest.ii)
    return bound, round(1.03 * bound + manifest.latency_cycles + 600)


def check_clocks(day: Day, manifest: Manifest, name: str, clocks: int, rows: int, unit: ComputeUnit) -> None:
    """Print the clocks of a run, and note a ClocksError if they are more than allowed."""
    bound, allowed = allowed_clocks(manifest, rows)
    day.record.say(
        f"{name}: {clocks:,} clocks for {rows:,} rows, counted by the kernel; predicted: {bound:,} to {allowed:,}, from the "
        "core's interval and one beat of 64 bytes per clock"
    )
    if clocks > allowed:
        counts = ", ".join(f"{counter} {unit.read_register(offset):,}" for counter, offset in _COUNTERS.items())
        note = ClocksError(
            f"{name} took {clocks:,} clocks for {rows:,} rows, expected at most {allowed:,}; since reset: {counts}"
        )
        day.record.notes.append(note)
