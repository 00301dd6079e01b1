# SPDX-License-Identifier: Apache-2.0
"""Devices, xclbins and buffer objects of the emulated card, through XRT's C functions."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.sim.card.library import library_path

if TYPE_CHECKING:
    from tests.sim.conftest import WriteXclbin, Xrt

UNKNOWN = 0x1234


def test_a_device_is_opened_by_index_or_by_bus_address(xrt: Xrt) -> None:
    xrt.device()
    for bdf in (b"0000:01:00.1", b"02:00.1"):
        xrt.open("xrtDeviceClose", xrt.xrtDeviceOpenByBDF(bdf))


def test_a_device_that_is_not_there_is_an_error(xrt: Xrt, capfd: pytest.CaptureFixture[str]) -> None:
    assert xrt.error("xrtDeviceOpen", 99) == "ENODEV"
    assert capfd.readouterr().err == "[XRT] ERROR: No such device with index '99'\n"
    for bdf in (b"", b"nonsense", b"0000:00:00.1", b"0001:01:00.1", b"0000:01:00.0", b"0000:01:00.1x", b"0000:63:00.1"):
        assert xrt.error("xrtDeviceOpenByBDF", bdf) == "ENODEV"
    assert xrt.error("xrtDeviceOpenByBDF", None) == "EINVAL"


def test_the_number_of_cards_comes_from_the_environment(xrt: Xrt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "6")
    xrt.device(index=5)
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "many")
    assert xrt.error("xrtDeviceOpen", 0) == "EINVAL"


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("xrtDeviceClose", (), "No such device handle"),
        ("xrtDeviceLoadXclbinFile", (b"x",), "No such device handle"),
        ("xrtDeviceGetXclbinUUID", (None,), "No such device handle"),
        ("xrtBOAlloc", (4096, 0, 0), "No such device handle"),
        ("xrtBOMap", (), "No such buffer handle"),
        ("xrtBOAddress", (), "No such buffer handle"),
        ("xrtBOSize", (), "No such buffer handle"),
        ("xrtBOSync", (0, 1, 0), "No such buffer handle"),
        ("xrtBOFree", (), "No such buffer handle"),
        ("xrtKernelArgGroupId", (0,), "Unknown kernel handle"),
        ("xrtKernelArgOffset", (0,), "Unknown kernel handle"),
        ("xrtKernelReadRegister", (0, None), "Unknown kernel handle"),
        ("xrtKernelWriteRegister", (0, 0), "Unknown kernel handle"),
        ("xrtKernelClose", (), "Unknown kernel handle"),
        ("xrtRunOpen", (), "Unknown kernel handle"),
        ("xrtRunSetArg", (0, ctypes.c_uint32(0)), "Unknown run handle"),
        ("xrtRunStart", (), "Unknown run handle"),
        ("xrtRunState", (), "Unknown run handle"),
        ("xrtRunWait", (), "Unknown run handle"),
        ("xrtRunWaitFor", (1,), "Unknown run handle"),
        ("xrtRunClose", (), "Unknown run handle"),
    ],
)
def test_a_handle_that_nobody_gave_out_is_an_error(
    xrt: Xrt, capfd: pytest.CaptureFixture[str], function: str, arguments: tuple[object, ...], message: str
) -> None:
    assert xrt.error(function, UNKNOWN, *arguments) == "EINVAL"
    assert capfd.readouterr().err == f"[XRT] ERROR: {message}\n"


def test_a_loaded_xclbin_tells_its_uuid(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    path = write_xclbin()
    assert bytes(xrt.uuid(xrt.device(path))).hex() == Xclbin.read(path).uuid


def test_nothing_is_there_before_an_xclbin_is_loaded(xrt: Xrt, capfd: pytest.CaptureFixture[str]) -> None:
    device = xrt.device()
    uuid = (ctypes.c_ubyte * 16)()
    assert xrt.error("xrtDeviceGetXclbinUUID", device, uuid) == "ENODEV"
    assert xrt.error("xrtBOAlloc", device, 4096, 0, 0) == "ENODEV"
    assert xrt.error("xrtPLKernelOpen", device, uuid, b"stub") == "ENODEV"
    assert capfd.readouterr().err == "[XRT] ERROR: No xclbin is loaded\n" * 3


def test_one_device_holds_one_xclbin(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    first, second = write_xclbin(), write_xclbin(compute_units=2)
    device = xrt.device(first)
    again = xrt.device(first)
    assert bytes(xrt.uuid(device)) == bytes(xrt.uuid(again))
    kernel = xrt.kernel(device, "stub")
    assert xrt.error("xrtDeviceLoadXclbinFile", again, bytes(second)) == "EBUSY"
    xrt.close(kernel)
    buffer = xrt.buffer(device, 64)
    assert xrt.error("xrtDeviceLoadXclbinFile", again, bytes(second)) == "EPERM"
    xrt.close(buffer.handle)
    assert xrt.xrtDeviceLoadXclbinFile(again, bytes(second)) == 0
    assert bytes(xrt.uuid(device)).hex() == Xclbin.read(second).uuid


def test_two_devices_hold_two_xclbins(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    first, second = write_xclbin(), write_xclbin(compute_units=2)
    assert bytes(xrt.uuid(xrt.device(first, 0))) != bytes(xrt.uuid(xrt.device(second, 1)))


def test_buffers_lie_in_the_bank_of_their_group_on_page_borders(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin(compute_units=2))
    addresses = [xrt.xrtBOAddress(xrt.buffer(device, 5000, group).handle) for group in (0, 1, 0, 1)]
    assert [hex(a) for a in addresses] == ["0x4000000000", "0x5000000000", "0x4000002000", "0x5000002000"]


def test_a_freed_place_is_given_out_again(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin())
    first, middle, last = (xrt.buffer(device, 4096) for _ in range(3))
    place = xrt.xrtBOAddress(middle.handle)
    middle.array[:] = 7
    middle.to_device()
    xrt.close(middle.handle)
    assert xrt.xrtBOAddress(xrt.buffer(device, 4097).handle) > xrt.xrtBOAddress(last.handle)
    again = xrt.buffer(device, 100)
    assert xrt.xrtBOAddress(again.handle) == place
    again.from_device()
    assert not again.array.any()
    assert xrt.xrtBOAddress(first.handle) == 0x4000000000


def test_a_bank_that_is_full_is_an_error(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin(platform="u55c"))
    xrt.buffer(device, 512 << 20)
    assert xrt.xrtBOAddress(xrt.buffer(device, 2 << 20, 32).handle) == 512 << 20  # the group has three channels more
    assert xrt.error("xrtBOAlloc", device, 1, 0, 0) == "ENOMEM"
    assert xrt.error("xrtBOAlloc", device, (1 << 64) - 1, 0, 0) == "ENOMEM"


@pytest.mark.parametrize(
    ("size", "flags", "group", "code"),
    [(0, 0, 0, "EINVAL"), (64, 0, 1, "EINVAL"), (64, 0, 77, "EINVAL"), (64, 1 << 29, 0, "ENOTSUP")],
)
def test_a_buffer_that_no_card_gives_is_an_error(
    xrt: Xrt, write_xclbin: WriteXclbin, *, size: int, flags: int, group: int, code: str
) -> None:
    assert xrt.error("xrtBOAlloc", xrt.device(write_xclbin()), size, flags, group) == code


def test_host_and_card_memory_are_two_until_synced(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    buffer = xrt.buffer(xrt.device(write_xclbin()), 256)
    assert xrt.xrtBOSize(buffer.handle) == 256
    assert xrt.xrtBOMap(buffer.handle) % 4096 == 0
    buffer.array[:] = np.arange(256)
    assert xrt.xrtBOSync(buffer.handle, 0, 100, 50) == 0
    buffer.array[:] = 0xEE
    buffer.from_device()
    expected = np.where((np.arange(256) >= 50) & (np.arange(256) < 150), np.arange(256), 0)
    np.testing.assert_array_equal(buffer.array, expected)


@pytest.mark.parametrize(
    ("direction", "size", "offset"), [(0, 257, 0), (1, 1, 256), (0, 2, (1 << 64) - 1), (0, (1 << 64) - 1, 2), (2, 1, 0)]
)
def test_a_sync_outside_the_buffer_is_an_error(
    xrt: Xrt, write_xclbin: WriteXclbin, direction: int, size: int, offset: int
) -> None:
    buffer = xrt.buffer(xrt.device(write_xclbin()), 256)
    assert xrt.error("xrtBOSync", buffer.handle, direction, size, offset) == "EINVAL"
    assert xrt.xrtBOSync(buffer.handle, 0, 0, 256) == 0


def test_handles_may_be_closed_in_any_order_and_only_once(xrt: Xrt, write_xclbin: WriteXclbin) -> None:
    device = xrt.device(write_xclbin())
    kernel = xrt.kernel(device, "stub")
    x, y = xrt.buffer(device, 64), xrt.buffer(device, 64)
    x.fill([1.0, 2.0])
    run = xrt.run(kernel, x, y, 2)
    xrt.close(device)
    assert xrt.error("xrtDeviceClose", device) == "EINVAL"
    assert xrt.error("xrtBOAlloc", device, 64, 0, 0) == "EINVAL"
    xrt.close(kernel)
    xrt.start(run)
    assert xrt.finish(run).name == "COMPLETED"
    np.testing.assert_array_equal(y.floats(2), [2.0, 4.0])
    xrt.close(x.handle)
    xrt.close(y.handle)
    xrt.close(run)
    for closer, handle in (("xrtKernelClose", kernel), ("xrtBOFree", y.handle), ("xrtRunClose", run)):
        assert xrt.error(closer, handle) == "EINVAL"


def test_the_library_exports_the_xrt_functions_and_nothing_else() -> None:
    listed = subprocess.run(["nm", "-D", "--defined-only", library_path()], capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert len(names) == 25
    assert all(name.startswith("xrt") for name in names)


def test_a_path_that_is_no_file_is_an_error(xrt: Xrt, tmp_path: Path) -> None:
    device = xrt.device()
    assert xrt.error("xrtDeviceLoadXclbinFile", device, bytes(tmp_path / "absent.xclbin")) == "ENOENT"
    assert xrt.error("xrtDeviceLoadXclbinFile", device, bytes(tmp_path)) == "EINVAL"
    assert xrt.error("xrtDeviceLoadXclbinFile", device, None) == "EINVAL"
