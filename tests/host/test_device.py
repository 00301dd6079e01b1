# SPDX-License-Identifier: Apache-2.0
"""The driver on the emulated card's XRT library: the same functions, handles and errors as on a card."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from hypersonic.firmware.errors import XclbinError
from hypersonic.firmware.kernel.registers import BUSY_CYCLES, ROWS, RUNS
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.host.compute_unit import BufferObject, ComputeUnit, Run
from hypersonic.host.device import Device
from hypersonic.host.driver import RunState
from hypersonic.host.errors import (
    BufferObjectError,
    ComputeUnitNotFoundError,
    ComputeUnitOutOfServiceError,
    DeviceBusyError,
    DeviceClosedError,
    DeviceError,
    DeviceNotFoundError,
)
from hypersonic.host.library import load_library
from hypersonic.host.opening import open_device

Build = tuple[Path, Manifest]


def _pair(unit: ComputeUnit, rows: int) -> tuple[BufferObject, BufferObject, Run]:
    x, y, run = unit.allocate(rows * 72, 0), unit.allocate(rows * 4, 1), unit.open_run()
    run.set_arg(0, x)
    run.set_arg(1, y)
    return x, y, run


def test_a_device_tells_what_is_on_it(device: Device, build: Build) -> None:
    assert device.uuid == build[1].uuid
    assert device.name == "xilinx_u250_gen3x16_xdma_4_1_202210_1"
    assert (device.target, device.contents.kernel_clock_mhz) == (Target.SW_EMU, 300)
    assert [unit.name for unit in device.open_units()] == ["facile_1", "facile_2"]


def test_each_compute_unit_uses_its_own_bank(device: Device) -> None:
    assert [[unit.group_id(0), unit.group_id(1)] for unit in device.open_units()] == [[0, 0], [1, 1]]
    addresses = [unit.allocate(4096, 0).address for unit in device.open_units()]
    assert [address >> 36 for address in addresses] == [4, 5]


def test_a_run_computes_the_rows_it_was_given(device: Device) -> None:
    x, y, run = _pair(device.open_units()[1], 100)
    x.array.view("<f4").reshape(100, 18)[:, :2] = np.arange(200).reshape(100, 2)
    x.sync_to_device(100 * 72)
    run.set_arg(2, 60)
    run.start()
    assert run.wait(5000) is RunState.COMPLETED
    y.sync_from_device(400)
    k = np.arange(60, dtype=np.float32)
    assert_array_equal(y.array.view("<f4")[:60], 6 * k + 1)
    assert_array_equal(y.array.view("<f4")[60:], np.zeros(40, np.float32))


def test_a_register_is_written_and_read_back(device: Device) -> None:
    unit = device.open_units()[1]
    unit.write_register(ROWS, 17)
    assert (unit.read_register(ROWS), device.open_units()[0].read_register(ROWS)) == (17, 0)
    unit.close()
    with pytest.raises(DeviceClosedError, match="compute unit facile_2 is closed"):
        unit.write_register(ROWS, 17)


def test_the_host_side_and_the_card_are_two_memories(device: Device) -> None:
    buffer = device.open_units()[0].allocate(4096, 0)
    buffer.array[:] = 1
    buffer.sync_to_device(4096)
    buffer.array[:] = 2
    buffer.sync_from_device(1024, offset=512)
    assert_array_equal(np.flatnonzero(buffer.array == 1), np.arange(512, 1536))


def test_the_array_is_the_mapped_memory_and_no_copy(device: Device) -> None:
    buffer = device.open_units()[0].allocate(4096, 0)
    assert (buffer.array.dtype.str, buffer.array.shape, buffer.array.flags.writeable) == ("|u1", (4096,), True)
    view = buffer.array
    buffer.array[5] = 77
    assert (view[5], view.flags.owndata) == (77, False)


@pytest.mark.parametrize(("size_bytes", "offset"), [(4097, 0), (4096, 1), (1, 4096), (-1, 0), (1, -1), (1 << 40, 0)])
def test_a_sync_outside_the_buffer_is_refused(device: Device, size_bytes: int, offset: int) -> None:
    buffer = device.open_units()[0].allocate(4096, 0)
    message = rf"{size_bytes} bytes at {offset} of a buffer object of 4096 do not sync (to|from) the card: .*EINVAL"
    with pytest.raises(BufferObjectError, match=message):
        buffer.sync_to_device(size_bytes, offset)
    with pytest.raises(BufferObjectError, match=message):
        buffer.sync_from_device(size_bytes, offset)
    buffer.sync_to_device(0)


def test_a_buffer_in_another_units_bank_is_refused(device: Device) -> None:
    first, second = device.open_units()
    _, _, run = _pair(first, 10)
    foreign = second.allocate(4096, 0)
    with pytest.raises(
        BufferObjectError, match="argument 0 of facile_1 does not take the buffer object: it is in memory bank 1, expected 0"
    ):
        run.set_arg(0, foreign)


def test_a_memory_bank_that_is_not_there_is_refused(device: Device) -> None:
    with pytest.raises(BufferObjectError, match="4096 bytes in memory 77 cannot be allocated"):
        device.open_units()[0].allocate_in(4096, 77)


def test_a_scalar_has_no_bank(device: Device) -> None:
    with pytest.raises(DeviceError, match="argument 2 has no memory bank"):
        device.open_units()[0].allocate(4096, 2)


def test_more_than_a_bank_holds_is_refused(device: Device) -> None:
    with pytest.raises(BufferObjectError, match="cannot be allocated"):
        device.open_units()[0].allocate(17 << 30, 0)


def test_registers_are_read_from_the_unit(device: Device) -> None:
    unit = device.open_units()[0]
    _, _, run = _pair(unit, 100)
    assert (unit.read_register(RUNS), unit.read_register(BUSY_CYCLES)) == (0, 0)
    run.set_arg(2, 7)
    run.start()
    run.wait(5000)
    assert (unit.read_register(RUNS), unit.read_register(BUSY_CYCLES)) == (1, 7)


def test_a_compute_unit_that_is_not_there_is_named(device: Device) -> None:
    with pytest.raises(ComputeUnitNotFoundError, match="compute unit is 'jet_1', the xclbin has facile_1, facile_2"):
        device.compute_unit("jet_1")


@pytest.mark.parametrize("name", ["jet", "facile:{facile_9}", "jet:{facile_1}"])
def test_xrt_refuses_a_kernel_that_is_not_in_the_xclbin(build: Build, name: str) -> None:
    library = load_library(Target.SW_EMU)
    card = library.open_device(3)
    try:
        library.load_xclbin(card, str(build[0]))
        with pytest.raises(ComputeUnitNotFoundError, match="cannot be opened"):
            library.open_kernel(card, build[1].uuid, name)
    finally:
        library.close_device(card)


def test_a_card_that_is_not_there_is_refused(build: Build) -> None:
    with pytest.raises(DeviceNotFoundError, match="card 1000 cannot be opened"):
        open_device(build[0], 1000)


def test_a_card_that_holds_another_xclbin_is_busy(device: Device, image: bytes, tmp_path: Path) -> None:
    other = tmp_path / "other.xclbin"
    other.write_bytes(assemble_xclbin("facile", Target.SW_EMU, find_platform("u250"), image))
    with pytest.raises(DeviceBusyError, match=r"EBUSY.*it is in use with another xclbin"):
        open_device(other)


@pytest.mark.parametrize("length", [0, 100, 400, 2000])
def test_a_truncated_xclbin_never_reaches_the_card(build: Build, tmp_path: Path, length: int) -> None:
    path = tmp_path / "cut.xclbin"
    path.write_bytes(build[0].read_bytes()[:length])
    with pytest.raises(XclbinError, match=r"cut\.xclbin: the file"):
        open_device(path)


def test_an_image_that_is_no_simulator_is_refused_and_the_card_released(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "foreign.xclbin"
    path.write_bytes(assemble_xclbin("facile", Target.SW_EMU, find_platform("u250"), b"\x7fELF but no more"))
    with pytest.raises(DeviceError, match=r"foreign\.xclbin cannot be loaded"):
        open_device(path)
    with open_device(build[0]) as after:
        assert after.uuid == build[1].uuid


def test_closing_twice_is_harmless_and_use_after_it_an_error(build: Build) -> None:
    device = open_device(build[0])
    unit = device.open_units()[0]
    x, _, run = _pair(unit, 10)
    for thing in (run, x, x, unit, device, device):
        thing.close()
    for use in (lambda: x.array, lambda: x.sync_to_device(1), lambda: run.wait(1), run.start, unit.open_run):
        with pytest.raises(DeviceClosedError, match="is closed"):
            use()
    with pytest.raises(DeviceClosedError):
        unit.read_register(0)


def test_a_card_can_be_opened_again_and_again(build: Build) -> None:
    for _ in range(5):
        with open_device(build[0]) as device:
            _pair(device.open_units()[0], 10)


def test_a_run_in_flight_is_waited_for_when_the_device_is_closed(build: Build) -> None:
    device = open_device(build[0])
    unit = device.open_units()[0]
    _, _, run = _pair(unit, 16_000)
    run.set_arg(2, 16_000)
    run.start()
    device.close()
    assert unit.in_service


def test_a_hung_run_times_out_and_its_unit_is_left_alone(build: Build, hang: Callable[[str], None]) -> None:
    hang("facile_1:1")
    with open_device(build[0]) as device:
        unit = device.open_units()[0]
        x, _, run = _pair(unit, 10)
        run.set_arg(2, 10)
        run.start()
        assert run.wait(50) is RunState.TIMEOUT
        unit.take_out_of_service()
        with pytest.raises(ComputeUnitOutOfServiceError, match="facile_1 is out of service"):
            unit.open_run().start()
        x.close()
