# SPDX-License-Identifier: Apache-2.0
"""Failures that a faulty XRT simulates: NULL, errnos, bad run states. Everything opened is released, in order."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.host.device import Device
from hypersonic.host.errors import (
    BufferObjectError,
    ComputeUnitNotFoundError,
    ComputeUnitTimeoutError,
    DeviceBusyError,
    DeviceError,
    DeviceLostError,
    DeviceNotFoundError,
    RunError,
    XclbinMismatchError,
)
from hypersonic.host.instance import ModelInstance, open_instances
from hypersonic.host.opening import open_device

Build = tuple[Path, Manifest]


@pytest.mark.parametrize(
    ("faults", "error", "message"),
    [
        ("xrtDeviceOpen=2", DeviceNotFoundError, "card 0 cannot be opened: XRT answered ENOENT"),
        (f"xrtDeviceOpen={errno.EACCES}", DeviceBusyError, r"this user may not open the card"),
        (f"xrtDeviceOpen={errno.EPERM}", DeviceBusyError, r"XRT answered EPERM .* not given the card by its batch job"),
        (f"xrtDeviceOpen={errno.ENXIO}", DeviceLostError, r"no driver answers for the card's device node"),
        (f"xrtDeviceOpen={errno.EAGAIN}", DeviceBusyError, r"another process is changing the card: try again"),
        (f"xrtDeviceOpen={errno.EINTR}", DeviceBusyError, r"a signal interrupted the call: try again"),
        (f"xrtDeviceOpen={errno.EMFILE}", DeviceError, r"too many open files: raise the limit \(`ulimit -n`\)"),
        (f"xrtDeviceOpen={errno.ENFILE}", DeviceError, r"too many open files: raise the limit \(`ulimit -n`\)"),
        (f"xrtDeviceOpen={errno.ENODEV}", DeviceNotFoundError, r"there is no such card"),
        (f"xrtDeviceLoadXclbinFile={errno.EPERM}", DeviceBusyError, r"XRT answered EPERM"),
        (f"xrtDeviceLoadXclbinFile={errno.ENOMEM}", BufferObjectError, "the memory bank is full"),
        (f"xrtDeviceLoadXclbinFile={errno.ENOSPC}", BufferObjectError, "the memory bank is full"),
        (f"xrtDeviceLoadXclbinFile={errno.ENOTTY}", DeviceError, "the driver does not know this call: install driver and"),
        (f"xrtDeviceLoadXclbinFile={errno.ENOSYS}", DeviceError, "the driver does not know this call: install driver and"),
        (f"xrtDeviceLoadXclbinFile={errno.EBUSY}", DeviceBusyError, "it is in use with another xclbin"),
        (f"xrtDeviceLoadXclbinFile={errno.EOPNOTSUPP}", XclbinMismatchError, "built for another shell: build it for"),
        (f"xrtDeviceLoadXclbinFile={errno.EINVAL}", DeviceError, r"model\.xclbin cannot be loaded: XRT answered EINVAL"),
        (f"xrtDeviceGetXclbinUUID={errno.ENODEV}", DeviceLostError, "gone from the bus: `xrt-smi reset`"),
    ],
)
def test_a_device_that_cannot_be_opened_says_why_and_what_to_do(
    faulty: Any, build: Build, faults: str, error: type[DeviceError], message: str
) -> None:
    faulty.set(faults)
    with pytest.raises(error, match=message):
        open_device(build[0])
    assert faulty.journal() == ["device"] * ("xrtDeviceOpen" not in faults)


def test_a_unit_that_cannot_be_opened_closes_those_before_it(faulty: Any, build: Build) -> None:
    with open_device(build[0]) as device:
        faulty.set(f"xrtPLKernelOpenExclusive={errno.EINVAL}@2")
        with pytest.raises(ComputeUnitNotFoundError, match=r"facile:\{facile_2\} cannot be opened"):
            open_instances(device, build[1], slots=1)
        assert faulty.journal() == ["run", "buffer", "buffer", "kernel"]


def test_another_xclbin_than_the_file_is_refused(faulty: Any, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypersonic.host.xrt.Library.xclbin_uuid", lambda *_: "f" * 32)
    with pytest.raises(XclbinMismatchError, match=r"card 0 holds xclbin ffff.*another process loaded its own"):
        open_device(build[0])
    assert faulty.journal() == ["device"]


@pytest.mark.parametrize(
    ("fault", "given_back"),
    [
        ("xrtBOAlloc=12@1", []),
        ("xrtBOAlloc=12@2", ["buffer"]),
        ("xrtBOMap=12@1", ["buffer"]),
        ("xrtBOMap=12@2", ["buffer", "buffer"]),
        ("xrtRunOpen=12@1", ["buffer", "buffer"]),
        ("xrtRunSetArg=12@2", ["run", "buffer", "buffer"]),
        ("xrtBOAlloc=12@3", ["run", "buffer", "buffer"]),
        ("xrtRunOpen=12@3", ["buffer", "buffer", "kernel"] + ["run", "buffer", "buffer"] * 2),
    ],
)
def test_a_load_that_fails_half_way_gives_everything_back(faulty: Any, build: Build, fault: str, given_back: list[str]) -> None:
    with open_device(build[0]) as device:
        faulty.set(fault)
        with pytest.raises(BufferObjectError, match=r"ENOMEM.*the memory bank is full"):
            open_instances(device, build[1], slots=2)
        assert faulty.journal() == [*given_back, "kernel"]
    assert faulty.journal() == [*given_back, "kernel", "device"]


def _one(device: Device, build: Build) -> ModelInstance:
    return open_instances(device, build[1], slots=1)[0]


def test_handles_go_back_in_the_opposite_order(faulty: Any, build: Build) -> None:
    with open_device(build[0]) as device:
        open_instances(device, build[1], slots=1)
    unit = ["run", "buffer", "buffer", "kernel"]
    assert faulty.journal() == [*unit, *unit, "device"]


@pytest.mark.parametrize("code", [errno.ENODEV, errno.EIO, errno.ESHUTDOWN, errno.ETIMEDOUT])
@pytest.mark.parametrize("call", ["xrtBOSync", "xrtRunStart"])
def test_a_lost_card_takes_its_units_out_of_service(faulty: Any, build: Build, call: str, code: int) -> None:
    with open_device(build[0]) as device:
        instance = _one(device, build)
        faulty.set(f"{call}={code}")
        with pytest.raises(DeviceLostError, match="`xrt-smi reset`, then start again"):
            instance.slots[0].start(5)
        assert not instance.in_service


def test_a_failing_fetch_is_reported_and_the_slot_is_free_again(faulty: Any, build: Build) -> None:
    with open_device(build[0]) as device:
        slot = _one(device, build).slots[0]
        faulty.set(f"xrtBOSync={errno.EFAULT}@2")
        slot.start(5)
        with pytest.raises(
            BufferObjectError, match=r"20 bytes at 0 of a buffer object of 65536 do not sync from the card: .*EFAULT"
        ):
            slot.finish(100)
        slot.start(5)
        slot.finish(100)


@pytest.mark.parametrize(("state", "name"), [(5, "ERROR"), (6, "ABORT"), (9, "NORESPONSE"), (11, "SKCRASHED")])
def test_a_run_that_ends_badly_is_reported_by_its_state(faulty: Any, build: Build, state: int, name: str) -> None:
    with open_device(build[0]) as device:
        instance = _one(device, build)
        faulty.set(f"state={state}")
        instance.slots[0].start(5)
        with pytest.raises(RunError, match=f"5 rows on facile_1 ended as {name}, expected COMPLETED"):
            instance.slots[0].finish(100)
        assert instance.in_service


@pytest.mark.parametrize("state", [0, 42, -22])
def test_a_state_that_is_none_is_reported(faulty: Any, build: Build, state: int) -> None:
    with open_device(build[0]) as device:
        slot = _one(device, build).slots[0]
        faulty.set(f"state={state}")
        slot.start(5)
        with pytest.raises(RunError, match=f"its state is {state}"):
            slot.finish(100)


@pytest.mark.parametrize(
    "faults", ["state=3", "wait=8 state=3", "wait=8 state=8"], ids=["running", "XRT 2.13 and later", "timed out"]
)
def test_every_way_xrt_tells_a_timeout_is_understood_and_nothing_is_freed(faulty: Any, build: Build, faults: str) -> None:
    with open_device(build[0]) as device:
        instance = _one(device, build)
        faulty.set(faults)
        instance.slots[0].start(5)
        with pytest.raises(ComputeUnitTimeoutError, match="did not complete within 30 ms"):
            instance.slots[0].finish(30)
        assert not instance.in_service
    assert faulty.journal() == ["run", "buffer", "buffer", "kernel", "device"], "the other unit's, and the card"


def test_a_wait_that_says_timeout_although_the_run_completed_is_believed_to_have_completed(faulty: Any, build: Build) -> None:
    with open_device(build[0]) as device:
        slot = _one(device, build).slots[0]
        faulty.set("wait=8 state=4")
        slot.start(5)
        slot.finish(30)


def test_registers_that_cannot_be_read_count_nothing(faulty: Any, build: Build) -> None:
    with open_device(build[0]) as device:
        faulty.set(f"xrtKernelReadRegister={errno.EPERM}")
        assert _one(device, build).busy_clocks() >= 0


def test_a_close_that_fails_still_closes_the_rest(faulty: Any, build: Build) -> None:
    device = open_device(build[0])
    open_instances(device, build[1], slots=1)
    faulty.set(f"xrtRunClose={errno.EINVAL}")
    with pytest.raises(RunError, match="a run cannot be closed"):
        device.close()
    assert faulty.journal().count("buffer") == 4
    assert faulty.journal()[-1] == "device"
    device.close()
