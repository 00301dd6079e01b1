# SPDX-License-Identifier: Apache-2.0
"""A driver of an accelerator that has none of the optional protocols: it is opened, runs, and is asked for nothing more.

The accelerator is a few lines of Python, which adds 1 to each byte: it shows what a driver must have, not what a card does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.host.card_instances import CardInstances
from hypersonic.host.device import Device
from hypersonic.host.driver import Driver, Handle, OptionalCalls, RunState, optional_calls
from hypersonic.host.errors import BufferObjectError, ComputeUnitNotFoundError, DeviceError
from hypersonic.host.f2.driver import F2Driver, open_bar
from hypersonic.host.instance import open_instances
from hypersonic.host.xrt import Library

ROWS = 100
WIDTH = 4


@dataclass
class Run:
    """One set of arguments."""

    arguments: dict[int, Handle] = field(default_factory=dict)
    rows: int = 0
    state: RunState = RunState.NEW


class AddOne:
    """Every method of Driver, and no other."""

    reset = "start the program again"

    def __init__(self) -> None:
        self._numbers = count(1)
        self._uuid = ""
        self.opened: set[Handle] = set()
        self.buffers: dict[Handle, NDArray[np.uint8]] = {}
        self.groups: list[int] = []
        self.runs: dict[Handle, Run] = {}

    def _open(self) -> Handle:
        handle = next(self._numbers)
        self.opened.add(handle)
        return handle

    def open_device(self, index: int) -> Handle:
        return self._open()

    def close_device(self, device: Handle) -> None:
        self.opened.remove(device)

    def load_xclbin(self, device: Handle, path: str) -> str:
        return Xclbin.read(Path(path)).uuid

    def open_kernel(self, device: Handle, uuid: str, name: str) -> Handle:
        return self._open()

    def close_kernel(self, kernel: Handle) -> None:
        self.opened.remove(kernel)

    def allocate(self, device: Handle, size_bytes: int, group: int) -> Handle:
        self.groups.append(group)
        handle = self._open()
        self.buffers[handle] = np.zeros(size_bytes, np.uint8)
        return handle

    def map_buffer(self, buffer: Handle, size_bytes: int) -> NDArray[np.uint8]:
        return self.buffers[buffer]

    def free_buffer(self, buffer: Handle) -> None:
        self.opened.remove(buffer)
        del self.buffers[buffer]

    def open_run(self, kernel: Handle) -> Handle:
        handle = self._open()
        self.runs[handle] = Run()
        return handle

    def set_buffer(self, run: Handle, argument: int, buffer: Handle) -> None:
        self.runs[run].arguments[argument] = buffer

    def set_scalar(self, run: Handle, argument: int, value: int) -> None:
        self.runs[run].rows = value

    def start(self, run: Handle) -> None:
        started = self.runs[run]
        x, y = (self.buffers[started.arguments[argument]] for argument in (0, 1))
        size = started.rows * WIDTH
        y[:size] = x[:size] + 1
        started.state = RunState.COMPLETED

    def wait(self, run: Handle, timeout_ms: int) -> int:
        return self.runs[run].state

    def close_run(self, run: Handle) -> None:
        self.opened.remove(run)


@pytest.fixture
def xclbin(tmp_path: Path) -> Path:
    path = tmp_path / "model.xclbin"
    path.write_bytes(assemble_xclbin("bench", Target.SW_EMU, find_platform("u250"), b"image", compute_units=2))
    return path


@pytest.fixture
def driver() -> AddOne:
    return AddOne()


def open_card(driver: Driver, xclbin: Path) -> Device:
    return Device(driver, Xclbin.read(xclbin), xclbin, 0)


@pytest.fixture
def device(driver: AddOne, xclbin: Path) -> Iterator[Device]:
    with open_card(driver, xclbin) as opened:
        yield opened


@pytest.fixture
def manifest(xclbin: Path) -> Manifest:
    (x, y) = (TensorSpec(name, (WIDTH,), FixedPoint(8, 8, signed=False), datatype="UINT8") for name in "xy")
    return Manifest.of(
        xclbin.read_bytes(), model="bench", platform="u250", core="da", inputs=Row((x,)), outputs=Row((y,)), ii=1,
        latency_cycles=1, max_batch_size=ROWS,
    )  # fmt: skip


def test_each_driver_offers_the_optional_protocols_that_it_has(driver: AddOne) -> None:
    f2 = F2Driver(open_bar)
    xrt = Library.__new__(Library)  # no XRT is needed to see what it has
    assert optional_calls(driver) == OptionalCalls()
    assert optional_calls(f2) == OptionalCalls(registers=f2, banks=f2, addresses=f2)
    assert optional_calls(xrt) == OptionalCalls(registers=xrt, banks=xrt, addresses=xrt, copies=xrt)


def test_a_model_runs_on_a_driver_of_the_required_methods_alone(driver: AddOne, device: Device, manifest: Manifest) -> None:
    instances = open_instances(device, manifest, slots=2, slot_rows=ROWS)
    assert [instance.name for instance in instances] == ["bench_1", "bench_2"]
    for number, slot in enumerate(slot for instance in instances for slot in instance.slots):
        slot.x[:] = np.arange(ROWS * WIDTH) + number
        slot.start(ROWS - 1)
        slot.finish(1000)
        np.testing.assert_array_equal(slot.y[:-WIDTH], slot.x[:-WIDTH] + 1)
        assert not slot.y[-WIDTH:].any()
    device.close()
    assert driver.opened == set()


def test_buffers_are_in_the_bank_that_the_xclbin_names(driver: AddOne, device: Device) -> None:
    first, second = device.open_units()
    second.allocate(64, 0)
    assert (first.group_id(1), second.group_id(0), driver.groups) == (0, 1, [1])
    with pytest.raises(ComputeUnitNotFoundError, match="argument 2 has no memory bank"):
        first.group_id(2)


def test_both_sides_of_a_buffer_are_one(device: Device) -> None:
    buffer = device.open_units()[0].allocate(4096, 0)
    buffer.sync_to_device(4096)
    buffer.sync_from_device(96, 4000)
    for size_bytes, offset in ((4097, 0), (1, 4096), (8, -1), (-1, 0)):
        with pytest.raises(BufferObjectError, match="do not sync to the card"):
            buffer.sync_to_device(size_bytes, offset)


def test_what_the_driver_has_no_calls_for_is_an_error_that_says_so(device: Device) -> None:
    unit = device.open_units()[0]
    with pytest.raises(DeviceError, match="registers of bench_1 cannot be read or written"):
        unit.read_register(0)
    with pytest.raises(DeviceError, match="registers of bench_1 cannot be read or written"):
        unit.write_register(0, 1)
    with pytest.raises(DeviceError, match="the address of a buffer object is not known"):
        _ = unit.allocate(64, 0).address


def test_without_registers_nothing_is_counted_and_a_hung_card_is_not_given_back(
    driver: AddOne, device: Device, xclbin: Path, manifest: Manifest
) -> None:
    card = CardInstances(device, lambda: open_card(driver, xclbin)).open(
        "bench", lambda opened: open_instances(opened, manifest, slots=1)
    )
    assert [instance.busy_clocks() for instance in card.instances] == [0, 0]
    assert not card.recoverable
    card.close()
